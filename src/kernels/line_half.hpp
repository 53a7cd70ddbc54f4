#pragma once

#include "core/views.hpp"
#include "kernels/training_tile.hpp"

namespace varve {

/// GPUs: half of the lanes of a training tile, and so half of the chains of a leaf: a subtree of the tree over chains.
/// Kernels copy this half of the lines of all neurons that they gather to team scratch (128 bytes per neuron). So they
/// read each line once from the L2 instead of once per edge, and threads of eight (double: four) lanes load a neuron's
/// half line from all banks at once.
template <class ExecutionSpace, class Scalar>
struct LineHalf {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  using Lines = ArrayView<typename Tile::PackType>;
  static constexpr int halves = 2; ///< halves of a leaf
  static constexpr int num_lanes = Tile::num_lanes / halves;
  static constexpr int packs = num_lanes * Tile::packs_per_lane; ///< packs of a neuron's half line
  static constexpr int team_size = 1024 / num_lanes;

  /// Bytes of team scratch for the half lines of num_neurons neurons.
  static std::size_t scratch_bytes(int num_neurons) {
    return static_cast<std::size_t>(num_neurons) * packs * sizeof(typename Tile::PackType);
  }
  /// True if team scratch has room for the half lines of num_neurons neurons.
  static bool fits(int num_neurons) {
    constexpr std::size_t reserve = 8192; // for Kokkos itself
    return scratch_bytes(num_neurons) + reserve <= max_team_scratch<ExecutionSpace>();
  }

  /// Allocates the half lines in the team's scratch.
  template <class Member>
  KOKKOS_FORCEINLINE_FUNCTION static Lines in_scratch(Member const& team, int num_neurons) {
    auto const count = static_cast<std::size_t>(num_neurons) * packs;
    std::size_t const bytes = count * sizeof(typename Tile::PackType);
    return ScratchArrays(team, 0, bytes, 128).template take<typename Tile::PackType>(count);
  }

  /// Copies one half of the lines from first_line on to scratch; rank: rank of the calling team thread. Several loads
  /// of a thread are in flight at once.
  template <class Panel>
  KOKKOS_FORCEINLINE_FUNCTION static void stage(Lines const& lines, Panel const& panel, std::size_t first_line,
                                                int num_neurons, int half, int rank, int lane) {
    constexpr int ahead = 8 / Tile::packs_per_lane;
    for (int first = rank; first < num_neurons; first += ahead * team_size) {
      LanePacks<Tile> line[ahead];
      VARVE_UNROLL
      for (int i = 0; i < ahead; ++i) {
        int const neuron = first + i * team_size;
        if (neuron < num_neurons)
          line[i].load(panel(first_line + static_cast<std::size_t>(neuron)), half * num_lanes + lane);
      }
      VARVE_UNROLL
      for (int i = 0; i < ahead; ++i) {
        int const neuron = first + i * team_size;
        if (neuron >= num_neurons) continue;
        VARVE_UNROLL
        for (int k = 0; k < Tile::packs_per_lane; ++k) copy(lines(place(neuron, k, lane)), line[i].pack[k]);
      }
    }
  }

  /// Loads the packs of a neuron's half line that a lane holds.
  KOKKOS_FORCEINLINE_FUNCTION static void load(LanePacks<Tile>& line, Lines const& lines, int neuron, int lane) {
    VARVE_UNROLL
    for (int k = 0; k < Tile::packs_per_lane; ++k) copy(line.pack[k], lines(place(neuron, k, lane)));
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t place(int neuron, int k, int lane) {
    return static_cast<std::size_t>((neuron * Tile::packs_per_lane + k) * num_lanes + lane);
  }
};

/// Indices and weights of neighbouring edges, one for each lane of a thread, which passes them to the others by
/// shuffles. Each is loaded while the edges before it are in use.
template <class ExecutionSpace, class Scalar, int Lanes>
struct EdgesAhead {
  std::uint32_t neuron = 0;
  Scalar weight = 0;

  KOKKOS_FORCEINLINE_FUNCTION void load(EdgeRows<ExecutionSpace> const& edges,
                                        ConstDeviceArray<ExecutionSpace, Scalar> const& weights, std::uint32_t first,
                                        std::uint32_t end, int lane) {
    std::uint32_t const own = first + static_cast<std::uint32_t>(lane);
    if (own >= end) return;
    neuron = edges.neurons(own);
    if (weights.size() != 0) weight = weights(own);
  }
  KOKKOS_FORCEINLINE_FUNCTION int neuron_of(int i) const { return static_cast<int>(from_lane(neuron, i, Lanes)); }
  KOKKOS_FORCEINLINE_FUNCTION Scalar weight_of(int i) const { return from_lane(weight, i, Lanes); }
};

} // namespace varve
