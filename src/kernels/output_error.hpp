#pragma once

#include "core/execution.hpp"
#include "core/intrinsics.hpp"
#include "kernels/derivative.hpp"
#include "kernels/training_tile.hpp"
#include "network/loss.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace varve {

/// Loss and errors of the last activations, sample by sample, in double:
///   cross-entropy: slope(j) = exp(x(j) - max) / sum - (1 if j is the label)
///   other losses:  slope(j) = LossOfOutput(x(j), target(j)).slope / outputs
///   errors(j) = act'(x(j)) * (slope(j) * the sample's weight, rounded to Scalar)
/// Positions past the last sample get errors 0 and no loss. Sums over outputs have the order of OutputSum. Reads each
/// activation three times (twice for losses that take targets); bound by the exponentials, two for each activation.
/// These are the arguments of both kernels, and what OutputErrorOnHost computes.
template <class ExecutionSpace, class Scalar>
struct OutputError {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  static constexpr int width = Tile::pack_width;
  using Doubles = double[width];
  using Lanes = LaneIntegers<Scalar, width>;

  ConstTrainingPanel<ExecutionSpace, Scalar> outputs;
  ConstTrainingPanel<ExecutionSpace, Scalar> targets;   ///< target outputs; empty if `labels` are given
  ConstDeviceArray<ExecutionSpace, NeuronIndex> labels; ///< target class by position
  ConstDeviceArray<ExecutionSpace, double> weights;     ///< factor of loss and slopes by position; empty: 1
  TrainingPanel<ExecutionSpace, Scalar> errors;
  DeviceArray<ExecutionSpace, double> losses; ///< [position]
  DeviceArray<ExecutionSpace, int> is_right;  ///< [position]
  Derivative<Scalar> derivative;
  Loss loss;
  int num_outputs;
  int num_positions;
  int links =
      kChainLength; ///< set by the launch on hosts: packs of a line (with_links()), for one kernel for all lengths

  int num_leaves() const { return num_tiles(num_positions, Tile::num_samples); }

  /// The class of output 0 (Loss::first_class()).
  KOKKOS_FORCEINLINE_FUNCTION NeuronIndex first_class() const {
    return loss.first_class(static_cast<std::size_t>(num_outputs));
  }

  /// The target that the label of a position means for an output. There must be labels and the position.
  KOKKOS_FORCEINLINE_FUNCTION double wanted_by_label(int position, int output) const {
    return labels(position) == static_cast<NeuronIndex>(output) + first_class() ? 1.0 : 0.0;
  }

  /// The factor of the loss and of the slopes of a position.
  KOKKOS_FORCEINLINE_FUNCTION double weight_of(int position) const {
    return weights.size() != 0 && position < num_positions ? weights(position) : 1.0;
  }

  /// 1 if the label of a position is the predicted class. largest: the first output with the largest activation `most`.
  KOKKOS_FORCEINLINE_FUNCTION int is_right_at(int position, int largest, double most) const {
    if (targets.size() != 0) return 0;
    auto const predicted = static_cast<NeuronIndex>(largest) + first_class();
    return labels(position) == (first_class() != 0 && !(most > 0.0) ? 0 : predicted) ? 1 : 0;
  }

