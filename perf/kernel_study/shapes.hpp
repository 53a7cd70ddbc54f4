#pragma once

#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

#include <algorithm>
#include <type_traits>

namespace varve::kernel_study {

template <class... Tunings>
struct List {};

/// The tuning of the fused kernel with another tile and team.
template <class ExecutionSpace, int BlockOutputs, class Tile_, int TeamSize>
struct FusedShape : FusedTuning<ExecutionSpace, float, BlockOutputs, FusedTile::small> {
  using Tile = Tile_;
  static constexpr int team_size = TeamSize;
};

/// The shapes that are tried, by the number that they vary: visit(its name, List<tunings>). Host: tiles of one lane, a
/// lane being vectors of samples.
template <class ExecutionSpace, int BlockOutputs>
struct FusedShapes {
  template <int PackWidth, int PacksPerLane, int TeamSize>
  using Shape = FusedShape<ExecutionSpace, BlockOutputs, TileShape<float, PackWidth, PacksPerLane, 1>, TeamSize>;

  template <class Visit>
  static void for_each(Visit const& visit) {
    visit("team_size", List<Shape<16, 4, 2>>());
    visit("tile_width", List<Shape<16, 1, 1>, Shape<16, 2, 1>, Shape<16, 8, 1>>());
    visit("pack_width", List<Shape<4, 16, 1>, Shape<8, 8, 1>>());
  }
};

/// Outputs per block that are tried beside those that the product takes.
template <class ExecutionSpace>
struct OtherBlocks {
  template <class Visit>
  static void for_each(Visit const& visit) {
    visit(std::integral_constant<int, 2>());
    visit(std::integral_constant<int, 8>());
  }
};

#if defined(KOKKOS_ENABLE_CUDA)
/// CUDA: as many threads per multiprocessor as in the product, and tiles that fit as much scratch.
template <int BlockOutputs, class Tile_, int TeamSize>
struct FusedShape<Kokkos::Cuda, BlockOutputs, Tile_, TeamSize>
    : FusedTuning<Kokkos::Cuda, float, BlockOutputs, FusedTile::small> {
  using Own = FusedTuning<Kokkos::Cuda, float, BlockOutputs, FusedTile::small>;
  using Tile = Tile_;
  static constexpr int max_neurons =
      std::min(Own::max_neurons, Own::max_neurons* Own::Tile::num_samples / Tile::num_samples);
  static constexpr int team_size = TeamSize;
  static constexpr int teams_per_multiprocessor = Own::team_size * Own::teams_per_multiprocessor / TeamSize;
  static constexpr int passes = max_neurons / (team_size / Tile::num_lanes * BlockOutputs);
  static_assert(passes > 0 && teams_per_multiprocessor > 0);
  using Policy = Kokkos::TeamPolicy<Kokkos::Cuda, Kokkos::LaunchBounds<team_size, teams_per_multiprocessor>>;
  static int league_size(int processors, int num_tiles) {
    return std::min(num_tiles, teams_per_multiprocessor * processors);
  }
};

/// Tiles of 4 samples are for teams of half the size, so that all threads have a block.
template <int BlockOutputs>
struct FusedShapes<Kokkos::Cuda, BlockOutputs> {
  static constexpr int own_team = FusedTuning<Kokkos::Cuda, float, BlockOutputs, FusedTile::small>::team_size;
  template <int PackWidth, int PacksPerLane, int NumLanes, int TeamSize = own_team>
  using Shape = FusedShape<Kokkos::Cuda, BlockOutputs, TileShape<float, PackWidth, PacksPerLane, NumLanes>, TeamSize>;

  template <class Visit>
  static void for_each(Visit const& visit) {
    visit("tile_width", List<Shape<4, 1, 1, own_team / 2>, Shape<4, 1, 4>>());
    if constexpr (BlockOutputs == 1) {
      visit("team_size", List<Shape<4, 1, 2, own_team / 2>, Shape<4, 1, 2, 2 * own_team>>());
      visit("samples_per_lane", List<Shape<1, 1, 8>, Shape<2, 1, 4>, Shape<4, 2, 1>>());
    } else { // larger teams, or more samples per lane, would leave threads without a block
      visit("team_size", List<Shape<4, 1, 2, own_team / 2>>());
      visit("samples_per_lane", List<Shape<1, 1, 8>, Shape<2, 1, 4>>());
    }
  }
};

template <>
struct OtherBlocks<Kokkos::Cuda> {
  template <class Visit>
  static void for_each(Visit const& visit) {
    visit(std::integral_constant<int, 4>());
  }
};
#endif

} // namespace varve::kernel_study
