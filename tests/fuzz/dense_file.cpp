#include "fuzz/target.hpp"

#include "core/error.hpp"
#include "io/dense_file.hpp"

#include <cstdint>
#include <vector>

namespace varve::fuzz {

/// A dense matrix. Read as a whole or column by column, it is the same.
VARVE_FUZZ_TARGET(dense_file) {
  DenseFile const matrix(file_of(bytes, "dense.safetensors"));
  auto const num_rows = matrix.num_rows();
  auto const num_columns = matrix.num_columns();
  if (num_rows > 4096 || num_columns > 64) return;
  std::vector<double> all(num_rows * num_columns);
  matrix.read({0, num_rows, 0, num_columns}, all.data());
  std::vector<double> column(num_rows);
  for (std::uint64_t number = 0; number < num_columns; ++number) {
    matrix.read({0, num_rows, number, 1}, column.data());
    for (std::uint64_t row = 0; row < num_rows; ++row)
      require(column[row] == all[row * num_columns + number], "a matrix that is read by columns differs");
  }
}

} // namespace varve::fuzz