  /// Computes the loss and the errors of a pack of samples. kind: that of the loss. is_weighted: samples have weights.
  template <Loss::Kind kind, bool is_weighted>
  KOKKOS_FORCEINLINE_FUNCTION void answer(int leaf, int pack) const {
    int position[width];
    for (int i = 0; i < width; ++i)
      position[i] = leaf * Tile::num_samples + PlaceInLine<Tile>::position_of(pack * width + i);
    Doubles most;
    int largest[width];
    find_largest(leaf, pack, most, largest);
    Doubles total;
    if constexpr (kind == Loss::cross_entropy) {
      soft_maximum<is_weighted>(leaf, pack, position, most, total);
    } else {
      mean_over_outputs<kind, is_weighted>(leaf, pack, position, total);
    }
    for (int i = 0; i < width; ++i) {
      if (position[i] >= num_positions) continue;
      losses(position[i]) = weight_of(position[i]) * total[i];
      is_right(position[i]) = is_right_at(position[i], largest[i], most[i]);
    }
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

  KOKKOS_FORCEINLINE_FUNCTION std::size_t line_of(int leaf, int neuron) const {
    return static_cast<std::size_t>(leaf) * static_cast<std::size_t>(num_outputs) + static_cast<std::size_t>(neuron);
  }
  template <class Panel>
  KOKKOS_FORCEINLINE_FUNCTION auto& pack_of(Panel const& panel, std::size_t line, int pack) const {
    auto* const packs = panel(0).pack; // of all lines
    return packs[line * static_cast<std::size_t>(links) + static_cast<std::size_t>(pack)];
  }

  KOKKOS_FORCEINLINE_FUNCTION void find_largest(int leaf, int pack, Doubles& most, int (&largest)[width]) const {
    Pack<Scalar, width> greatest;
    Lanes place;
    for (int i = 0; i < width; ++i) {
      greatest.lane[i] = -Kokkos::Experimental::infinity_v<Scalar>;
      place.lane[i] = 0;
    }
    for (int j = 0; j < num_outputs; ++j) take_greater(greatest, place, pack_of(outputs, line_of(leaf, j), pack), j);
    for (int i = 0; i < width; ++i) {
      most[i] = static_cast<double>(greatest.lane[i]);
      largest[i] = static_cast<int>(place.lane[i]);
    }
  }

  /// What the errors of a pack of samples are multiplied by.
  struct Factors {
    Lanes has_sample; ///< 0 in lanes past the last sample
    Doubles weight;
  };
  KOKKOS_FORCEINLINE_FUNCTION void find_factors(int const (&position)[width], Factors& factors) const {
    for (int i = 0; i < width; ++i) factors.has_sample.lane[i] = position[i] < num_positions ? 1 : 0;
    for (int i = 0; i < width; ++i) factors.weight[i] = weight_of(position[i]);
  }

  /// Stores the errors of one output for a pack of samples: 0 in lanes without a sample.
  template <bool is_weighted>
  KOKKOS_FORCEINLINE_FUNCTION void store(std::size_t line, int pack, Factors const& factors,
                                         Doubles const& slopes) const {
    Pack<Scalar, width> error;
    for (int i = 0; i < width; ++i)
      error.lane[i] = static_cast<Scalar>(is_weighted ? slopes[i] * factors.weight[i] : slopes[i]);
    derivative.apply(error, pack_of(outputs, line, pack));
    clear_where_zero(error, factors.has_sample);
    copy(pack_of(errors, line, pack), error);
  }

  template <bool is_weighted>
  KOKKOS_FORCEINLINE_FUNCTION void soft_maximum(int leaf, int pack, int const (&position)[width], Doubles const& most,
                                                Doubles& total) const {
    Factors factors;
    find_factors(position, factors);
    Sums sums;
    for (int j = 0; j < num_outputs; ++j) {
      auto const& x = pack_of(outputs, line_of(leaf, j), pack);
      Doubles& sum = sums.chain_of(j);
      for (int i = 0; i < width; ++i) sum[i] += exponential(static_cast<double>(x.lane[i]) - most[i]);
    }
    Doubles sum;
    sums.total(sum);
    NeuronIndex label[width];
    for (int i = 0; i < width; ++i) label[i] = position[i] < num_positions ? labels(position[i]) : 0;
    for (int j = 0; j < num_outputs; ++j) {
      std::size_t const line = line_of(leaf, j);
      auto const& x = pack_of(outputs, line, pack);
      Doubles slopes;
      for (int i = 0; i < width; ++i) {
        double const wanted = label[i] == static_cast<NeuronIndex>(j) ? 1.0 : 0.0;
        slopes[i] = exponential(static_cast<double>(x.lane[i]) - most[i]) / sum[i] - wanted;
      }
      store<is_weighted>(line, pack, factors, slopes);
    }
    for (int i = 0; i < width; ++i) {
      auto const& x = pack_of(outputs, line_of(leaf, static_cast<int>(label[i])), pack);
      total[i] = logarithm(sum[i]) - (static_cast<double>(x.lane[i]) - most[i]);
    }
  }

  template <Loss::Kind kind, bool is_weighted>
  KOKKOS_FORCEINLINE_FUNCTION void mean_over_outputs(int leaf, int pack, int const (&position)[width],
                                                     Doubles& total) const {
    auto const count = static_cast<double>(num_outputs);
    Factors factors;
    find_factors(position, factors);
    bool const has_targets = targets.size() != 0;
    NeuronIndex output_of_label[width]; // whose target is 1
    for (int i = 0; i < width; ++i)
      output_of_label[i] = !has_targets && position[i] < num_positions ? labels(position[i]) - first_class() : 0;
    Sums sums;
    for (int j = 0; j < num_outputs; ++j) {
      std::size_t const line = line_of(leaf, j);
      auto const& x = pack_of(outputs, line, pack);
      Doubles& sum = sums.chain_of(j);
      Doubles wanted, slopes;
      if (has_targets) {
        for (int i = 0; i < width; ++i) wanted[i] = static_cast<double>(pack_of(targets, line, pack).lane[i]);
      } else {
        for (int i = 0; i < width; ++i) wanted[i] = output_of_label[i] == static_cast<NeuronIndex>(j) ? 1.0 : 0.0;
      }
      for (int i = 0; i < width; ++i) {
        LossOfOutput<kind> const found(static_cast<double>(x.lane[i]), wanted[i], loss.delta);
        sum[i] = added<kind>(sum[i], found.term);
        slopes[i] = found.slope / count;
      }
      store<is_weighted>(line, pack, factors, slopes);
    }
    sums.total(total);
    for (int i = 0; i < width; ++i) total[i] /= count;
  }
};

/// The kernel for CPUs. league: packs of samples, which are the lanes of a thread's vectors; a thread has all chains.
/// kind: that of the loss; is_weighted: samples have weights. One kernel for all of them takes a quarter more time for
/// each.
template <class ExecutionSpace, class Scalar, Loss::Kind kind, bool is_weighted>
struct OutputErrorOnHost {
  using Given = OutputError<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace>;

