#pragma once

#include "io/sample_reader.hpp"
#include "io/text_file.hpp"
#include "network/sparse_matrix.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace varve {

/// Format of text lines with three numbers: two indices from 1 and a value, separated by tabs or blanks. Blank lines,
/// lines that begin with % or #, carriage returns and a missing end of the last line are accepted.
struct TripleFormat {
  std::array<std::string_view, 3> names;  ///< names of the columns, for messages
  std::array<std::uint64_t, 2> largest{}; ///< largest valid index in the first and in the second column
  std::size_t row_position = 0;           ///< which of the two indices is the row of the matrix: 0 or 1
  bool drops_zeros = false;               ///< true if entries of value 0 are not stored
};

/// The wanted rows [first, last) of the matrix, from 0. Without `last`, all rows from `first` that the file contains.
struct WantedRows {
  std::uint64_t first = 0;
  std::optional<std::uint64_t> last;
};

/// What read_triples finds: a matrix or, if the text is too large, what open_triples needs.
struct TripleScan {
  /// Rows in order, columns ascending; one shared value if all values are equal.
  std::optional<SparseMatrix> whole;
  std::uint64_t largest_row = 0;   ///< largest row index of the file, from 1; 0 if the file has no entry
  SampleFacts facts;               ///< of the wanted rows as samples
  std::vector<std::uint64_t> sums; ///< checksums of the text blocks
};

/// Reads a file of triples, in any order, into the wanted rows of a sparse matrix with `num_columns` columns. With
/// `parallel`, blocks are parsed on all host threads. The result has no matrix if building it takes more than
/// `max_bytes`; in that case, throws InputError if the rows do not ascend, because open_triples could not read them.
/// Throws InputError with file, line, what was found and what was expected for an incomplete line, a missing or extra
/// column, a malformed number, an index out of range, a value that is not finite, or a pair of indices given twice.
TripleScan read_triples(std::filesystem::path const& path, TripleFormat const& format, std::size_t num_columns,
                        WantedRows const& wanted, bool parallel, std::optional<std::size_t> max_bytes = std::nullopt);

/// Opens a text of triples with ascending rows, which read_triples has scanned, to read it part by part; rows between
/// parts are skipped. Memory use is bounded by the size of a part. Throws InputError as TextReader does; reading throws
/// InputError as read_triples does, and if the text differs from the one that was scanned.
std::unique_ptr<SampleReader> open_triples(std::filesystem::path const& path, TripleFormat const& format,
                                           WantedRows const& wanted, TripleScan&& scan);

/// Sorts the entries of a row of a matrix by column.
void sort_row(SparseMatrix& matrix, std::size_t row);

/// Writes lines of three numbers, separated by tabs, through a buffer of bounded size.
class TripleWriter {
public:
  explicit TripleWriter(std::filesystem::path const& path, Appears appears = Appears::by_itself)
      : file_(path, appears) {}

  void write(std::uint64_t first, std::uint64_t second, double value) {
    fmt::format_to(std::back_inserter(text_), "{}\t{}\t{}\n", first, second, value);
    if (text_.size() > 1 << 20) flush();
  }

  void commit() {
    flush();
    file_.commit();
  }

private:
  void flush() {
    file_.write({text_.data(), text_.size()});
    text_.clear();
  }

  TextWriter file_;
  fmt::memory_buffer text_;
};

} // namespace varve
