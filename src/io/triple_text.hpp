#pragma once

#include "io/text_file.hpp"
#include "network/sparse_matrix.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace varve {

/// Lines of three numbers: two indices from 1 and a value, separated by tabs or blanks. Blank lines, lines that begin
/// with % or #, carriage returns and a missing end of the last line are accepted.
struct TripleFormat {
  std::array<std::string_view, 3> names;  ///< what the columns hold, for messages
  std::array<std::uint64_t, 2> largest{}; ///< largest index of the first and of the second column
  std::size_t row_position = 0;           ///< which of the two indices is the row of the matrix: 0 or 1
  bool drops_zeros = false;               ///< entries of value 0 are not stored
};

/// What a text of triples held.
struct TripleMatrix {
  SparseMatrix matrix;           ///< rows in order, columns ascending, values once if all are equal
  std::uint64_t largest_row = 0; ///< largest row index of the file, from 1; 0 if there is no line
};

/// Rows of the matrix wanted, from 0: [first, last); without a last one, all that the file names.
struct WantedRows {
  std::uint64_t first = 0;
  std::optional<std::uint64_t> last;
};

/// Reads a file of triples, in any order, as the wanted rows of a sparse matrix with `num_columns` columns. With
/// `parallel` its blocks are parsed on all host threads. Throws InputError with file, line, what was found and what was
/// expected: half a line, a missing or an extra column, no number, an index out of range, a value that is not finite,
/// a pair of indices given twice.
TripleMatrix read_triples(std::filesystem::path const& path, TripleFormat const& format, std::size_t num_columns,
                          WantedRows const& wanted, bool parallel);

/// What a first reading of a text of triples has found.
struct TripleScan {
  std::optional<TripleMatrix> whole; ///< all of it, if it was small enough
  std::uint64_t largest_row = 0;     ///< as in TripleMatrix
  std::uint64_t num_entries = 0;     ///< of the wanted rows
  bool has_one_value = false;        ///< all entries are equal
  std::vector<std::uint64_t> sums;   ///< checksums of the blocks of the text, for TripleRows
};

/// As read_triples with `parallel`, for a text that may be too large: gives no matrix if it takes more than `bytes` of
/// memory on the way. Throws InputError then, too, if a row stands before one of a smaller number, for TripleRows could
/// not read it.
TripleScan scan_triples(std::filesystem::path const& path, TripleFormat const& format, std::size_t num_columns,
                        WantedRows const& wanted, std::size_t bytes);

/// Reads a text of triples whose rows ascend part by part, in memory bounded by the parts asked for.
class TripleRows {
public:
  /// `sums` are those that scan_triples has found. Throws InputError as TextReader does.
  TripleRows(std::filesystem::path path, TripleFormat const& format, std::size_t num_columns, WantedRows const& wanted,
             std::vector<std::uint64_t> sums);
  ~TripleRows();

  /// The rows [first, last), counted from the first wanted one. Parts are asked for in ascending order; what lies
  /// between them is skipped. Throws InputError as read_triples does, and if the text is no longer what was scanned.
  SparseMatrix read(std::uint64_t first, std::uint64_t last);

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

} // namespace varve
