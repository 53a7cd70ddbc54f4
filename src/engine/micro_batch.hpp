#pragma once

#include "core/device_memory.hpp"
#include "engine/training_kernels.hpp"
#include "network/loss.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace varve {

/// Samples with their answers on a device.
template <class Scalar>
struct TrainingSet {
  SampleRowsOnDevice<Scalar> samples;
  SampleRowsOnDevice<Scalar> targets; ///< empty if the answers are labels
  std::vector<NeuronIndex> labels;
  std::vector<double> weights; ///< empty: all are 1
  std::size_t num_samples = 0;
};

/// The rows of a set that are being computed, their answers, and the losses that are copied back to the host.
template <class Scalar>
class MicroBatch {
public:
  using Panel = LeafPanel<Scalar>;
  using Set = TrainingSet<Scalar>;

  /// For up to max_positions rows at a time. The kernels must outlive this object.
  MicroBatch(TrainingKernels<Scalar> const& kernels, std::size_t max_positions, Loss loss)
      : kernels_(&kernels),
        max_positions_(max_positions),
        loss_(loss),
        losses_(kernels.memory(), "varve::losses", max_positions),
        is_right_(kernels.memory(), "varve::right", max_positions),
        rows_(kernels.memory(), "varve::rows", max_positions),
        labels_(kernels.memory(), "varve::labels", max_positions),
        weights_(kernels.memory(), "varve::sample_weights", max_positions) {}

  int num_positions() const { return num_positions_; }
  std::size_t num_leaves() const { return varve::num_leaves<Scalar>(static_cast<std::size_t>(num_positions_)); }

  /// Selects these rows of the set. Waits for the previous rows.
  void select_rows(Stream const& stream, Set const& set, std::span<std::uint64_t const> rows) {
    num_positions_ = static_cast<int>(rows.size());
    if (is_under_way_) stream.fence("varve: the last micro-batch has left the host's buffers");
    is_under_way_ = true;
    rows_.fill(rows.size(), [&](std::size_t i) { return rows[i]; });
    if (!set.labels.empty()) labels_.fill(rows.size(), [&](std::size_t i) { return set.labels[rows[i]]; });
    if (!set.weights.empty()) weights_.fill(rows.size(), [&](std::size_t i) { return set.weights[rows[i]]; });
  }

  /// Gathers the rows' samples, of `width` neurons, in a panel. Does not fence.
  void gather(Stream const& stream, Set const& set, Panel const& panel, std::size_t width) {
    rows_.send(stream, static_cast<std::size_t>(num_positions_));
    if (!set.labels.empty()) labels_.send(stream, static_cast<std::size_t>(num_positions_));
    if (!set.weights.empty()) weights_.send(stream, static_cast<std::size_t>(num_positions_));
    kernels_->gather_positions(stream, set.samples, rows_.on_device(), panel, width, num_positions_);
  }

  /// Writes the errors of the outputs, of `width` neurons, and starts to copy the losses to the host. Does not fence.
  void answer(Stream const& stream, Set const& set, Panel const& outputs, Panel const& errors,
              Activation const& activation, std::size_t width) {
    AnsweredOutputs<Scalar> answered;
    answered.outputs = outputs;
    if (set.labels.empty()) {
      answered.targets = gathered_targets(stream, set, width);
    } else {
      answered.labels = labels_.on_device();
    }
    if (!set.weights.empty()) answered.weights = weights_.on_device();
    answered.errors = errors;
    answered.losses = losses_.on_device();
    answered.is_right = is_right_.on_device();
    answered.activation = activation;
    answered.loss = loss_;
    answered.num_outputs = static_cast<int>(width);
    answered.num_positions = num_positions_;
    kernels_->answer(stream, answered);
    losses_.copy_back(stream, static_cast<std::size_t>(num_positions_));
    is_right_.copy_back(stream, static_cast<std::size_t>(num_positions_));
  }

  /// Waits for the losses of answer(), appends them to `losses` and adds the number of right answers to num_right.
  void add_losses(Stream const& stream, std::vector<double>& losses, std::size_t& num_right) {
    stream.fence("varve: losses are there");
    is_under_way_ = false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(num_positions_); ++i) {
      losses.push_back(losses_[i]);
      num_right += static_cast<std::size_t>(is_right_[i]);
    }
  }

private:
  Panel const& gathered_targets(Stream const& stream, Set const& set, std::size_t width) {
    if (targets_.size() == 0) {
      auto const leaves = varve::num_leaves<Scalar>(max_positions_);
      targets_ = new_numbers<LeafLine<Scalar>>(kernels_->memory(), "varve::targets", leaves * width);
    }
    kernels_->gather_positions(stream, set.targets, rows_.on_device(), targets_, width, num_positions_);
    return targets_;
  }

  TrainingKernels<Scalar> const* kernels_;
  std::size_t max_positions_;
  Loss loss_;
  Panel targets_;
  MirroredArray<double> losses_;
  MirroredArray<int> is_right_;
  MirroredArray<std::uint64_t> rows_;
  MirroredArray<NeuronIndex> labels_;
  MirroredArray<double> weights_;
  bool is_under_way_ = false; ///< select_rows() has been called, and add_losses() has not
  int num_positions_ = 0;
};

} // namespace varve
