#pragma once

#include "core/views.hpp"

#include <KokkosBlas3_gemm.hpp>

#include <cstddef>

namespace varve {

/// A step of a tile by gemm of Kokkos Kernels, which calls cuBLAS, rocBLAS or a BLAS where it was built with one and
/// else has kernels of its own. Tiles are packed in blocks of one line: A is rows x depth and B columns x depth, both
/// row by row, as are the sums.
template <class ExecutionSpace, class Scalar>
struct LibraryProduct {
  static constexpr int rows = 1;
  static constexpr int columns = 1;

  template <class T>
  using Matrix = Kokkos::View<T**, Kokkos::LayoutRight, typename ExecutionSpace::device_type,
                              Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

  /// sums = a b^T, or sums += a b^T unless it is the first step. Does not fence.
  static void add_tile(ExecutionSpace const& space, ArrayView<Scalar const> const& a, ArrayView<Scalar const> const& b,
                       ArrayView<Scalar> const& sums, int num_rows, int num_columns, int depth, bool is_first) {
    Matrix<Scalar> const to(sums.data(), static_cast<std::size_t>(num_rows), static_cast<std::size_t>(num_columns));
    if (is_first) Kokkos::deep_copy(space, to, Scalar(0)); // a library may multiply what was there by 0
    KokkosBlas::gemm(
        space, "N", "T", Scalar(1),
        Matrix<Scalar const>(a.data(), static_cast<std::size_t>(num_rows), static_cast<std::size_t>(depth)),
        Matrix<Scalar const>(b.data(), static_cast<std::size_t>(num_columns), static_cast<std::size_t>(depth)),
        is_first ? Scalar(0) : Scalar(1), to);
  }
};

} // namespace varve
