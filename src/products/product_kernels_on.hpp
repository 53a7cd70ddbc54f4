#pragma once

#include "core/device_stream.hpp"
#include "core/execution.hpp"
#include "core/views.hpp"
#include "products/add_tile.hpp"
#include "products/product_kernels.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// packed[block][k][line in block] = loose(line, k); lines past the last one are zero. Host: an index is a block and a
/// part of k; each number is read once in order of k, and written once. GPU: an index is a number of `packed`.
template <class ExecutionSpace, class Scalar, int Width>
struct PackTile {
  static constexpr bool on_host = kOnHost<ExecutionSpace>;
  static constexpr std::int64_t part = 64; ///< length in k of an index on a host

  ArrayView<Scalar const> loose;
  ArrayView<Scalar> packed;
  LooseTile shape;
  std::int64_t parts = 1; ///< parts of k

  KOKKOS_FUNCTION void operator()(std::int64_t index) const {
    if constexpr (on_host) {
      auto const first = index % parts * part;
      auto const last = first + part < shape.depth ? first + part : shape.depth;
      pack_block(index / parts, first, last);
    } else {
      auto const line = index / (Width * shape.depth) * Width + index % Width;
      auto const k = index / Width % shape.depth;
      packed[index] = line < shape.num_lines ? loose[line * shape.line_stride + k * shape.depth_stride] : Scalar(0);
    }
  }

private:
  KOKKOS_FUNCTION void pack_block(std::int64_t block, std::int64_t first, std::int64_t last) const {
    auto const left = shape.num_lines - block * Width;
    auto const lines = left < Width ? left : Width;
    auto const size = static_cast<std::size_t>((last - first) * Width);
    Scalar* const to = elements_of(packed, static_cast<std::size_t>((block * shape.depth + first) * Width), size);
    auto const begin = block * Width * shape.line_stride + first * shape.depth_stride;
    auto const length = (lines - 1) * shape.line_stride + (last - first - 1) * shape.depth_stride + 1;
    Scalar const* const from = elements_of(loose, static_cast<std::size_t>(begin), static_cast<std::size_t>(length));
    if (shape.line_stride == 1) {
      for (std::int64_t k = 0; k < last - first; ++k) {
        for (std::int64_t line = 0; line < lines; ++line) to[k * Width + line] = from[k * shape.depth_stride + line];
        for (std::int64_t line = lines; line < Width; ++line) to[k * Width + line] = Scalar(0);
      }
      return;
    }
    for (std::int64_t line = 0; line < Width; ++line) {
      for (std::int64_t k = 0; k < last - first; ++k)
        to[k * Width + line] = line < lines ? from[line * shape.line_stride + k * shape.depth_stride] : Scalar(0);
    }
  }
};

/// Packs a tile. Does not fence.
template <int Width, class ExecutionSpace, class Scalar>
void pack_tile(ExecutionSpace const& space, LooseTile const& shape, ArrayView<Scalar const> const& loose,
               ArrayView<Scalar> const& packed) {
  using Kernel = PackTile<ExecutionSpace, Scalar, Width>;
  auto const blocks = (shape.num_lines + Width - 1) / Width;
  auto const parts = Kernel::on_host ? (shape.depth + Kernel::part - 1) / Kernel::part : shape.depth * Width;
  Kokkos::parallel_for("varve::pack_tile",
                       Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(space, 0, blocks * parts),
                       Kernel{loose, packed, shape, parts});
}

/// ProductKernels on an execution space whose tiles are packed in blocks of `Rows` and `Columns` lines; all but adding
/// products.
template <class ExecutionSpace, class Scalar, int Rows, int Columns>
class PackedProduct : public ProductKernels<Scalar> {
public:
  explicit PackedProduct(DeviceMemory const& memory) : memory_(memory) {}

  DeviceMemory const& memory() const override { return memory_; }
  int block_rows() const override { return Rows; }
  int block_columns() const override { return Columns; }

  void pack(Stream const& lane, TileKey::Operand operand, LooseTile const& shape, std::span<Scalar const> loose,
            std::span<Scalar> packed) const override {
    auto const& space = instance_of<ExecutionSpace>(lane);
    if (operand == TileKey::Operand::a) {
      pack_tile<Rows>(space, shape, view_of(loose), view_of(packed));
    } else {
      pack_tile<Columns>(space, shape, view_of(loose), view_of(packed));
    }
  }

protected:
  template <class Number>
  static ArrayView<Number> view_of(std::span<Number> numbers) {
    return ArrayView<Number>(numbers.data(), numbers.size());
  }

private:
  DeviceMemory const& memory_;
};

/// With Varve's kernel: one chain of fma for each sum.
template <class ExecutionSpace, class Scalar>
class ProductKernelsOn final : public PackedProduct<ExecutionSpace, Scalar, ProductBlocks<ExecutionSpace, Scalar>::rows,
                                                    ProductBlocks<ExecutionSpace, Scalar>::columns> {
public:
  using ProductKernelsOn::PackedProduct::PackedProduct;

  void add_tile(Stream const& lane, PlannedStep const& step, std::span<Scalar const> a, std::span<Scalar const> b,
                std::span<Scalar> sums, int num_lanes) const override {
    TileStep<Scalar> const tile{this->view_of(a), this->view_of(b), this->view_of(sums), step.num_rows,
                                step.num_columns, step.depth,       step.is_first};
    varve::add_tile(instance_of<ExecutionSpace>(lane), tile, num_lanes);
  }
};

} // namespace varve
