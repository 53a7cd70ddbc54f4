#pragma once

#include "core/execution.hpp"
#include "formats/cone_programs.hpp"
#include "kernels/split_output_operands.hpp"
#include "kernels/tuning.hpp"
#include "plan/device_traits.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace varve {

namespace detail {

template <class Tile>
constexpr auto samples_of = static_cast<std::size_t>(Tile::num_samples);

constexpr EllShape ell_shape(int slice_width, int chunk_size, int block_outputs) {
  return {static_cast<std::size_t>(slice_width), static_cast<std::size_t>(chunk_size),
          static_cast<std::size_t>(block_outputs)};
}

template <class Singles, class Blocks>
DeviceTraits::Fused fused_traits(int processors) {
  return {static_cast<std::size_t>(Singles::max_neurons), samples_of<typename Singles::Tile>,
          static_cast<std::size_t>(Singles::league_size(processors, std::numeric_limits<int>::max())),
          Singles::launch_costs(processors), Blocks::launch_costs(processors)};
}

/// Fused tiles of single outputs that use all scratch of a team; empty if scratch is too small for layers wider than
/// `Small` computes.
template <class Small, class Singles>
DeviceTraits::Fused wide_traits(int processors, std::size_t team_scratch) {
  constexpr std::size_t of_kokkos = 16384; // upper bound: Kokkos's own use and the marks of samples
  constexpr std::size_t neuron_bytes = samples_of<typename Singles::Tile> * sizeof(typename Singles::Tile::Scalar);
  std::size_t const fitting = (team_scratch - std::min(team_scratch, of_kokkos)) / neuron_bytes;
  if (fitting <= static_cast<std::size_t>(Small::max_neurons)) return {};
  auto traits = fused_traits<Singles, Singles>(processors);
  traits.max_neurons = std::min(fitting, traits.max_neurons);
  traits.block_costs = {};
  return traits;
}

template <class Tune>
void set_shapes(DeviceTraits& traits) {
  traits.single_shape = ell_shape(Tune::slice_width, Tune::chunk_size, 1);
  traits.fused_blocks = ell_shape(Tune::slice_width, Tune::chunk_size, Tune::block_outputs);
  traits.wide_blocks = ell_shape(1, Tune::chunk_size, Tune::wide_block_outputs);
  traits.staged_shape = ell_shape(Tune::staged_slice_width, Tune::chunk_size, 1);
  traits.dense_shape = ell_shape(1, Tune::dense_chunk, Tune::dense_outputs);
  traits.few_dense_shape = ell_shape(1, Tune::few_dense_chunk, Tune::few_outputs);
}

/// Traits of the kernels that compute one layer a launch, and of stationary layers.
template <class Tune>
void set_single_layers(DeviceTraits& traits, int processors) {
  traits.direct_tile_samples = samples_of<typename Tune::Tile>;
  traits.direct_block_tile_samples = samples_of<typename Tune::WideBlockTile>;
  traits.few_tile_samples = samples_of<typename Tune::FewTile>;
  traits.has_stationary = Tune::has_stationary;
  traits.stationary_tile_samples = samples_of<typename Tune::StationaryTile>;
  traits.stationary_blocks = static_cast<std::size_t>(Tune::stationary_blocks);
  traits.staged_tile_samples = samples_of<typename Tune::StagedTile>;
  traits.has_dense_kernel = Tune::has_dense_kernel;
  traits.dense_tile_samples = samples_of<typename Tune::DenseTile>;
  traits.fewest_dense_tasks = static_cast<std::size_t>(Tune::fewest_dense_tasks(processors));
  traits.few_samples = Tune::few_samples(processors);
  traits.spread_tile_samples = samples_of<typename Tune::SpreadTile>;
  traits.max_single_spread_samples = Tune::max_single_spread_samples;
  traits.few_outputs = Tune::has_small_batch_kernel ? static_cast<std::size_t>(Tune::few_outputs) : 0;
}

template <class ExecutionSpace, class Scalar, class Tune>
void set_cones(DeviceTraits& traits) {
  using Cones =
      ConePrograms<ExecutionSpace, Scalar, Tune::cone_group_size, Tune::ConeTile::num_samples * sizeof(Scalar)>;
  constexpr std::size_t slot_bytes = Tune::cone_slots * Cones::slot_bytes;
  constexpr std::size_t round_bytes = Tune::cone_group_size * (sizeof(typename Cones::Move) + sizeof(double));
  static_assert(slot_bytes <= 65536, "programs name places of slots in 16 bits");
  traits.cone_tile_samples = samples_of<typename Tune::ConeTile>;
  traits.cone_slots = Tune::cone_slots;
  traits.cone_group_size = static_cast<std::size_t>(Tune::cone_group_size);
  traits.max_cone_rounds = (Tune::max_cone_bytes - slot_bytes) / round_bytes;
}

/// Limits of the split-output kernel: scratch also holds its stages of edges and what Kokkos reserves.
template <class ExecutionSpace, class Scalar, class Tune>
void set_spread(DeviceTraits& traits, std::size_t team_scratch) {
  using Travel = SpreadPipeline<ExecutionSpace, Scalar, std::uint16_t, Tune, 0>;
  using TravelToGather = SpreadPipeline<ExecutionSpace, Scalar, std::uint16_t, Tune, 1>;
  constexpr std::size_t of_kokkos = 1024;
  constexpr std::size_t taken = Travel::Type::size + of_kokkos;
  traits.max_spread_bytes = std::min(traits.max_spread_bytes, team_scratch - std::min(team_scratch, taken));
  std::size_t const of_sample = traits.max_spread_bytes / traits.spread_tile_samples;
  std::size_t const gathered = gathered_values<typename TravelToGather::Stages>() * sizeof(Scalar);
  if (TravelToGather::Type::size + of_kokkos + max_gathered_tiles<Tune>() * (gathered + of_sample) > team_scratch)
    traits.max_single_spread_samples = 0;
  std::size_t const in_blocks = split_output_buffers(Tune::few_outputs) + traits.max_single_spread_samples * of_sample;
  if (traits.prefers_spread && in_blocks + of_kokkos > team_scratch) traits.max_stored_in_few_dense = 0.0;
}

} // namespace detail

