#pragma once

#include "core/execution.hpp"

#include <cstdint>

namespace varve {

/// One thread's part of the image of a layer, in registers on its way from the L2 to team scratch: 16 KiB of the image
/// travel while the team computes the layer before. Threads of a team of TeamSize take neighbouring pieces.
template <int TeamSize>
struct ImagePieces {
  static constexpr int count = 16384 / 16 / TeamSize;
  struct alignas(16) Piece {
    std::uint32_t words[4];
  };
  Piece pieces[count];

  KOKKOS_FORCEINLINE_FUNCTION void load(int thread, unsigned char const* image, int bytes) {
    VARVE_UNROLL
    for (int i = 0; i < count; ++i) {
      int const piece = thread + i * TeamSize;
      if (piece * 16 < bytes) pieces[i] = reinterpret_cast<Piece const*>(image)[piece];
    }
  }

  /// Puts the pieces in place, and copies what is left of a larger image.
  KOKKOS_FORCEINLINE_FUNCTION void store(int thread, unsigned char* target, unsigned char const* image,
                                         int bytes) const {
    VARVE_UNROLL
    for (int i = 0; i < count; ++i) {
      int const piece = thread + i * TeamSize;
      if (piece * 16 < bytes) reinterpret_cast<Piece*>(target)[piece] = pieces[i];
    }
    for (int piece = thread + count * TeamSize; piece * 16 < bytes; piece += TeamSize)
      reinterpret_cast<Piece*>(target)[piece] = reinterpret_cast<Piece const*>(image)[piece];
  }
};

} // namespace varve
