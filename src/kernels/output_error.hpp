#pragma once

#include "core/execution.hpp"
#include "core/lanes.hpp"
#include "kernels/derivative.hpp"
#include "kernels/training_tile.hpp"
#include "network/loss.hpp"

namespace varve {

/// Loss and errors of the last activations, sample by sample, in double:
///   cross-entropy: slope(j) = exp(x(j) - max) / sum - (1 if j is the label)
///   mean square:   slope(j) = 2 (x(j) - target(j)) / outputs
///   errors(j) = act'(x(j)) * (slope(j), rounded to Scalar)
/// Positions past the last sample get errors 0 and no loss. Sums over outputs are those of OutputSum. league and team
/// threads: packs of samples; vector lanes: outputs, a chain of OutputSum each. On CPUs a thread has all chains, and
/// the samples of a pack are the lanes of its vectors. Reads each activation three times (twice for mean square); bound
/// by the exponentials, two for each activation.
template <class ExecutionSpace, class Scalar>
struct OutputError {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  static constexpr int width = Tile::pack_width;
  static constexpr int packs_per_line = Tile::packs_per_lane * Tile::num_lanes;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace>;
  using Member = typename Policy::member_type;
  static constexpr int num_lanes = kOnHost<ExecutionSpace> ? 1 : kOutputChains;
  static constexpr int team_size = kOnHost<ExecutionSpace> ? 1 : 4;
  using Doubles = double[width];

  ConstTrainingPanel<ExecutionSpace, Scalar> outputs;
  ConstTrainingPanel<ExecutionSpace, Scalar> targets;   ///< wanted outputs; empty if `labels` are given
  ConstDeviceArray<ExecutionSpace, NeuronIndex> labels; ///< wanted class by position
  TrainingPanel<ExecutionSpace, Scalar> errors;
  DeviceArray<ExecutionSpace, double> losses; ///< by position
  DeviceArray<ExecutionSpace, int> is_right;  ///< by position
  Derivative<Scalar> derivative;
  Loss loss;
  int num_outputs;
  int num_positions;
  int num_leaves;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const index = team.league_rank() * team.team_size() + team.team_rank();
    int const leaf = index / packs_per_line;
    if (leaf >= num_leaves) return;
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, +num_lanes),
                         [&](int lane) { answer(leaf, index % packs_per_line, lane); });
  }

