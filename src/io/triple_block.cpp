#include "io/triple_block.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/checksum.hpp"
#include "io/same_bits.hpp"
#include "io/triple_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;

/// Collects triples as runs of rows; stores a single value as long as all are equal.
class BlockBuilder {
public:
  BlockBuilder(TripleFormat const& format, WantedRows const& wanted)
      : row_position_(format.row_position),
        drops_zeros_(format.drops_zeros),
        first_row_(wanted.first),
        last_row_(wanted.last.value_or(std::numeric_limits<std::uint64_t>::max())) {}

  void add(Triple const& triple) {
    auto const row = triple.index[row_position_] - 1;
    block_.largest_row = std::max(block_.largest_row, row + 1);
    if (row < first_row_ || row >= last_row_ || (drops_zeros_ && triple.value == 0.0)) return;
    if (block_.runs.empty() || block_.runs.back().row != row - first_row_) block_.runs.push_back({row - first_row_, 0});
    ++block_.runs.back().num_entries;
    add_value(triple.value);
    block_.columns.push_back(static_cast<NeuronIndex>(triple.index[1 - row_position_] - 1));
  }

  TripleBlock take() { return std::move(block_); }

private:
  /// Call before the column of the same entry is stored.
  void add_value(double value) {
    if (all_equal_) {
      if (block_.columns.empty()) block_.values = {value};
      if (same_bits(block_.values[0], value)) return;
      all_equal_ = false;
      block_.values.assign(block_.columns.size(), double(block_.values[0]));
    }
    block_.values.push_back(value);
  }

  TripleBlock block_;
  std::size_t row_position_;
  bool drops_zeros_;
  std::uint64_t first_row_;
  std::uint64_t last_row_;
  bool all_equal_ = true;
};

TripleBlock parse_block(TextBlock const& text, TripleFormat const& format, WantedRows const& wanted,
                        fs::path const& path) {
  BlockBuilder builder(format, wanted);
  LineScanner scanner(text.text, format);
  Triple triple;
  for (std::size_t line = text.first_line; !scanner.at_end(); ++line) {
    if (scanner.scan(triple)) {
      builder.add(triple);
    } else if (auto const careful = parse_line(scanner.take_line(), format, path, line)) {
      builder.add(*careful);
    }
  }
  return builder.take();
}

} // namespace

std::size_t bytes_of(TripleBlock const& block) {
  auto const entries = block.columns.size() * sizeof(NeuronIndex) + block.values.size() * sizeof(double);
  return block.runs.size() * sizeof(Run) + 2 * entries;
}

TripleBlock take_rows_below(TripleBlock& block, std::uint64_t row) {
  auto const end_of_runs = std::ranges::find_if(block.runs, [&](Run const& run) { return run.row >= row; });
  TripleBlock taken;
  std::uint64_t num_entries = 0;
  for (auto run = block.runs.begin(); run != end_of_runs; ++run) num_entries += run->num_entries;
  auto const count = static_cast<std::ptrdiff_t>(num_entries);
  bool const has_one_value = block.values.size() == 1;
  taken.runs.assign(block.runs.begin(), end_of_runs);
  taken.columns.assign(block.columns.begin(), block.columns.begin() + count);
  taken.values.assign(block.values.begin(), has_one_value ? block.values.end() : block.values.begin() + count);
  if (taken.columns.empty()) taken.values.clear();
  block.runs.erase(block.runs.begin(), end_of_runs);
  block.columns.erase(block.columns.begin(), block.columns.begin() + count);
  if (!has_one_value) block.values.erase(block.values.begin(), block.values.begin() + count);
  return taken;
}

BlockParser::BlockParser(fs::path const& path, TripleFormat const& format, WantedRows const& wanted, bool parallel,
                         std::optional<std::vector<std::uint64_t>> expected)
    : path_(path),
      format_(format),
      wanted_(wanted),
      reader_(std::make_unique<TextReader>(path_)),
      num_threads_(parallel ? num_host_threads() : 1),
      expected_(std::move(expected)) {}

BlockParser::Texts BlockParser::read_texts(TextReader& reader, std::size_t most, Texts texts) {
  texts.resize(most);
  std::size_t num_texts = 0;
  while (num_texts < most && reader.next(texts[num_texts])) ++num_texts;
  texts.resize(num_texts);
  return texts;
}

BlockParser::Texts BlockParser::take_texts() {
  auto texts = ahead_.valid() ? ahead_.get() : read_texts(*reader_, most_texts_, std::move(parsed_));
  bool const is_whole_group = texts.size() == most_texts_;
  most_texts_ = std::min(2 * most_texts_, num_threads_);
  if (is_whole_group && num_threads_ > 1)
    ahead_ = std::async(std::launch::async, read_texts, std::ref(*reader_), most_texts_, std::move(parsed_));
  parsed_ = {};
  return texts;
}

/// Parses the next blocks; returns none at the end of the file.
std::vector<TripleBlock> BlockParser::next() {
  auto texts = take_texts();
  auto const num_texts = texts.size();
  auto const first = sums_.size();
  sums_.resize(first + num_texts);
  if (num_texts == 0 && expected_ && first < expected_->size()) fail_changed();
  for (auto const& text : texts) num_bytes_ += text.text.size();
  std::vector<TripleBlock> blocks(num_texts);
  for_each_on_host_threads(num_texts, [&](std::size_t number) {
    auto& sum = sums_[first + number];
    sum = checksum(texts[number].text);
    if (expected_ && (first + number >= expected_->size() || (*expected_)[first + number] != sum)) fail_changed();
    blocks[number] = parse_block(texts[number], format_, wanted_, path_);
  });
  parsed_ = std::move(texts);
  return blocks;
}

void BlockParser::fail_changed() const {
  throw InputError(
      fmt::format("{} changed while it was read: its second reading gave another text than its first", path_.string()));
}

} // namespace varve
