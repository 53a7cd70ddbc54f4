#pragma once

#include "core/execution.hpp"
#include "core/views.hpp"

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

  KOKKOS_FORCEINLINE_FUNCTION void load(int thread, ArrayView<unsigned char const> const& image) {
    auto const bytes = static_cast<int>(image.size());
    VARVE_UNROLL
    for (int i = 0; i < count; ++i) {
      int const piece = thread + i * TeamSize;
      if (piece * 16 < bytes) pieces[i] = piece_of<Piece>(image, piece);
    }
  }

  /// Puts the pieces in place, and copies what is left of a larger image.
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
