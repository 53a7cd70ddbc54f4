#pragma once

/// \file
/// Products of dense matrices of any size.

#include <varve/types.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

namespace varve::v0_3 {

/// A dense matrix in host memory that belongs to the caller: number (row, column) is
/// data[row * row_stride + column * column_stride]. Strides count numbers and may be negative.
template <class Scalar>
struct DenseView {
  Scalar* data = nullptr;           ///< number (0, 0)
  std::size_t num_rows = 0;         ///< rows
  std::size_t num_columns = 0;      ///< columns
  std::ptrdiff_t row_stride = 0;    ///< numbers from a row to the next
  std::ptrdiff_t column_stride = 0; ///< numbers from a column to the next

  /// A matrix whose numbers lie row by row, without gaps.
  static DenseView by_rows(Scalar* data, std::size_t num_rows, std::size_t num_columns) {
    return {data, num_rows, num_columns, static_cast<std::ptrdiff_t>(num_columns), 1};
  }

  /// The same matrix to be read.
  template <class Other>
  requires(std::is_same_v<Other, Scalar const> && !std::is_const_v<Scalar>) operator DenseView<Other>() const {
    return {data, num_rows, num_columns, row_stride, column_stride};
  }
};

/// A file with a dense matrix (FORMAT.md), which may be larger than memory.
struct MatrixFile {
  std::string name; ///< its path
};

/// Shape and type of the matrix in a file.
struct MatrixDescription {
  std::size_t num_rows = 0;                          ///< rows
  std::size_t num_columns = 0;                       ///< columns
  Precision precision = Precision::single_precision; ///< of the numbers as they are stored
};

/// Reads the description. Throws InputError if the file is broken, or holds something else.
MatrixDescription describe_matrix(MatrixFile const& file);

/// A matrix that a product reads. Its numbers are rounded to the precision of the product.
using ProductOperand = std::variant<DenseView<float const>, DenseView<double const>, MatrixFile>;

/// Where a product goes: memory of the type of its precision, or a file NAME.safetensors, which appears whole or not at
/// all.
using ProductTarget = std::variant<DenseView<float>, DenseView<double>, MatrixFile>;

/// How a product is computed. Names and defaults are those of `varve multiply` (`varve multiply --help`).
struct ProductOptions {
  bool transpose_a = false;                          ///< op(A) is A transposed
  bool transpose_b = false;                          ///< op(B) is B transposed
  double alpha = 1.0;                                ///< factor of the product
  double beta = 1.0;                                 ///< factor of `added`
  std::optional<ProductOperand> added;               ///< C0, of the shape of C
  Precision precision = Precision::single_precision; ///< of C and of all arithmetic
  std::optional<std::size_t> tile; ///< rows and columns of the tiles of C; empty: many that fit the device
  std::optional<Backend> backend;  ///< empty: the fastest of this build
  std::optional<std::size_t> device_memory_limit; ///< bytes for tiles; empty: nine tenths of what is free, on CPUs half
};

/// The result of a product beside C itself.
struct ProductResult {
  std::size_t num_rows = 0;    ///< of C
  std::size_t num_columns = 0; ///< of C
  std::size_t tile = 0;        ///< rows and columns of its tiles
  std::uint64_t hash = 0;      ///< of its nonzero numbers, as `varve multiply` prints it
};

/// C = alpha op(A) op(B) + beta C0, where op(A) has shape [rows, depth], op(B) [depth, columns], and C and C0
/// [rows, columns]. Each number is one chain of fused multiply-adds in the precision, in ascending order of the inner
/// index, scaled and added to in double and rounded once (docs/numerics.md), so its bits depend neither on tiles,
/// memory limits, backends nor threads: they are those of `varve multiply`. The matrices may be larger than the device.
/// In memory, C overlaps neither A nor B; it may be C0 itself. If a call fails, a part of C in memory may be written.
/// Progress is called before each step of a tile, with the steps done and those of all tiles.
/// Throws UsageError about options, InputError if the shapes do not fit or a number is not finite or too large for the
/// precision, ResourceError if memory does not suffice, a file cannot be written or Kokkos does not run.
ProductResult multiply(ProductOperand const& a, ProductOperand const& b, ProductTarget const& c,
                       ProductOptions const& options = {}, Progress const& progress = {});

} // namespace varve::v0_3
