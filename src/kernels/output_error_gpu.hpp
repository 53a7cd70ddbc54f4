#pragma once

#include "kernels/output_error.hpp"

namespace varve {

/// The same as OutputError, for GPUs.
/// league: groups of eight samples; team threads: outputs, a chain of OutputSum each; vector lanes: samples. Lanes load
/// neighbouring samples of a line, a sector of the L2 (double: two).
template <class ExecutionSpace, class Scalar>
struct OutputErrorOnGpu {
  using Given = OutputError<ExecutionSpace, Scalar>;
  using Tile = typename Given::Tile;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace>;
  using Member = typename Policy::member_type;
  static constexpr int team_size = kOutputChains;
  static constexpr int num_lanes = 8; ///< samples of a group
  static constexpr int groups_per_line = Tile::num_samples / num_lanes;
  static constexpr int ahead = 4; ///< outputs of a thread whose activations are loaded together
  static constexpr std::size_t num_chains = kOutputChains * num_lanes;
  static constexpr std::size_t scratch_bytes = num_chains * (2 * sizeof(double) + sizeof(int));

  Given given;

  /// What the threads of a team tell each other: a number for each chain and sample.
  struct Shared {
    ArrayView<double> most; ///< the largest activation
    ArrayView<double> sums;
    ArrayView<int> largest; ///< its output

    KOKKOS_FORCEINLINE_FUNCTION explicit Shared(Member const& team) {
      ScratchArrays arrays(team, 0, scratch_bytes, 16);
      most = arrays.template take<double>(num_chains);
      sums = arrays.template take<double>(num_chains);
      largest = arrays.template take<int>(num_chains);
    }
    KOKKOS_FORCEINLINE_FUNCTION static std::size_t place(int chain, int lane) {
      return static_cast<std::size_t>(chain * num_lanes + lane);
    }
    /// The largest activation of a sample and its output, the first of equal ones.
    KOKKOS_FORCEINLINE_FUNCTION double find_most(int lane, int& output) const {
      double found = most(place(0, lane));
      output = largest(place(0, lane));
      for (int chain = 1; chain < kOutputChains; ++chain) {
        double const other = most(place(chain, lane));
        int const at = largest(place(chain, lane));
        bool const is_before = other > found || (other == found && at < output);
        found = is_before ? other : found;
        output = is_before ? at : output;
      }
      return found;
    }
  };

  /// A sample of the batch, as a thread sees it.
  struct Sample {
    std::size_t first_line; ///< of its leaf
    int place;              ///< within lines
    int position;           ///< in the micro-batch
  };

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    Shared const shared(team);
    int const chain = team.team_rank();
    auto const lanes = Kokkos::ThreadVectorRange(team, +num_lanes);
    Kokkos::parallel_for(lanes, [&](int lane) { find_largest(shared, sample_of(team, lane), chain, lane); });
    team.team_barrier();
    Kokkos::parallel_for(lanes, [&](int lane) { add_chain(shared, sample_of(team, lane), chain, lane); });
    team.team_barrier();
    for (int distance = kOutputChains / 2; distance > 0; distance /= 2) {
      Kokkos::parallel_for(lanes, [&](int lane) {
        if (chain < distance)
          shared.sums(Shared::place(chain, lane)) += shared.sums(Shared::place(chain + distance, lane));
      });
      team.team_barrier();
    }
    Kokkos::parallel_for(lanes, [&](int lane) {
      auto const sample = sample_of(team, lane);
      store_errors(shared, sample, chain, lane);
      if (chain == 0 && sample.position < given.num_positions) store_loss(shared, sample, lane);
    });
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION Sample sample_of(Member const& team, int lane) const {
    int const leaf = team.league_rank() / groups_per_line;
    int const place = team.league_rank() % groups_per_line * num_lanes + lane;
    return {static_cast<std::size_t>(leaf) * static_cast<std::size_t>(given.num_outputs), place,
            leaf * Tile::num_samples + PlaceInLine<Tile>::position_of(place)};
  }

  KOKKOS_FORCEINLINE_FUNCTION double activation(Sample const& sample, int output) const {
    return static_cast<double>(
        number_at(given.outputs, sample.first_line + static_cast<std::size_t>(output), sample.place));
  }

  /// Calls work(output, activation) for each output of a chain, in order.
  template <class Work>
  KOKKOS_FORCEINLINE_FUNCTION void for_chain(Sample const& sample, int chain, Work const& work) const {
    int output = chain;
    for (; output + (ahead - 1) * kOutputChains < given.num_outputs; output += ahead * kOutputChains) {
      double x[ahead];
      VARVE_UNROLL
      for (int i = 0; i < ahead; ++i) x[i] = activation(sample, output + i * kOutputChains);
      VARVE_UNROLL
      for (int i = 0; i < ahead; ++i) work(output + i * kOutputChains, x[i]);
    }
    for (; output < given.num_outputs; output += kOutputChains) work(output, activation(sample, output));
  }

