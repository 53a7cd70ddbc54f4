#pragma once

#include "core/execution.hpp"
#include "core/views.hpp"

#include <cstdint>

namespace varve {

/// Prefetch of a layer's image from the L2 to team scratch through registers: one thread's part of the first 16 KiB,
/// which are in flight while the team computes the layer before. Neighbouring threads of a team of TeamSize take
/// neighbouring pieces of 16 bytes.
template <int TeamSize>
struct ImagePieces {
  static constexpr int count = 16384 / 16 / TeamSize;
  struct alignas(16) Piece {
    std::uint32_t words[4];
  };
  Piece pieces[count];

  /// Issues the loads of this thread's pieces.
  KOKKOS_FORCEINLINE_FUNCTION void load(int thread, ArrayView<unsigned char const> const& image) {
    auto const bytes = static_cast<int>(image.size());
    VARVE_UNROLL
    for (int i = 0; i < count; ++i) {
      int const piece = thread + i * TeamSize;
      if (piece * 16 < bytes) pieces[i] = piece_of<Piece>(image, piece);
    }
  }

  /// Stores the pieces in scratch and copies what an image larger than 16 KiB has left.
  KOKKOS_FORCEINLINE_FUNCTION void store(int thread, ArrayView<unsigned char> const& target,
                                         ArrayView<unsigned char const> const& image) const {
    auto const bytes = static_cast<int>(image.size());
    VARVE_UNROLL
    for (int i = 0; i < count; ++i) {
      int const piece = thread + i * TeamSize;
      if (piece * 16 < bytes) piece_of<Piece>(target, piece) = pieces[i];
    }
    for (int piece = thread + count * TeamSize; piece * 16 < bytes; piece += TeamSize)
      piece_of<Piece>(target, piece) = piece_of<Piece>(image, piece);
  }
};

} // namespace varve
