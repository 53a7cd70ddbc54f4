#pragma once

#include "io/text_file.hpp"
#include "io/triple_text.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

/// Blocks of a text of triples: several are parsed at a time, each by one thread.
namespace varve {

/// Consecutive entries of a text that belong to one row.
struct Run {
  std::uint64_t row = 0; ///< from 0, counted from the first wanted row
  std::uint64_t num_entries = 0;
};

/// The entries of one block of text, in the order of the text.
struct TripleBlock {
  std::vector<Run> runs;
  std::vector<NeuronIndex> columns;
  std::vector<double> values; ///< one per entry, or exactly one shared by all
  std::uint64_t largest_row = 0;
};

/// Memory of a block and of the part of the matrix built from it.
std::size_t bytes_of(TripleBlock const& block);

/// Moves the leading entries of a block with rows below `row` out of the block.
TripleBlock take_rows_below(TripleBlock& block, std::uint64_t row);

/// Parses a text, several blocks at a time. While they are parsed, another thread reads and inflates the next ones.
class BlockParser {
public:
  /// With `parallel`, blocks are parsed on all host threads. If `expected` is given, throws InputError unless it holds
  /// the checksums of all blocks of the text.
  BlockParser(std::filesystem::path const& path, TripleFormat const& format, WantedRows const& wanted, bool parallel,
              std::optional<std::vector<std::uint64_t>> expected = std::nullopt);

  /// Parses the next blocks; returns none at the end of the file.
  std::vector<TripleBlock> next();

  /// Checksums of all blocks parsed so far.
  std::vector<std::uint64_t> take_sums() { return std::move(sums_); }

  /// Bytes of text parsed so far.
  std::uint64_t num_bytes() const { return num_bytes_; }

private:
  [[noreturn]] void fail_changed() const;

  using Texts = std::vector<TextBlock>;

  /// Reads the next blocks into the memory of `texts`; none at the end of the file.
  static Texts read_texts(TextReader& reader, std::size_t most, Texts texts);
  /// The blocks to parse now. Starts to read the ones after them.
  Texts take_texts();

  std::filesystem::path path_;
  TripleFormat format_;
  WantedRows wanted_;
  std::unique_ptr<TextReader> reader_; ///< stays in its place, because another thread uses it
  std::uint64_t num_bytes_ = 0;
  std::size_t num_threads_;
  /// Number of blocks to read next; it grows, so that errors near the start are reported before many blocks are read.
  std::size_t most_texts_ = 1;
  Texts parsed_; ///< blocks whose memory can be used again
  std::vector<std::uint64_t> sums_;
  std::optional<std::vector<std::uint64_t>> expected_;
  std::future<Texts> ahead_; ///< the blocks after those that are parsed; last, so that it ends before what it uses
};

} // namespace varve
