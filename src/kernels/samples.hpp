#pragma once

#include "core/execution.hpp"
#include "core/types.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"
#include "network/activations.hpp"

namespace varve {

/// Sparse samples as they lie on the device: entries of sample s are [row_pointers(s), row_pointers(s + 1)).
template <class ExecutionSpace, class Scalar>
struct DeviceSamples {
  int num_samples = 0;
  int num_neurons = 0;
  ConstDeviceArray<ExecutionSpace, EdgeOffset> row_pointers;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> columns;
  ConstDeviceArray<ExecutionSpace, Scalar> values; ///< one per entry, or one for all
  int value_stride = 0;                            ///< 0: one for all
};

/// Writes sparse samples into the tiles of a panel: tile(neuron, s) = value, zero where there is none. A task is one
/// tile. Writes every activation of the panel once: bound by memory bandwidth.
template <class ExecutionSpace, class Tile>
struct ExpandSamples {
  using Scalar = typename Tile::Scalar;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;

  DeviceSamples<ExecutionSpace, Scalar> samples;
  Scalar* target;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const tiles = num_tiles(samples.num_samples, Tile::num_samples);
    for (int tile = team.league_rank(); tile < tiles; tile += team.league_size()) {
      Scalar* const activations =
          target + place_of_slot(tile * Tile::num_samples, samples.num_neurons, Tile::num_samples);
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples.num_neurons), [&](int neuron) {
        Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +Tile::num_lanes), [&](int lane) {
          for (int k = 0; k < Tile::packs_per_lane; ++k) clear(Tile::pack_at(activations, neuron, lane, k));
        });
      });
      team.team_barrier();
      int const first = tile * Tile::num_samples;
      int const count =
          samples.num_samples - first < Tile::num_samples ? samples.num_samples - first : Tile::num_samples;
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, count), [&](int sample) {
        EdgeOffset const begin = samples.row_pointers(first + sample);
        int const entries = static_cast<int>(samples.row_pointers(first + sample + 1) - begin);
        Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, entries), [&](int entry) {
          EdgeOffset const place = begin + static_cast<EdgeOffset>(entry);
          activations[static_cast<std::size_t>(samples.columns(place)) * Tile::num_samples +
                      static_cast<std::size_t>(sample)] =
              samples.values(place * static_cast<EdgeOffset>(samples.value_stride));
        });
      });
    }
  }
};

/// Launches ExpandSamples. Does not fence.
template <class ExecutionSpace, class Tile>
void expand_samples(ExecutionSpace const& space, DeviceSamples<ExecutionSpace, typename Tile::Scalar> const& samples,
                    typename Tile::Scalar* target) {
  using Tune = Tuning<ExecutionSpace, typename Tile::Scalar>;
  using Kernel = ExpandSamples<ExecutionSpace, Tile>;
  int const tiles = num_tiles(samples.num_samples, Tile::num_samples);
  if (tiles == 0) return;
  typename Kernel::Policy const policy(space, Tune::league_size(space, tiles), Tune::team_size, Tile::num_lanes);
  Kokkos::parallel_for("varve::expand_samples", policy, Kernel{samples, target});
}

/// Packed samples of a panel as rows: rows(p, neuron) = panel(first + p, neuron).
template <class ExecutionSpace, class Scalar>
struct GatherRows {
  Scalar const* panel;
  int tile_samples;
  int first;
  int num_neurons;
  Scalar* rows;

  KOKKOS_FUNCTION void operator()(std::size_t place) const {
    auto const width = static_cast<std::size_t>(num_neurons);
    int const slot = first + static_cast<int>(place / width);
    rows[place] =
        panel[place_of_slot(slot, num_neurons, tile_samples) + place % width * static_cast<std::size_t>(tile_samples)];
  }
};

/// Sum of the fingerprints of the nonzero activations of a packed panel; ids(p) + first_sample is the number of sample
/// p.
template <class ExecutionSpace, class Scalar>
struct HashActivations {
  using Bits = std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>;

  Scalar const* panel;
  int tile_samples;
  int const* ids;
  int num_neurons;
  std::uint64_t first_sample;

  KOKKOS_FUNCTION void operator()(int slot, std::uint64_t& sum) const {
    std::uint64_t const sample = first_sample + static_cast<std::uint64_t>(ids[slot]);
    Scalar const* const activations = panel + place_of_slot(slot, num_neurons, tile_samples);
    for (int neuron = 0; neuron < num_neurons; ++neuron) {
      Scalar const value = activations[static_cast<std::size_t>(neuron) * static_cast<std::size_t>(tile_samples)];
      if (value != Scalar(0)) {
        sum += activation_fingerprint(sample, static_cast<std::uint64_t>(neuron), Kokkos::bit_cast<Bits>(value));
      }
    }
  }
};

} // namespace varve