  Given given;

  KOKKOS_FUNCTION void operator()(typename Policy::member_type const& team) const {
    given.template answer<kind, is_weighted>(team.league_rank() / given.links, team.league_rank() % given.links);
  }
};

/// Computes the same as OutputErrorOnHost, on GPUs.
/// league: groups of eight samples; team threads: samples x outputs, 128 outputs at a time, or with fewer outputs the
/// next power of two. Neighbouring threads load neighbouring samples of a line, a sector of the L2 (double: two). One
/// thread adds a chain of OutputSum; all threads compute its terms, which are buffered in scratch. With many outputs
/// bound by instructions of the exponentials, with few by barriers. (Samples as vector lanes of Kokkos would cost more:
/// the end of each loop over lanes takes fifty instructions.) kind: that of the loss; one kernel for all of them would
/// need the registers of all.
template <class ExecutionSpace, class Scalar, Loss::Kind kind>
struct OutputErrorOnGpu {
  using Given = OutputError<ExecutionSpace, Scalar>;
  using Tile = typename Given::Tile;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::LaunchBounds<1024, 1>>;
  using Member = typename Policy::member_type;
  static constexpr int max_rows = 128; ///< threads of a team for each sample
  static constexpr int num_lanes = 8;  ///< samples of a group
  static constexpr int groups_per_line = Tile::num_samples / num_lanes;
  static constexpr int ahead = 4; ///< outputs of a thread whose loads are issued together
  static constexpr int terms = 2; ///< terms of a thread per round, in one of two buffers in scratch
  static constexpr bool is_softmax = kind == Loss::cross_entropy;
  static_assert(max_rows % kOutputChains == 0);

