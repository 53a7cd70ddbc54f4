#include "io/growing_matrix.hpp"

#include "core/error.hpp"
#include "io/binsparse.hpp"

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
  if (num_rows_ == 0) first_sample_ = rows.first_sample;
  VARVE_REQUIRE(rows.num_neurons() == num_columns_, "batches of one sample file have the same neurons");
  VARVE_REQUIRE(rows.first_sample == first_sample_ + num_rows_,
                "batches of one sample file follow each other without a gap");
  require_valid(rows.matrix, (name_ + " to write").c_str());
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
  num_entries_ += matrix.row_size(row);
  ++num_rows_;
  block_ends_.push_back(num_entries_);
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
  values_.finish();
  binsparse::write_descriptor(group_, {num_rows_, num_columns_, num_entries_, values_.is_iso()}, path_);
}

} // namespace varve
