#pragma once

#include "core/execution.hpp"
#include "core/host_vector.hpp"
#include "core/pack.hpp"
#include "core/views.hpp"
#include "products/product_tiles.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace varve {

/// The block shapes of a product's kernel: tiles of A and B are packed into blocks, and the sums of a tile of C are
/// stored in blocks of `rows` x `columns` numbers, row by row.
template <class ExecutionSpace, class Scalar>
struct ProductBlocks {
  static constexpr bool on_host = kOnHost<ExecutionSpace>;
  static constexpr int pack_width = 64 / static_cast<int>(sizeof(Scalar));
  using HostRegister = typename host::FmaRegister<Scalar, pack_width>::type;

  static constexpr int register_bytes() {
    if constexpr (std::is_void_v<HostRegister>) {
      return 32;
    } else {
      return static_cast<int>(sizeof(HostRegister));
    }
  }

  /// Host: the sums of a block fill 24 of 32 vector registers, or 12 of 16.
  static constexpr int host_rows = register_bytes() == 64 ? 12 : 6;
  static constexpr int host_width = register_bytes() / static_cast<int>(sizeof(Scalar)); ///< numbers of a vector
  static constexpr int rows = on_host ? host_rows : 128;
  static constexpr int columns = on_host ? 2 * host_width : 128;

  /// Products that a host adds to a block before the next one: with this depth, a block of B fits the L1.
  static constexpr int host_depth = 256;
  /// Blocks of rows and of columns that a host thread processes together: their numbers of A and B fit the L2.
  static constexpr int host_row_blocks = 16;
  static constexpr int host_column_blocks = 16;
};

/// Number of blocks of `width` for `count` rows or columns.
inline std::size_t num_blocks(std::uint64_t count, int width) {
  return static_cast<std::size_t>((count + static_cast<unsigned>(width) - 1) / static_cast<unsigned>(width));
}

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
  auto const blocks = static_cast<std::int64_t>(num_blocks(static_cast<std::uint64_t>(shape.num_lines), Width));
  auto const parts = Kernel::on_host ? (shape.depth + Kernel::part - 1) / Kernel::part : shape.depth * Width;
  Kokkos::parallel_for("varve::pack_tile",
                       Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(space, 0, blocks * parts),
                       Kernel{loose, packed, shape, parts});
}

} // namespace varve