private:
  /// Sums over the outputs for a pack of samples. A lane holds the chains of its outputs: on a host all of them.
  struct Sums {
    static constexpr int held = kOutputChains / num_lanes;
    double chain[held][width];

    KOKKOS_FORCEINLINE_FUNCTION Sums() {
      for (auto& of_samples : chain)
        for (double& sum : of_samples) sum = 0.0;
    }
    KOKKOS_FORCEINLINE_FUNCTION Doubles& chain_of(int output) { return chain[held == 1 ? 0 : output % held]; }
    /// The total over all lanes, which all call it.
    KOKKOS_FORCEINLINE_FUNCTION void total(Doubles& sum, int lane) {
      for (int distance = kOutputChains / 2; distance > 0; distance /= 2) {
        if constexpr (held == 1) {
          for (int i = 0; i < width; ++i) chain[0][i] += from_lane(chain[0][i], lane ^ distance, +num_lanes);
        } else {
          for (int c = 0; c < distance; ++c)
            for (int i = 0; i < width; ++i) chain[c][i] += chain[c + distance][i];
        }
      }
      for (int i = 0; i < width; ++i) sum[i] = chain[0][i];
    }
  };

  /// The loss and the errors of a pack of samples.
  KOKKOS_FORCEINLINE_FUNCTION void answer(int leaf, int pack, int lane) const {
    int position[width];
    for (int i = 0; i < width; ++i)
      position[i] = leaf * Tile::num_samples + PlaceInLine<Tile>::position_of(pack * width + i);
    Doubles most;
    int largest[width];
    find_largest(leaf, pack, lane, most, largest);
    Doubles total;
    if (loss == Loss::cross_entropy) {
      soft_maximum(leaf, pack, lane, position, most, total);
    } else {
      squares(leaf, pack, lane, position, total);
    }
    if (lane != 0) return;
    for (int i = 0; i < width; ++i) {
      if (position[i] >= num_positions) continue;
      losses(position[i]) = total[i];
      is_right(position[i]) =
          targets.size() == 0 && static_cast<NeuronIndex>(largest[i]) == labels(position[i]) ? 1 : 0;
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION std::size_t line_of(int leaf, int neuron) const {
    return static_cast<std::size_t>(leaf) * static_cast<std::size_t>(num_outputs) + static_cast<std::size_t>(neuron);
  }

  KOKKOS_FORCEINLINE_FUNCTION void find_largest(int leaf, int pack, int lane, Doubles& most,
                                                int (&largest)[width]) const {
    for (int i = 0; i < width; ++i) {
      most[i] = -Kokkos::Experimental::infinity_v<double>;
      largest[i] = 0;
    }
    for (int j = lane; j < num_outputs; j += num_lanes) {
      auto const& x = outputs(line_of(leaf, j)).pack[pack];
      for (int i = 0; i < width; ++i) {
        auto const value = static_cast<double>(x.lane[i]);
        largest[i] = value > most[i] ? j : largest[i];
        most[i] = value > most[i] ? value : most[i];
      }
    }
    if constexpr (num_lanes > 1) {
      for (int distance = num_lanes / 2; distance > 0; distance /= 2) {
        for (int i = 0; i < width; ++i) {
          double const other = from_lane(most[i], lane ^ distance, +num_lanes);
          int const at = from_lane(largest[i], lane ^ distance, +num_lanes);
          bool const is_before = other > most[i] || (other == most[i] && at < largest[i]);
          most[i] = is_before ? other : most[i];
          largest[i] = is_before ? at : largest[i];
        }
      }
    }
  }

  /// Stores the errors of one output for a pack of samples: 0 for positions past the last sample.
  KOKKOS_FORCEINLINE_FUNCTION void store(std::size_t line, int pack, int const (&position)[width],
                                         Doubles const& slopes) const {
    auto const& x = outputs(line).pack[pack];
    auto& target = errors(line).pack[pack];
    for (int i = 0; i < width; ++i) {
      Scalar const error = derivative(static_cast<Scalar>(slopes[i]), x.lane[i]);
      target.lane[i] = position[i] < num_positions ? error : Scalar(0);
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void soft_maximum(int leaf, int pack, int lane, int const (&position)[width],
                                                Doubles const& most, Doubles& total) const {
    Sums sums;
    for (int j = lane; j < num_outputs; j += num_lanes) {
      auto const& x = outputs(line_of(leaf, j)).pack[pack];
      Doubles& sum = sums.chain_of(j);
      for (int i = 0; i < width; ++i) sum[i] += exponential(static_cast<double>(x.lane[i]) - most[i]);
    }
    Doubles sum;
    sums.total(sum, lane);
    NeuronIndex label[width];
    for (int i = 0; i < width; ++i) label[i] = position[i] < num_positions ? labels(position[i]) : 0;
    for (int j = lane; j < num_outputs; j += num_lanes) {
      std::size_t const line = line_of(leaf, j);
      auto const& x = outputs(line).pack[pack];
      Doubles slopes;
      for (int i = 0; i < width; ++i) {
        double const wanted = label[i] == static_cast<NeuronIndex>(j) ? 1.0 : 0.0;
        slopes[i] = exponential(static_cast<double>(x.lane[i]) - most[i]) / sum[i] - wanted;
      }
      store(line, pack, position, slopes);
    }
    for (int i = 0; i < width; ++i) {
      auto const& x = outputs(line_of(leaf, static_cast<int>(label[i]))).pack[pack];
      total[i] = logarithm(sum[i]) - (static_cast<double>(x.lane[i]) - most[i]);
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void squares(int leaf, int pack, int lane, int const (&position)[width],
                                           Doubles& total) const {
    auto const count = static_cast<double>(num_outputs);
    Sums sums;
    for (int j = lane; j < num_outputs; j += num_lanes) {
      std::size_t const line = line_of(leaf, j);
      auto const& x = outputs(line).pack[pack];
      Doubles& sum = sums.chain_of(j);
      Doubles slopes;
      for (int i = 0; i < width; ++i) {
        double wanted = 0.0;
        if (targets.size() != 0) {
          wanted = static_cast<double>(targets(line).pack[pack].lane[i]);
        } else if (position[i] < num_positions) {
          wanted = labels(position[i]) == static_cast<NeuronIndex>(j) ? 1.0 : 0.0;
        }
        double const difference = static_cast<double>(x.lane[i]) - wanted;
        sum[i] = multiply_add(difference, difference, sum[i]);
        slopes[i] = 2.0 * difference / count;
      }
      store(line, pack, position, slopes);
    }
    sums.total(total, lane);
    for (int i = 0; i < width; ++i) total[i] /= count;
  }
};

/// Launches OutputError. Does not fence.
template <class ExecutionSpace, class Scalar>
void output_error(ExecutionSpace const& space, OutputError<ExecutionSpace, Scalar> const& kernel) {
  using Kernel = OutputError<ExecutionSpace, Scalar>;
  if (kernel.num_leaves == 0 || kernel.num_outputs == 0) return;
  int const num_packs = kernel.num_leaves * Kernel::packs_per_line;
  typename Kernel::Policy const policy(space, (num_packs + Kernel::team_size - 1) / Kernel::team_size,
                                       +Kernel::team_size, +Kernel::num_lanes);
  launch_teams("varve::output_error", policy, kernel);
}

} // namespace varve
