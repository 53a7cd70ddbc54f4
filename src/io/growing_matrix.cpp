#include "io/growing_matrix.hpp"

#include "core/error.hpp"
#include "io/binsparse.hpp"
#include "network/activations.hpp"

namespace varve {

GrowingMatrix::GrowingMatrix(hid_t file, std::string const& name, std::size_t num_columns,
                             std::filesystem::path const& path)
    : path_(path),
      name_(name),
      group_(hdf5::create_group(file, name, path)),
      pointers_(group_.id(), "pointers_to_1", H5T_STD_U64LE, path),
      indices_(group_.id(), "indices_1", binsparse::index_type(num_columns == 0 ? 0 : num_columns - 1), path),
      values_(group_.id(), path),
      num_columns_(num_columns) {
  EdgeOffset const begin = 0;
  pointers_.append(&begin, 1);
}

void GrowingMatrix::append(SampleSet const& rows) {
  if (rows_.num_rows == 0) rows_.first_sample = rows.first_sample;
  VARVE_REQUIRE(rows.num_neurons() == num_columns_, "batches of one sample file have the same neurons");
  VARVE_REQUIRE(rows.first_sample == rows_.first_sample + rows_.num_rows,
                "batches of one sample file follow each other without a gap");
  require_valid(rows.matrix, (name_ + " to write").c_str());
  rows_.hash += hash(rows, Precision::double_precision);
  for (std::size_t row = 0; row < rows.num_samples(); ++row) append_row(rows.matrix, row);
}

/// Adds a row to the current block. Blocks end at rows that do not depend on how samples were divided into batches, so
/// equal samples give equal files.
void GrowingMatrix::append_row(SparseMatrix const& matrix, std::size_t row) {
  constexpr std::size_t most_rows = std::size_t{1} << 14;
  constexpr std::size_t most_entries = std::size_t{1} << 18;
  auto const begin = static_cast<std::ptrdiff_t>(matrix.row_pointers[row]);
  auto const end = static_cast<std::ptrdiff_t>(matrix.row_pointers[row + 1]);
  auto& columns = block_.column_indices;
  columns.insert(columns.end(), matrix.column_indices.begin() + begin, matrix.column_indices.begin() + end);
  if (matrix.is_iso()) {
    block_.values.insert(block_.values.end(), static_cast<std::size_t>(end - begin), matrix.values[0]);
  } else {
    block_.values.insert(block_.values.end(), matrix.values.begin() + begin, matrix.values.begin() + end);
  }
  rows_.num_entries += matrix.row_size(row);
  ++rows_.num_rows;
  block_ends_.push_back(rows_.num_entries);
  if (block_ends_.size() >= most_rows || columns.size() >= most_entries) write_block();
}

void GrowingMatrix::write_block() {
  pointers_.append(block_ends_.data(), block_ends_.size());
  indices_.append(block_.column_indices.data(), block_.column_indices.size());
  values_.append(block_);
  block_ends_.clear();
  block_.column_indices.clear();
  block_.values.clear();
}

void GrowingMatrix::finish() {
  write_block();
  pointers_.close();
  indices_.close();
  values_.finish();
  binsparse::write_descriptor(group_, {rows_.num_rows, num_columns_, rows_.num_entries, values_.is_iso()}, path_);
}

} // namespace varve
