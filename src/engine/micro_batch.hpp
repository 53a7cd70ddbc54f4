#pragma once

#include "engine/mirrored_array.hpp"
#include "kernels/derivative.hpp"
#include "kernels/gather_positions.hpp"
#include "kernels/output_error.hpp"
#include "kernels/training_tile.hpp"
#include "network/loss.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace varve {

/// Samples with their answers on a device.
template <class ExecutionSpace, class Scalar>
struct TrainingSet {
  DeviceRows<ExecutionSpace, Scalar> samples;
  DeviceRows<ExecutionSpace, Scalar> targets; ///< empty if the answers are labels
  std::vector<NeuronIndex> labels;
  std::size_t num_samples = 0;
};

/// The rows of a set that are under way, their answers, and the losses that come back to the host.
template <class ExecutionSpace, class Scalar>
class MicroBatch {
public:
  using Panel = TrainingPanel<ExecutionSpace, Scalar>;
  using Set = TrainingSet<ExecutionSpace, Scalar>;

  /// For up to most_positions rows at a time.
  MicroBatch(std::size_t most_positions, Loss loss)
      : most_positions_(most_positions),
        loss_(loss),
        losses_("varve::losses", most_positions),
        is_right_("varve::right", most_positions),
        rows_("varve::rows", most_positions),
        labels_("varve::labels", most_positions) {}

  int num_leaves() const { return num_leaves_; }

  /// Takes these rows of the set. Waits for those before.
  void take(ExecutionSpace const& space, Set const& set, std::span<std::uint64_t const> rows) {
    num_positions_ = static_cast<int>(rows.size());
    num_leaves_ = static_cast<int>(varve::num_leaves<Scalar>(rows.size()));
    if (is_under_way_) space.fence("varve: the last micro-batch has left the host's buffers");
    is_under_way_ = true;
    rows_.fill(rows.size(), [&](std::size_t i) { return rows[i]; });
    if (!set.labels.empty()) labels_.fill(rows.size(), [&](std::size_t i) { return set.labels[rows[i]]; });
  }

  /// Brings the rows' samples, of `width` neurons, to a panel. Does not fence.
  void gather(ExecutionSpace const& space, Set const& set, Panel const& panel, std::size_t width) {
    rows_.send(space, static_cast<std::size_t>(num_positions_));
    if (!set.labels.empty()) labels_.send(space, static_cast<std::size_t>(num_positions_));
    gather_positions(
        space, GatherPositions<ExecutionSpace, Scalar>{set.samples, rows_.on_device(), panel, static_cast<int>(width)},
        num_positions_);
  }

  /// Writes the errors of the outputs, of `width` neurons, and starts to bring the losses back. Does not fence.
  void answer(ExecutionSpace const& space, Set const& set, Panel const& outputs, Panel const& errors,
              Activation const& activation, std::size_t width) {
    OutputError<ExecutionSpace, Scalar> kernel{};
    kernel.outputs = outputs;
    if (set.labels.empty()) {
      kernel.targets = gathered_targets(space, set, width);
    } else {
      kernel.labels = labels_.on_device();
    }
    kernel.errors = errors;
    kernel.losses = losses_.on_device();
    kernel.is_right = is_right_.on_device();
    kernel.derivative = Derivative<Scalar>(activation);
    kernel.loss = loss_;
    kernel.num_outputs = static_cast<int>(width);
    kernel.num_positions = num_positions_;
    kernel.num_leaves = num_leaves_;
    output_error(space, kernel);
    losses_.bring_back(space, static_cast<std::size_t>(num_positions_));
    is_right_.bring_back(space, static_cast<std::size_t>(num_positions_));
  }

  /// Waits for the losses of answer(); appends them to `losses` and adds right answers to num_right.
  void add_losses(ExecutionSpace const& space, std::vector<double>& losses, std::size_t& num_right) {
    space.fence("varve: losses are there");
    is_under_way_ = false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(num_positions_); ++i) {
      losses.push_back(losses_[i]);
      num_right += static_cast<std::size_t>(is_right_[i]);
    }
  }

private:
  Panel const& gathered_targets(ExecutionSpace const& space, Set const& set, std::size_t width) {
    if (targets_.size() == 0) {
      auto const leaves = varve::num_leaves<Scalar>(most_positions_);
      targets_ = Panel(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("varve::targets")), leaves * width);
    }
    gather_positions(
        space,
        GatherPositions<ExecutionSpace, Scalar>{set.targets, rows_.on_device(), targets_, static_cast<int>(width)},
        num_positions_);
    return targets_;
  }

  std::size_t most_positions_;
  Loss loss_;
  Panel targets_;
  MirroredArray<ExecutionSpace, double> losses_;
  MirroredArray<ExecutionSpace, int> is_right_;
  MirroredArray<ExecutionSpace, std::uint64_t> rows_;
  MirroredArray<ExecutionSpace, NeuronIndex> labels_;
  bool is_under_way_ = false; ///< take() has been called, and add_losses() has not
  int num_positions_ = 0;
  int num_leaves_ = 0;
};

} // namespace varve