  KOKKOS_FUNCTION static constexpr std::size_t scratch_bytes(int num_threads) {
    return static_cast<std::size_t>(num_threads) * ((2 + 2 * terms) * sizeof(double) + sizeof(int));
  }

  Given given;

  /// A thread of a team, with its sample.
  struct Thread {
    int row;                ///< its row in the team: the first of its outputs
    int num_rows;           ///< distance between its outputs
    int lane;               ///< sample within the group
    std::size_t first_line; ///< first line of the sample's leaf
    int place;              ///< place of the sample within lines
    int position;           ///< position of the sample in the micro-batch
  };

  /// Scratch that the threads of a team share: a number for each row, or chain, and sample.
  struct Shared {
    ArrayView<double> most;  ///< the largest activation
    ArrayView<int> largest;  ///< the output of the largest activation
    ArrayView<double> sums;  ///< sums of chains
    ArrayView<double> terms; ///< terms of the sums, in the order of outputs; two buffers

    KOKKOS_FORCEINLINE_FUNCTION explicit Shared(Member const& team) {
      auto const places = static_cast<std::size_t>(team.team_size());
      ScratchArrays arrays(team, 0, scratch_bytes(team.team_size()), 16);
      most = arrays.template take<double>(places);
      sums = arrays.template take<double>(places);
      terms = arrays.template take<double>(2 * places * OutputErrorOnGpu::terms);
      largest = arrays.template take<int>(places);
    }
    KOKKOS_FORCEINLINE_FUNCTION static std::size_t place(int number, int lane) {
      return static_cast<std::size_t>(number * num_lanes + lane);
    }
    /// Takes the larger activation of this row and another; of equal ones, that of the first output.
    KOKKOS_FORCEINLINE_FUNCTION void take_larger(int row, int other, int lane) const {
      double const found = most(place(other, lane));
      int const output = largest(place(other, lane));
      double& own = most(place(row, lane));
      int& at = largest(place(row, lane));
      if (found > own || (found == own && output < at)) {
        own = found;
        at = output;
      }
    }
    KOKKOS_FORCEINLINE_FUNCTION void add_sum(int chain, int other, int lane) const {
      sums(place(chain, lane)) += sums(place(other, lane));
    }
  };

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    Shared const shared(team);
    Thread const thread = thread_of(team);
    int const num_chains = thread.num_rows < kOutputChains ? thread.num_rows : kOutputChains; // chains with outputs
    find_largest(shared, thread);
    join(team, thread, thread.num_rows, [&](int other) { shared.take_larger(thread.row, other, thread.lane); });
    int const in_round = terms * thread.num_rows;
    for (int round = 0; round * in_round < given.num_outputs; ++round) {
      int const buffer = round % 2 * in_round;
      store_terms(shared, thread, round * in_round, buffer);
      team.team_barrier(); // all terms are stored, and those of the previous round have been added
      int const chain = thread.row - (round * kOutputChains & (thread.num_rows - 1)); // rows take turns at adding
      if (chain >= 0 && chain < num_chains) add_terms(shared, chain, buffer, in_round, thread.lane);
    }
    join(team, thread, num_chains, [&](int other) { shared.add_sum(thread.row, other, thread.lane); });
    store_errors(shared, thread);
    if (thread.row == 0 && thread.position < given.num_positions) store_loss(shared, thread);
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION Thread thread_of(Member const& team) const {
    int const leaf = team.league_rank() / groups_per_line;
    int const lane = team.team_rank() % num_lanes;
    int const place = team.league_rank() % groups_per_line * num_lanes + lane;
    return {team.team_rank() / num_lanes,
            team.team_size() / num_lanes,
            lane,
            static_cast<std::size_t>(leaf) * static_cast<std::size_t>(given.num_outputs),
            place,
            leaf * Tile::num_samples + PlaceInLine<Tile>::position_of(place)};
  }

