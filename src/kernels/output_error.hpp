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
/// Positions past the last sample get errors 0 and no loss. Sums over outputs are those of OutputSum. Reads each
/// activation three times (twice for mean square); bound by the exponentials, two for each activation.
/// This is the kernel for CPUs. league: packs of samples, which are the lanes of a thread's vectors; a thread has all
/// chains. OutputErrorOnGpu takes its arguments.
template <class ExecutionSpace, class Scalar>
struct OutputError {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  static constexpr int width = Tile::pack_width;
  static constexpr int packs_per_line = Tile::packs_per_lane * Tile::num_lanes;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace>;
  using Member = typename Policy::member_type;
  using Doubles = double[width];
  using Lanes = LaneIntegers<Scalar, width>;

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
    answer(team.league_rank() / packs_per_line, team.league_rank() % packs_per_line);
  }

private:
  /// Sums over the outputs for a pack of samples.
  struct Sums {
    double chain[kOutputChains][width];

    KOKKOS_FORCEINLINE_FUNCTION Sums() {
      for (auto& of_samples : chain)
        for (double& sum : of_samples) sum = 0.0;
    }
    KOKKOS_FORCEINLINE_FUNCTION Doubles& chain_of(int output) { return chain[output % kOutputChains]; }
    KOKKOS_FORCEINLINE_FUNCTION void total(Doubles& sum) {
      for (int distance = kOutputChains / 2; distance > 0; distance /= 2)
        for (int c = 0; c < distance; ++c)
          for (int i = 0; i < width; ++i) chain[c][i] += chain[c + distance][i];
      for (int i = 0; i < width; ++i) sum[i] = chain[0][i];
    }
  };

  /// The loss and the errors of a pack of samples.
  KOKKOS_FORCEINLINE_FUNCTION void answer(int leaf, int pack) const {
    int position[width];
    for (int i = 0; i < width; ++i)
      position[i] = leaf * Tile::num_samples + PlaceInLine<Tile>::position_of(pack * width + i);
    Doubles most;
    int largest[width];
    find_largest(leaf, pack, most, largest);
    Doubles total;
    if (loss == Loss::cross_entropy) {
      soft_maximum(leaf, pack, position, most, total);
    } else {
      squares(leaf, pack, position, total);
    }
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

  KOKKOS_FORCEINLINE_FUNCTION void find_largest(int leaf, int pack, Doubles& most, int (&largest)[width]) const {
    Pack<Scalar, width> greatest;
    Lanes place;
    for (int i = 0; i < width; ++i) {
      greatest.lane[i] = -Kokkos::Experimental::infinity_v<Scalar>;
      place.lane[i] = 0;
    }
    for (int j = 0; j < num_outputs; ++j) take_greater(greatest, place, outputs(line_of(leaf, j)).pack[pack], j);
    for (int i = 0; i < width; ++i) {
      most[i] = static_cast<double>(greatest.lane[i]);
      largest[i] = static_cast<int>(place.lane[i]);
    }
  }

  /// has_sample: 0 in lanes past the last sample.
  KOKKOS_FORCEINLINE_FUNCTION void find_samples(int const (&position)[width], Lanes& has_sample) const {
    for (int i = 0; i < width; ++i) has_sample.lane[i] = position[i] < num_positions ? 1 : 0;
  }

  /// Stores the errors of one output for a pack of samples: 0 in lanes without a sample.
  KOKKOS_FORCEINLINE_FUNCTION void store(std::size_t line, int pack, Lanes const& has_sample,
                                         Doubles const& slopes) const {
    Pack<Scalar, width> error;
    for (int i = 0; i < width; ++i) error.lane[i] = static_cast<Scalar>(slopes[i]);
    derivative.apply(error, outputs(line).pack[pack]);
    clear_where_zero(error, has_sample);
    copy(errors(line).pack[pack], error);
  }

  KOKKOS_FORCEINLINE_FUNCTION void soft_maximum(int leaf, int pack, int const (&position)[width], Doubles const& most,
                                                Doubles& total) const {
    Lanes has_sample;
    find_samples(position, has_sample);
    Sums sums;
    for (int j = 0; j < num_outputs; ++j) {
      auto const& x = outputs(line_of(leaf, j)).pack[pack];
      Doubles& sum = sums.chain_of(j);
      for (int i = 0; i < width; ++i) sum[i] += exponential(static_cast<double>(x.lane[i]) - most[i]);
    }
    Doubles sum;
    sums.total(sum);
    NeuronIndex label[width];
    for (int i = 0; i < width; ++i) label[i] = position[i] < num_positions ? labels(position[i]) : 0;
    for (int j = 0; j < num_outputs; ++j) {
      std::size_t const line = line_of(leaf, j);
      auto const& x = outputs(line).pack[pack];
      Doubles slopes;
      for (int i = 0; i < width; ++i) {
        double const wanted = label[i] == static_cast<NeuronIndex>(j) ? 1.0 : 0.0;
        slopes[i] = exponential(static_cast<double>(x.lane[i]) - most[i]) / sum[i] - wanted;
      }
      store(line, pack, has_sample, slopes);
    }
    for (int i = 0; i < width; ++i) {
      auto const& x = outputs(line_of(leaf, static_cast<int>(label[i]))).pack[pack];
      total[i] = logarithm(sum[i]) - (static_cast<double>(x.lane[i]) - most[i]);
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void squares(int leaf, int pack, int const (&position)[width], Doubles& total) const {
    auto const count = static_cast<double>(num_outputs);
    Lanes has_sample;
    find_samples(position, has_sample);
    Sums sums;
    for (int j = 0; j < num_outputs; ++j) {
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
      store(line, pack, has_sample, slopes);
    }
    sums.total(total);
    for (int i = 0; i < width; ++i) total[i] /= count;
  }
};

/// Launches OutputError on a host. Does not fence.
template <class ExecutionSpace, class Scalar>
void output_error_on_host(ExecutionSpace const& space, OutputError<ExecutionSpace, Scalar> const& kernel) {
  using Kernel = OutputError<ExecutionSpace, Scalar>;
  if (kernel.num_leaves == 0 || kernel.num_outputs == 0) return;
  typename Kernel::Policy const policy(space, kernel.num_leaves * Kernel::packs_per_line, 1, 1);
  launch_teams("varve::output_error", policy, kernel);
}

} // namespace varve
