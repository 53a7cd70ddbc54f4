#include "products/strided_matrix.hpp"

#include "core/host_threads.hpp"
#include "io/finite_block.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace varve {
namespace {

constexpr std::uint64_t rows_of_strip = 64; ///< for a thread

/// Calls work(rows) on host threads, for parts of a block that are a few rows high.
template <class Work>
void for_each_strip(MatrixBlock const& block, Work const& work) {
  for_each_on_host_threads((block.num_rows + rows_of_strip - 1) / rows_of_strip, [&](std::size_t part) {
    auto const first = part * rows_of_strip;
    work(MatrixBlock{block.first_row + first, std::min(rows_of_strip, block.num_rows - first), block.first_column,
                     block.num_columns});
  });
}

/// Calls visit(place in the matrix, place in the block) for every number of a block, in the order in which it lies in
/// the matrix.
template <class Element, class Visit>
void for_each_number(StridedMatrix<Element> const& matrix, MatrixBlock const& block, Visit const& visit) {
  auto* const begin = matrix.data + static_cast<std::int64_t>(block.first_row) * matrix.row_stride +
                      static_cast<std::int64_t>(block.first_column) * matrix.column_stride;
  auto const num_rows = static_cast<std::int64_t>(block.num_rows);
  auto const num_columns = static_cast<std::int64_t>(block.num_columns);
  if (std::abs(matrix.column_stride) <= std::abs(matrix.row_stride)) {
    for (std::int64_t row = 0; row < num_rows; ++row)
      for (std::int64_t column = 0; column < num_columns; ++column)
        visit(begin[row * matrix.row_stride + column * matrix.column_stride], row * num_columns + column);
  } else {
    for (std::int64_t column = 0; column < num_columns; ++column)
      for (std::int64_t row = 0; row < num_rows; ++row)
        visit(begin[row * matrix.row_stride + column * matrix.column_stride], row * num_columns + column);
  }
}

} // namespace

template <class Element, class Scalar>
void read_block(StridedMatrix<Element const> const& matrix, std::string const& place, MatrixBlock const& block,
                Scalar* values) {
  for_each_strip(block, [&](MatrixBlock const& rows) {
    auto* const to = values + (rows.first_row - block.first_row) * block.num_columns;
    for_each_number(matrix, rows, [&](Element value, std::int64_t index) { to[index] = static_cast<Scalar>(value); });
    require_finite(rows, to, place);
  });
}
template void read_block(StridedMatrix<float const> const&, std::string const&, MatrixBlock const&, float*);
template void read_block(StridedMatrix<float const> const&, std::string const&, MatrixBlock const&, double*);
template void read_block(StridedMatrix<double const> const&, std::string const&, MatrixBlock const&, float*);
template void read_block(StridedMatrix<double const> const&, std::string const&, MatrixBlock const&, double*);

template <class Scalar>
void write_block(StridedMatrix<Scalar> const& matrix, MatrixBlock const& block, Scalar const* values) {
  for_each_strip(block, [&](MatrixBlock const& rows) {
    auto const* const from = values + (rows.first_row - block.first_row) * block.num_columns;
    for_each_number(matrix, rows, [&](Scalar& value, std::int64_t index) { value = from[index]; });
  });
}
template void write_block(StridedMatrix<float> const&, MatrixBlock const&, float const*);
template void write_block(StridedMatrix<double> const&, MatrixBlock const&, double const*);

} // namespace varve