  /// Reduces the values of the first `count` rows of a team to row 0, by a tree. Begins and ends with a barrier. count:
  /// a power of two.
  template <class Join>
  KOKKOS_FORCEINLINE_FUNCTION static void join(Member const& team, Thread const& thread, int count,
                                               Join const& join_with) {
    team.team_barrier();
    for (int distance = count / 2; distance > 0; distance /= 2) {
      if (thread.row < distance) join_with(thread.row + distance);
      team.team_barrier();
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION double activation(Thread const& thread, int output) const {
    return static_cast<double>(
        number_at(given.outputs, thread.first_line + static_cast<std::size_t>(output), thread.place));
  }

  /// Calls work(output, activation) for each output of a thread, in order.
  template <class Work>
  KOKKOS_FORCEINLINE_FUNCTION void for_outputs(Thread const& thread, Work const& work) const {
    int const step = thread.num_rows;
    int output = thread.row;
    for (; output + (ahead - 1) * step < given.num_outputs; output += ahead * step) {
      double x[ahead];
      VARVE_UNROLL
      for (int i = 0; i < ahead; ++i) x[i] = activation(thread, output + i * step);
      VARVE_UNROLL
      for (int i = 0; i < ahead; ++i) work(output + i * step, x[i]);
    }
    for (; output < given.num_outputs; output += step) work(output, activation(thread, output));
  }

  /// Finds the largest of a thread's activations and begins its sum.
  KOKKOS_FORCEINLINE_FUNCTION void find_largest(Shared const& shared, Thread const& thread) const {
    double most = -Kokkos::Experimental::infinity_v<double>;
    int largest = 0;
    for_outputs(thread, [&](int output, double x) {
      largest = x > most ? output : largest;
      most = x > most ? x : most;
    });
    auto const place = Shared::place(thread.row, thread.lane);
    shared.most(place) = most;
    shared.largest(place) = largest;
    shared.sums(place) = 0.0;
  }

  KOKKOS_FORCEINLINE_FUNCTION NeuronIndex label_of(Thread const& thread) const {
    return thread.position < given.num_positions ? given.labels(thread.position) : 0;
  }
  /// What the loss that takes targets says about an output.
  KOKKOS_FORCEINLINE_FUNCTION LossOfOutput<kind> loss_of(Thread const& thread, int output, double x) const {
    double wanted = 0.0;
    if (given.targets.size() != 0) {
      wanted = static_cast<double>(
          number_at(given.targets, thread.first_line + static_cast<std::size_t>(output), thread.place));
    } else if (thread.position < given.num_positions) {
      wanted = given.wanted_by_label(thread.position, output);
    }
    return LossOfOutput<kind>(x, wanted, given.loss.delta);
  }

  /// The term of the sum for an output: an exponential, or that of LossOfOutput. most: the largest activation.
  KOKKOS_FORCEINLINE_FUNCTION double term_of(Thread const& thread, int output, double x, double most) const {
    if constexpr (is_softmax) {
      return exponential(x - most);
    } else {
      return loss_of(thread, output, x).term;
    }
  }

  /// Stores a thread's terms of the sums for outputs from `first` on. Outputs past the last one add 0. buffer: index of
  /// the buffer's first term.
  KOKKOS_FORCEINLINE_FUNCTION void store_terms(Shared const& shared, Thread const& thread, int first,
                                               int buffer) const {
    double const most = shared.most(Shared::place(0, thread.lane));
    double x[terms];
    VARVE_UNROLL
    for (int i = 0; i < terms; ++i) {
      int const output = first + i * thread.num_rows + thread.row;
      x[i] = output < given.num_outputs ? activation(thread, output) : 0.0;
    }
    VARVE_UNROLL
    for (int i = 0; i < terms; ++i) {
      int const number = i * thread.num_rows + thread.row;
      double term = 0.0;
      if (first + number < given.num_outputs) term = term_of(thread, first + number, x[i], most);
      shared.terms(Shared::place(buffer + number, thread.lane)) = term;
    }
  }

  /// Adds the chain's own ones of `count` terms to its sum, in order.
  KOKKOS_FORCEINLINE_FUNCTION void add_terms(Shared const& shared, int chain, int buffer, int count, int lane) const {
    double sum = shared.sums(Shared::place(chain, lane));
    for (int number = chain; number < count; number += kOutputChains)
      sum = added<kind>(sum, shared.terms(Shared::place(buffer + number, lane)));
    shared.sums(Shared::place(chain, lane)) = sum;
  }

  /// Stores the errors of a thread's outputs; 0 for positions past the last sample.
  KOKKOS_FORCEINLINE_FUNCTION void store_errors(Shared const& shared, Thread const& thread) const {
    double const weight = given.weight_of(thread.position);
    auto const store = [&](int output, double x, double slope) {
      Scalar const error = given.derivative(static_cast<Scalar>(slope * weight), static_cast<Scalar>(x));
      number_at(given.errors, thread.first_line + static_cast<std::size_t>(output), thread.place) =
          thread.position < given.num_positions ? error : Scalar(0);
    };
    if constexpr (is_softmax) {
      double const most = shared.most(Shared::place(0, thread.lane));
      double const sum = shared.sums(Shared::place(0, thread.lane));
      auto const label = label_of(thread);
      for_outputs(thread, [&](int output, double x) {
        store(output, x, exponential(x - most) / sum - (label == static_cast<NeuronIndex>(output) ? 1.0 : 0.0));
      });
    } else {
      auto const count = static_cast<double>(given.num_outputs);
      for_outputs(thread, [&](int output, double x) { store(output, x, loss_of(thread, output, x).slope / count); });
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void store_loss(Shared const& shared, Thread const& thread) const {
    double const most = shared.most(Shared::place(0, thread.lane));
    int const largest = shared.largest(Shared::place(0, thread.lane));
    double const sum = shared.sums(Shared::place(0, thread.lane));
    double const weight = given.weight_of(thread.position);
    if constexpr (is_softmax) {
      double const at_label = activation(thread, static_cast<int>(label_of(thread))) - most;
      given.losses(thread.position) = weight * (logarithm(sum) - at_label);
    } else {
      given.losses(thread.position) = weight * (sum / static_cast<double>(given.num_outputs));
    }
    given.is_right(thread.position) = given.is_right_at(thread.position, largest, most);
  }
};

/// Launches the kernel of the execution space. Does not fence.
template <class ExecutionSpace, class Scalar>
void output_error(ExecutionSpace const& space, OutputError<ExecutionSpace, Scalar> given) {
  if (given.num_positions == 0 || given.num_outputs == 0) return;
  if constexpr (kOnHost<ExecutionSpace>) {
    given.links = with_links<ExecutionSpace, Scalar>(given.num_positions, [](auto links) { return +links; });
    Kokkos::TeamPolicy<ExecutionSpace> const policy(space, given.num_leaves() * given.links, 1, 1);
    with_kind(given.loss, [&](auto kind) {
      if (given.weights.size() == 0) {
        launch_teams("varve::output_error", policy, OutputErrorOnHost<ExecutionSpace, Scalar, kind, false>{given});
      } else {
        launch_teams("varve::output_error", policy, OutputErrorOnHost<ExecutionSpace, Scalar, kind, true>{given});
      }
    });
  } else {
    with_kind(given.loss, [&](auto kind) {
      using Kernel = OutputErrorOnGpu<ExecutionSpace, Scalar, decltype(kind)::value>;
      int const rows =
          static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::min(given.num_outputs, +Kernel::max_rows))));
      int const num_threads = std::max(rows, 4) * Kernel::num_lanes; // whole warps
      int const teams = given.num_leaves() * Kernel::groups_per_line;
      launch_teams("varve::output_error", typename Kernel::Policy(space, teams, num_threads), Kernel{given}, 0,
                   Kernel::scratch_bytes(num_threads) + 64);
    });
  }
}

} // namespace varve
