#pragma once

#include "core/execution.hpp"
#include "core/pack.hpp"
#include "core/views.hpp"

#include <cstdint>

namespace varve {

/// A contiguous part of an array on its way from memory to team scratch: each thread of the team holds some pieces of
/// 16 bytes in registers, so that their loads are in flight while the team computes. (Words, whatever the elements: a
/// GPU would take a register of two 16-bit numbers apart as soon as it is loaded, and so wait for it.)
template <class Scalar, int Size, int TeamSize>
struct PartInFlight {
  using Piece = Pack<std::uint32_t, 4>;
  static constexpr int num_pieces = Size * static_cast<int>(sizeof(Scalar)) / 16;
  static constexpr int per_thread = (num_pieces + TeamSize - 1) / TeamSize;
  static_assert(Size * sizeof(Scalar) % 16 == 0);

  Piece piece[per_thread > 0 ? per_thread : 1];

  /// Loads the part from its place in an array, which ends there or behind the part; what it lacks is zero.
  KOKKOS_FORCEINLINE_FUNCTION void load(int rank, ArrayView<Scalar const> const& from) {
    int const count = static_cast<int>(from.size()) / (16 / static_cast<int>(sizeof(Scalar)));
    VARVE_UNROLL
    for (int i = 0; i < per_thread; ++i) {
      clear(piece[i]);
      if (i * TeamSize + rank < count) copy(piece[i], piece_of<Piece>(from, i * TeamSize + rank));
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void store(int rank, ArrayView<Scalar> const& to) const {
    VARVE_UNROLL
    for (int i = 0; i < per_thread; ++i) {
      if (num_pieces % TeamSize == 0 || i * TeamSize + rank < num_pieces)
        copy(piece_of<Piece>(to, i * TeamSize + rank), piece[i]);
    }
  }
};

} // namespace varve
