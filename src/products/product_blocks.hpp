#pragma once

#include "core/execution.hpp"
#include "core/host_vector.hpp"
#include "core/pack.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace varve {

/// The shapes of a product's kernel: tiles of A and B are packed into blocks, and the sums of a tile of C are kept in
/// blocks of `rows` x `columns` numbers, row by row.
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

  /// Products that a host adds to a block before it goes to the next: a block of B with them fits the L1.
  static constexpr int host_depth = 256;
  /// Blocks of rows and of columns whose numbers a host thread works through together: those of A and B fit the L2.
  static constexpr int host_row_blocks = 16;
  static constexpr int host_column_blocks = 16;
};

/// Blocks of `width` that hold `count` rows or columns.
inline std::size_t num_blocks(std::uint64_t count, int width) {
  return static_cast<std::size_t>((count + static_cast<unsigned>(width) - 1) / static_cast<unsigned>(width));
}

} // namespace varve
