#pragma once

#include "core/execution.hpp"
#include "kernels/samples.hpp"
#include "kernels/tile.hpp"
#include "kernels/tuning.hpp"

namespace varve {

/// First layer for samples with few entries, which reads only the edges of these entries:
///   next(j, s) = clip(chain of fma over the entries i of s that j reads, ascending, of weight(j, i) * value(i, s),
///                     + bias(j))
/// The result is bitwise equal to the chain over all edges: a product with zero changes no sum, and edges ascend.
/// league: groups of Tune::entry_samples samples, whose sums a team keeps in scratch. team threads: the edges of one
/// entry, which lead to different outputs; then outputs. Does not stamp live samples. Reads each entry once, the edges
/// of its input once per entry, and writes each activation once: bound by the latency of edges, which are loaded
/// together for one entry.
template <class ExecutionSpace, class Layer>
struct EntryForward {
  using Scalar = typename Layer::Scalar;
  using Tune = Tuning<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int team_size = Tune::entry_team_size;
  static constexpr int num_samples = Tune::entry_samples;
  using Sums = Pack<Scalar, num_samples>; ///< sums of an output for all samples of a team

  typename Layer::Edges layer;
  DeviceSamples<ExecutionSpace, Scalar> samples;
  ArrayView<Scalar> next;
  int next_tile_samples;

  /// Team scratch in bytes: the sums.
  KOKKOS_FORCEINLINE_FUNCTION static std::size_t scratch_bytes(int num_outputs) {
    return static_cast<std::size_t>(num_outputs) * sizeof(Sums);
  }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const num_outputs = layer.parameters.num_outputs;
    auto const sums = ScratchArrays(team, Tune::expand_level, scratch_bytes(num_outputs), alignof(Sums))
                          .template take<Sums>(static_cast<std::size_t>(num_outputs));
    for (int output = team.team_rank(); output < num_outputs; output += team_size) clear(sums(output));
    team.team_barrier();
    int const first = team.league_rank() * num_samples;
    int const count = samples.num_samples - first < num_samples ? samples.num_samples - first : num_samples;
    for (int i = 0; i < count; ++i) add_entries(team, first + i, i, sums);
    for (int output = team.team_rank(); output < num_outputs; output += team_size) {
      finish(sums(output), layer.parameters.bias_of(output), layer.parameters.bounds);
      for (int i = 0; i < count; ++i) {
        auto const target = sample_of_slot(next, first + i, num_outputs, next_tile_samples);
        target(static_cast<std::size_t>(output) * static_cast<std::size_t>(next_tile_samples)) = sums(output).lane[i];
      }
    }
  }

private:
  /// Adds the products of all entries of a sample to lane i of the sums, one entry after the other.
  KOKKOS_FORCEINLINE_FUNCTION void add_entries(Member const& team, int sample, int i,
                                               ArrayView<Sums> const& sums) const {
    EdgeOffset const last_entry = samples.row_pointers(sample + 1);
    for (EdgeOffset entry = samples.row_pointers(sample); entry < last_entry; ++entry) {
      auto const input = samples.columns(entry);
      Pack<Scalar, 1> const value{{samples.values(entry * static_cast<EdgeOffset>(samples.value_stride))}};
      EdgeOffset const last = layer.column_pointers(input + 1);
      for (auto edge = layer.column_pointers(input) + static_cast<EdgeOffset>(team.team_rank()); edge < last;
           edge += team_size) {
        Scalar& lane = sums(layer.outputs(edge)).lane[i];
        Pack<Scalar, 1> sum{{lane}};
        add_product(sum, layer.weights(edge), value);
        lane = sum.lane[0];
      }
      team.team_barrier();
    }
  }
};

/// Launches EntryForward. Does not fence.
template <class ExecutionSpace, class Layer>
void entry_forward(ExecutionSpace const& space, Layer const& layer,
                   DeviceSamples<ExecutionSpace, typename Layer::Scalar> const& samples,
                   ArrayView<typename Layer::Scalar> const& next, int next_tile_samples) {
  using Kernel = EntryForward<ExecutionSpace, Layer>;
  using Tune = typename Kernel::Tune;
  if (samples.num_samples == 0) return;
  int const num_teams = num_tiles(samples.num_samples, Tune::entry_samples);
  typename Kernel::Policy policy(space, num_teams, +Kernel::team_size);
  auto const bytes = static_cast<int>(Kernel::scratch_bytes(layer.num_outputs()));
  policy.set_scratch_size(Tune::expand_level, Kokkos::PerTeam(bytes + 128));
  launch_teams("varve::entry_forward", policy, Kernel{layer.edges(), samples, next, next_tile_samples});
}

} // namespace varve
