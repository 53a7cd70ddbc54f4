#pragma once

#include "core/execution.hpp"
#include "core/pack.hpp"

#include <cstddef>

namespace varve {

/// Shape of a tile: num_samples neighbouring samples, held by num_lanes lanes of a team's thread, each of them
/// packs_per_lane packs of pack_width samples. In memory a tile is [neuron][sample], so that each neuron's line of
/// num_samples values is contiguous; pack k of a lane starts at sample (k * num_lanes + lane) * pack_width.
template <class Scalar_, int PackWidth, int PacksPerLane, int NumLanes>
struct TileShape {
  using Scalar = Scalar_;
  using PackType = Pack<Scalar, PackWidth>;
  static constexpr int pack_width = PackWidth;
  static constexpr int packs_per_lane = PacksPerLane;
  static constexpr int num_lanes = NumLanes;
  static constexpr int num_samples = PackWidth * PacksPerLane * NumLanes;

  KOKKOS_FORCEINLINE_FUNCTION static constexpr int sample_of(int lane, int pack) {
    return (pack * NumLanes + lane) * PackWidth;
  }
};

/// Number of tiles that hold this many samples.
template <class Tile>
KOKKOS_INLINE_FUNCTION constexpr int num_tiles(int num_samples) {
  return (num_samples + Tile::num_samples - 1) / Tile::num_samples;
}

/// First value of a tile in a panel whose samples have this many neurons.
template <class Tile>
KOKKOS_FORCEINLINE_FUNCTION std::size_t tile_begin(int tile, int num_neurons) {
  return static_cast<std::size_t>(tile) * static_cast<std::size_t>(num_neurons) * Tile::num_samples;
}

/// Place of one activation in a panel: slot = tile * num_samples + sample within the tile.
template <class Tile>
KOKKOS_FORCEINLINE_FUNCTION std::size_t place_of(int slot, int neuron, int num_neurons) {
  return tile_begin<Tile>(slot / Tile::num_samples, num_neurons) +
         static_cast<std::size_t>(neuron) * Tile::num_samples + static_cast<std::size_t>(slot % Tile::num_samples);
}

} // namespace varve