  KOKKOS_FORCEINLINE_FUNCTION void find_largest(Shared const& shared, Sample const& sample, int chain, int lane) const {
    double most = -Kokkos::Experimental::infinity_v<double>;
    int largest = 0;
    for_chain(sample, chain, [&](int output, double x) {
      largest = x > most ? output : largest;
      most = x > most ? x : most;
    });
    shared.most(Shared::place(chain, lane)) = most;
    shared.largest(Shared::place(chain, lane)) = largest;
  }

  KOKKOS_FORCEINLINE_FUNCTION NeuronIndex label_of(Sample const& sample) const {
    return sample.position < given.num_positions ? given.labels(sample.position) : 0;
  }
  /// Target of an output for mean square.
  KOKKOS_FORCEINLINE_FUNCTION double wanted(Sample const& sample, int output) const {
    if (given.targets.size() != 0)
      return static_cast<double>(
          number_at(given.targets, sample.first_line + static_cast<std::size_t>(output), sample.place));
    bool const is_label =
        sample.position < given.num_positions && given.labels(sample.position) == static_cast<NeuronIndex>(output);
    return is_label ? 1.0 : 0.0;
  }

  /// The sum of a chain: of exponentials or squares.
  KOKKOS_FORCEINLINE_FUNCTION void add_chain(Shared const& shared, Sample const& sample, int chain, int lane) const {
    double sum = 0.0;
    if (given.loss == Loss::cross_entropy) {
      int largest = 0;
      double const most = shared.find_most(lane, largest);
      for_chain(sample, chain, [&](int /*output*/, double x) { sum += exponential(x - most); });
    } else {
      for_chain(sample, chain, [&](int output, double x) {
        double const difference = x - wanted(sample, output);
        sum = multiply_add(difference, difference, sum);
      });
    }
    shared.sums(Shared::place(chain, lane)) = sum;
  }

  /// The errors of a chain's outputs: 0 for positions past the last sample.
  KOKKOS_FORCEINLINE_FUNCTION void store_errors(Shared const& shared, Sample const& sample, int chain, int lane) const {
    auto const store = [&](int output, double x, double slope) {
      Scalar const error = given.derivative(static_cast<Scalar>(slope), static_cast<Scalar>(x));
      number_at(given.errors, sample.first_line + static_cast<std::size_t>(output), sample.place) =
          sample.position < given.num_positions ? error : Scalar(0);
    };
    if (given.loss == Loss::cross_entropy) {
      int largest = 0;
      double const most = shared.find_most(lane, largest);
      double const sum = shared.sums(Shared::place(0, lane));
      auto const label = label_of(sample);
      for_chain(sample, chain, [&](int output, double x) {
        store(output, x, exponential(x - most) / sum - (label == static_cast<NeuronIndex>(output) ? 1.0 : 0.0));
      });
    } else {
      auto const count = static_cast<double>(given.num_outputs);
      for_chain(sample, chain,
                [&](int output, double x) { store(output, x, 2.0 * (x - wanted(sample, output)) / count); });
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void store_loss(Shared const& shared, Sample const& sample, int lane) const {
    int largest = 0;
    double const most = shared.find_most(lane, largest);
    double const sum = shared.sums(Shared::place(0, lane));
    if (given.loss == Loss::cross_entropy) {
      given.losses(sample.position) = logarithm(sum) - (activation(sample, static_cast<int>(label_of(sample))) - most);
    } else {
      given.losses(sample.position) = sum / static_cast<double>(given.num_outputs);
    }
    given.is_right(sample.position) =
        given.targets.size() == 0 && static_cast<NeuronIndex>(largest) == given.labels(sample.position) ? 1 : 0;
  }
};

/// Launches OutputErrorOnGpu. Does not fence.
template <class ExecutionSpace, class Scalar>
void output_error_on_gpu(ExecutionSpace const& space, OutputError<ExecutionSpace, Scalar> const& given) {
  using Kernel = OutputErrorOnGpu<ExecutionSpace, Scalar>;
  if (given.num_leaves == 0 || given.num_outputs == 0) return;
  typename Kernel::Policy policy(space, given.num_leaves * Kernel::groups_per_line, +Kernel::team_size,
                                 +Kernel::num_lanes);
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Kernel::scratch_bytes) + 64));
  launch_teams("varve::output_error", policy, Kernel{given});
}

/// Launches the kernel of the execution space. Does not fence.
template <class ExecutionSpace, class Scalar>
void output_error(ExecutionSpace const& space, OutputError<ExecutionSpace, Scalar> const& given) {
  if constexpr (kOnHost<ExecutionSpace>) {
    output_error_on_host(space, given);
  } else {
    output_error_on_gpu(space, given);
  }
}

} // namespace varve
