#pragma once

#include "core/execution.hpp"
#include "core/views.hpp"
#include "ladder.hpp"
#include "products/add_tile.hpp"

#include <cstddef>
#include <cstdint>

namespace varve::product_study {

/// Makes A or B as the product's kernel takes it (PackTile): `numbers(line, k)` is a number of it, line is a row of A,
/// a column of B. An index is a number of the packed matrix.
template <class Scalar, class Numbers>
struct FillPacked {
  ArrayView<Scalar> packed;
  std::int64_t width;
  std::int64_t num_lines;
  std::int64_t depth;
  Numbers numbers;

  KOKKOS_FUNCTION void operator()(std::int64_t index) const {
    auto const line = index / (width * depth) * width + index % width;
    auto const k = index / width % depth;
    packed[index] = line < num_lines ? numbers(line, k) : Scalar(0);
  }
};

/// A product whose matrices lie packed in device memory, for the kernel of varve multiply alone. C has rows x columns
/// numbers, each the sum of `depth` products.
template <class ExecutionSpace, class Scalar>
class PackedProduct {
public:
  template <class NumbersOfA, class NumbersOfB>
  PackedProduct(ExecutionSpace const& space, int rows, int columns, int depth, NumbersOfA const& a, NumbersOfB const& b)
      : space_(space),
        rows_(rows),
        columns_(columns),
        depth_(depth),
        a_(packed(rows, Blocks::rows, a)),
        b_(packed(columns, Blocks::columns, b)),
        sums_(uninitialized(num_blocks(rows, Blocks::rows) * num_blocks(columns, Blocks::columns) * Blocks::rows *
                            Blocks::columns)) {}

  /// Starts the kernel.
  void run() const { add_tile(space_, step(), 1); }

  /// Waits, and brings a number of C to the host.
  Scalar number(std::size_t row, std::size_t column) const {
    auto const across = num_blocks(columns_, Blocks::columns);
    auto const block = row / Blocks::rows * across + column / Blocks::columns;
    auto const place = (block * Blocks::rows + row % Blocks::rows) * Blocks::columns + column % Blocks::columns;
    Scalar number = 0;
    Kokkos::deep_copy(number, Kokkos::subview(sums_, place));
    return number;
  }

  /// The shape of the kernel's teams on NVIDIA GPUs: 'L'arge, 'M'edium or 'S'mall; '-' if none fits, and elsewhere.
  char shape() const {
    if constexpr (kHasScratchCopies && !kOnHost<ExecutionSpace>) {
      using Shapes = CudaShapes<ExecutionSpace, Scalar>;
      int const processors = num_processors(space_);
      if (suits<typename Shapes::Large>(Shapes::large_from * processors)) return 'L';
      if (suits<typename Shapes::Medium>(Shapes::medium_from * processors)) return 'M';
      if (suits<typename Shapes::Small>(0)) return 'S';
    }
    return '-';
  }

  /// The part of C that a team computes with one reading of its numbers of A and B (a host thread: a block of sums).
  Part part() const {
    if constexpr (kHasScratchCopies && !kOnHost<ExecutionSpace>) {
      using Shapes = CudaShapes<ExecutionSpace, Scalar>;
      switch (shape()) {
      case 'L':
        return {Shapes::Large::team_rows, Shapes::Large::team_columns};
      case 'M':
        return {Shapes::Medium::team_rows, Shapes::Medium::team_columns};
      case 'S':
        return {Shapes::Small::team_rows, Shapes::Small::team_columns};
      default:
        break;
      }
    }
    return {Blocks::rows, Blocks::columns};
  }

private:
  using Blocks = ProductBlocks<ExecutionSpace, Scalar>;
  using Array = DeviceArray<ExecutionSpace, Scalar>;

  static std::size_t num_blocks(int count, int width) { return static_cast<std::size_t>((count + width - 1) / width); }

  template <class Kernel>
  bool suits(int fewest_teams) const {
    return varve::detail::suits_add_tile<Kernel, ExecutionSpace>(step(), fewest_teams);
  }

  static Array uninitialized(std::size_t count) {
    return Array(Kokkos::view_alloc(Kokkos::WithoutInitializing, "numbers"), count);
  }

  template <class Numbers>
  Array packed(int num_lines, int width, Numbers const& numbers) const {
    auto const blocks = num_blocks(num_lines, width);
    auto const all = uninitialized(blocks * static_cast<std::size_t>(width) * static_cast<std::size_t>(depth_));
    Kokkos::parallel_for(
        "pack",
        Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(space_, 0,
                                                                             static_cast<std::int64_t>(all.size())),
        FillPacked<Scalar, Numbers>{ArrayView<Scalar>(all.data(), all.size()), width, num_lines, depth_, numbers});
    return all;
  }

  TileStep<Scalar> step() const {
    return {ArrayView<Scalar const>(a_.data(), a_.size()),
            ArrayView<Scalar const>(b_.data(), b_.size()),
            ArrayView<Scalar>(sums_.data(), sums_.size()),
            rows_,
            columns_,
            depth_,
            true};
  }

  ExecutionSpace space_;
  int rows_, columns_, depth_;
  Array a_, b_, sums_;
};

} // namespace varve::product_study
