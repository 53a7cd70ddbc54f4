#pragma once

#include "io/sample_reader.hpp"
#include "io/text_file.hpp"
#include "network/sparse_matrix.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace varve {

/// A file of text lines with three numbers: two indices from 1 and a value, separated by tabs or blanks. Blank lines,
/// lines that begin with % or #, carriage returns and a missing end of the last line are accepted.
struct TripleText {
  std::filesystem::path path;
  std::array<std::string_view, 3> names = {}; ///< names of the columns, for messages
  std::array<std::uint64_t, 2> largest = {};  ///< largest valid index in the first and in the second column
  std::size_t row_position = 0;               ///< which of the two indices is the row of the matrix: 0 or 1
  bool drops_zeros = false;                   ///< true if entries of value 0 are not stored
  bool is_parallel = false;                   ///< true if all host threads parse blocks and sort rows
  OptionalSampleRange wanted = std::nullopt;  ///< the wanted rows, from 0; nullopt: all that the file contains

  std::size_t num_columns() const { return largest[1 - row_position]; } ///< of the matrix
};

/// Entries of a matrix in the order of a text.
struct TripleBlock {
  /// Consecutive entries of one row.
  struct Run {
    NeuronIndex row = 0; ///< from 0, counted from the first wanted row
    NeuronIndex num_entries = 0;
  };

  std::vector<Run> runs;
  std::vector<NeuronIndex> columns;
  std::vector<double> values;    ///< one per entry, or exactly one shared by all
  std::uint64_t largest_row = 0; ///< in the text, from 1, wanted or not

  void add(NeuronIndex row, NeuronIndex column, double value) {
    constexpr auto most = std::numeric_limits<NeuronIndex>::max();
    if (runs.empty() || runs.back().row != row || runs.back().num_entries == most) runs.push_back({row, 0});
    ++runs.back().num_entries;
    if (columns.empty()) {
      values = {value};
    } else if (values.size() > 1 || !same_bits(values[0], value)) {
      if (values.size() == 1) values.resize(columns.size(), double(values[0]));
      values.push_back(value);
    }
    columns.push_back(column);
  }
};

/// Builds a matrix from the entries of all blocks, in the order of the text; frees each block once it is copied.
SparseMatrix gather_rows(std::vector<TripleBlock> blocks, std::size_t num_rows, std::size_t num_columns);

/// Sorts all rows by column, with `parallel` on all host threads; returns the first row that contains a column twice.
std::optional<std::size_t> sort_rows(SparseMatrix& matrix, bool parallel);

/// What read_triples finds: a matrix or, if the text is too large, what open_triples needs.
struct TripleScan {
  /// Rows in order, columns ascending; one shared value if all values are equal.
  std::optional<SparseMatrix> whole;
  std::uint64_t largest_row = 0;   ///< largest row index of the file, from 1; 0 if the file has no entry
  SampleFacts facts;               ///< of the wanted rows as samples
  std::vector<std::uint64_t> sums; ///< checksums of the text blocks
};

/// Reads a file of triples, in any order, into the wanted rows of a sparse matrix. The result has no matrix if building
/// it takes more than `max_bytes`; in that case, throws InputError if the rows do not ascend, because open_triples
/// could not read them. Throws InputError with file, line, what was found and what was expected for an incomplete line,
/// a missing or extra column, a malformed number, an index out of range, a value that is not finite, or a pair of
/// indices given twice.
TripleScan read_triples(TripleText const& source, std::optional<std::size_t> max_bytes = std::nullopt);

/// Opens a text of triples with ascending rows, which read_triples has scanned, to read it part by part; rows between
/// parts are skipped. Memory use is bounded by the size of a part. Throws InputError as TextReader does; reading throws
/// InputError as read_triples does, and if the text differs from the one that was scanned.
std::unique_ptr<SampleReader> open_triples(TripleText const& source, TripleScan&& scan);

} // namespace varve