/// The traits of a device with this number of processors (num_processors()) and bytes of scratch for a team
/// (max_team_scratch()), from the tuning of its backend.
template <class ExecutionSpace, class Scalar, template <class, class> class TuningOf = Tuning,
          template <class, class, int, FusedTile> class FusedTuningOf = FusedTuning>
DeviceTraits device_traits(int processors, std::size_t team_scratch) {
  using Tune = TuningOf<ExecutionSpace, Scalar>;
  DeviceTraits traits;
  static_cast<PlanLimits&>(traits) = Tune::limits;
  traits.scalar_bytes = sizeof(Scalar);
  detail::set_shapes<Tune>(traits);
  detail::set_single_layers<Tune>(traits, processors);
  detail::set_cones<ExecutionSpace, Scalar, Tune>(traits);
  detail::set_spread<ExecutionSpace, Scalar, Tune>(traits, team_scratch);
  auto const fused = [&]<FusedTile Kind>() {
    return detail::fused_traits<FusedTuningOf<ExecutionSpace, Scalar, 1, Kind>,
                                FusedTuningOf<ExecutionSpace, Scalar, Tune::block_outputs, Kind>>(processors);
  };
  traits.fused[0] = fused.template operator()<FusedTile::small>();
  if (Tune::has_large_tiles) {
    traits.fused[1] = fused.template operator()<FusedTile::large>();
    traits.fused[2] = fused.template operator()<FusedTile::with_image>();
  }
  if constexpr (Tune::has_wide_tiles) {
    traits.fused[3] =
        detail::wide_traits<FusedTuningOf<ExecutionSpace, Scalar, 1, FusedTile::small>,
                            FusedTuningOf<ExecutionSpace, Scalar, 1, FusedTile::wide>>(processors, team_scratch);
  }
  return traits;
}

} // namespace varve
