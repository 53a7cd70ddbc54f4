#pragma once

#include "engine/trained_weights.hpp"
#include "engine/training_memory.hpp"
#include "engine/training_passes.hpp"
#include "engine/training_trace.hpp"
#include "kernels/fused_backward.hpp"
#include "kernels/gather_positions.hpp"
#include "kernels/leaf_sums.hpp"
#include "kernels/output_error.hpp"
#include "kernels/trained_forward.hpp"

namespace varve {

/// Samples with their answers on a device.
template <class ExecutionSpace, class Scalar>
struct TrainingSet {
  DeviceRows<ExecutionSpace, Scalar> samples;
  DeviceRows<ExecutionSpace, Scalar> targets; ///< empty if the answers are labels
  std::vector<NeuronIndex> labels;
  std::size_t num_samples = 0;
};

/// Forward and backward passes of micro-batches through a network.
template <class ExecutionSpace, class Scalar>
class TrainingPasses {
public:
  using Panel = TrainingPanel<ExecutionSpace, Scalar>;
  using Weights = TrainedWeights<ExecutionSpace, Scalar>;
  using Set = TrainingSet<ExecutionSpace, Scalar>;
  static constexpr std::size_t leaf = kLeafSamples<Scalar>;

  TrainingPasses(Weights const& weights, TrainingPlan const& plan, Loss loss)
      : weights_(&weights),
        widths_(weights.widths()),
        max_leaves_(plan.micro_batch / leaf),
        loss_(loss),
        trace_(widths_, max_leaves_, plan.keep_every) {
    auto const room = [](char const* label) {
      return Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label));
    };
    auto const widest = *std::max_element(widths_.begin(), widths_.end());
    for (auto& panel : errors_) panel = Panel(room("varve::errors"), max_leaves_ * widest);
    std::size_t most = 0;
    for (auto const& layer : weights.layers()) {
      most = std::max({most, size_for(layer.edges.num_edges(), layer.num_inputs),
                       size_for(static_cast<std::size_t>(layer.num_outputs), layer.num_outputs)});
    }
    levels_ = DeviceArray<ExecutionSpace, Scalar>(room("varve::leaf_sums"), most);
    losses_ = DeviceArray<ExecutionSpace, double>("varve::losses", plan.micro_batch);
    is_right_ = DeviceArray<ExecutionSpace, int>("varve::right", plan.micro_batch);
    rows_ = DeviceArray<ExecutionSpace, std::uint64_t>("varve::rows", plan.micro_batch);
    labels_ = DeviceArray<ExecutionSpace, NeuronIndex>("varve::labels", plan.micro_batch);
  }

  /// Upper bound of the device memory, in bytes, for sums of leaves.
  static std::size_t bytes_of_levels(Network const& network, std::size_t num_leaves) {
    std::size_t most = 0;
    for (auto const& layer : network.layers()) // at most two numbers per leaf and sum
      most = std::max({most, layer.num_edges(), static_cast<EdgeOffset>(layer.num_outputs())});
    return 2 * num_leaves * most * sizeof(Scalar);
  }

  /// Forward pass of a micro-batch, which consists of these rows of the set. Appends the samples' losses to `losses`,
  /// adds right answers to num_right, and leaves the errors of the outputs for backward().
  void forward(ExecutionSpace const& space, Set const& set, std::span<std::uint64_t const> rows,
               std::vector<double>& losses, std::size_t& num_right) {
    ProfilingRegion const region("varve::forward");
    num_positions_ = static_cast<int>(rows.size());
    num_leaves_ = static_cast<int>(num_leaves<Scalar>(rows.size()));
    fill(rows_, std::vector<std::uint64_t>(rows.begin(), rows.end()));
    gather_positions(
        space,
        GatherPositions<ExecutionSpace, Scalar>{set.samples, rows_, trace_.panel(0), static_cast<int>(widths_.front())},
        num_positions_);
    trace_.written(0);
    for (std::size_t number = 0; number < weights_->layers().size(); ++number) forward_layer(space, number);
    answer(space, set, rows);
    space.fence("varve: losses are there");
    auto const found = download(Kokkos::subview(losses_, std::make_pair(std::size_t(0), rows.size())));
    losses.insert(losses.end(), found.begin(), found.end());
    for (int const right : download(Kokkos::subview(is_right_, std::make_pair(std::size_t(0), rows.size()))))
      num_right += static_cast<std::size_t>(right);
  }

  /// Backward pass of the micro-batch that forward() took last: writes the gradients' sums over each of its subtrees to
  /// the array at the subtree's place. `end_layer(number)` is called when the kernels of a layer, from the last to
  /// the first, have been launched.
  template <class EndLayer>
  void backward(ExecutionSpace const& space, std::vector<PassSubtree> const& subtrees,
                std::vector<DeviceArray<ExecutionSpace, Scalar>> const& sums, EndLayer const& end_layer) {
    ProfilingRegion const region("varve::backward");
    int current = 0; // errors_[current] holds the errors of the layer's outputs
    for (std::size_t number = weights_->layers().size(); number-- > 0; current = 1 - current) {
      compute_again(space, number);
      for (auto const& subtree : subtrees) {
        auto const& totals = sums[subtree.place];
        bias_gradient(space, number, subtree, errors_[current], totals);
        if (number > 0) {
          auto const& before = weights_->layers()[number - 1];
          FusedBackward<ExecutionSpace, Scalar, true> kernel{};
          kernel.derivative = Derivative<Scalar>(before.activation);
          kernel.input_errors = lines_of(errors_[1 - current], subtree, before.num_outputs);
          backward_layer(space, number, kernel, subtree, errors_[current], totals);
        } else {
          FusedBackward<ExecutionSpace, Scalar, false> const kernel{};
          backward_layer(space, number, kernel, subtree, errors_[current], totals);
        }
      }
      end_layer(number);
    }
  }

  /// Backward pass of the micro-batch that forward() took last, for the errors alone: calls visit(layer, inputs,
  /// errors, num_leaves) for each layer, the last one first, with the activations of its inputs and the errors of its
  /// outputs.
  template <class Visit>
  void visit_errors(ExecutionSpace const& space, Visit const& visit) {
    ProfilingRegion const region("varve::visit_errors");
    PassSubtree const all{0, static_cast<std::size_t>(num_leaves_), 0, 0};
    int current = 0; // errors_[current] holds the errors of the layer's outputs
    for (std::size_t number = weights_->layers().size(); number-- > 0; current = 1 - current) {
      compute_again(space, number);
      visit(number, trace_.panel(number), errors_[current], num_leaves_);
      if (number == 0) break;
      FusedBackward<ExecutionSpace, Scalar, true> kernel{};
      kernel.derivative = Derivative<Scalar>(weights_->layers()[number - 1].activation);
      kernel.input_errors = errors_[1 - current];
      set_layer(space, number, all, errors_[current], kernel);
      fused_backward(space, kernel);
    }
  }

private:
  /// Copies numbers to the front of an array on the device.
  template <class T>
  static void fill(DeviceArray<ExecutionSpace, T> const& array, std::vector<T> const& numbers) {
    Kokkos::deep_copy(
        Kokkos::subview(array, std::make_pair(std::size_t(0), numbers.size())),
        Kokkos::View<T const*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(numbers.data(), numbers.size()));
  }

  using Tune = TrainingTuning<ExecutionSpace>;

  void forward_layer(ExecutionSpace const& space, std::size_t number) {
    auto const& layer = weights_->layers()[number];
    TrainedForward<ExecutionSpace, Scalar> kernel{};
    kernel.edges = layer.edges.by_output;
    kernel.weights = layer.by_output;
    kernel.bias = layer.bias;
    kernel.bounds = bounds_of<Scalar>(layer.activation);
    kernel.inputs = trace_.panel(number);
    kernel.outputs = trace_.panel(number + 1);
    kernel.num_inputs = layer.num_inputs;
    trained_forward(space, kernel, num_leaves_);
    trace_.written(number + 1);
  }

  /// Computes the inputs of a layer again unless the trace still has them.
  void compute_again(ExecutionSpace const& space, std::size_t number) {
    if (trace_.is_there(number)) return;
    for (std::size_t layer = trace_.kept_before(number); layer < number; ++layer) forward_layer(space, layer);
  }

  void answer(ExecutionSpace const& space, Set const& set, std::span<std::uint64_t const> rows) {
    std::size_t const outputs = widths_.back();
    OutputError<ExecutionSpace, Scalar> kernel{};
    kernel.outputs = trace_.panel(widths_.size() - 1);
    if (set.labels.empty()) {
      kernel.targets = gathered_targets(space, set);
    } else {
      std::vector<NeuronIndex> labels;
      for (auto const row : rows) labels.push_back(set.labels[row]);
      fill(labels_, labels);
      kernel.labels = labels_;
    }
    kernel.errors = errors_[0];
    kernel.losses = losses_;
    kernel.is_right = is_right_;
    kernel.derivative = Derivative<Scalar>(weights_->layers().back().activation);
    kernel.loss = loss_;
    kernel.num_outputs = static_cast<int>(outputs);
    kernel.num_positions = num_positions_;
    kernel.num_leaves = num_leaves_;
    output_error(space, kernel);
  }

  ConstTrainingPanel<ExecutionSpace, Scalar> gathered_targets(ExecutionSpace const& space, Set const& set) {
    std::size_t const outputs = widths_.back();
    if (targets_.size() == 0) {
      targets_ =
          Panel(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("varve::targets")), max_leaves_ * outputs);
    }
    gather_positions(space,
                     GatherPositions<ExecutionSpace, Scalar>{set.targets, rows_, targets_, static_cast<int>(outputs)},
                     num_positions_);
    return targets_;
  }

  /// The lines of a subtree's leaves in a panel of `width` neurons, from the first of them on.
  static Panel lines_of(Panel const& panel, PassSubtree const& subtree, int width) {
    if (subtree.first_leaf == 0) return panel; // a subview would take time, which thousands of layers would feel
    auto const lines = static_cast<std::size_t>(width);
    std::size_t const first = subtree.first_leaf * lines;
    return Kokkos::subview(panel, std::make_pair(first, first + subtree.num_leaves * lines));
  }

  void bias_gradient(ExecutionSpace const& space, std::size_t number, PassSubtree const& subtree, Panel const& errors,
                     DeviceArray<ExecutionSpace, Scalar> const& totals) {
    auto const& layer = weights_->layers()[number];
    auto const levels = levels_for(space, subtree, static_cast<std::size_t>(layer.num_outputs), layer.num_outputs);
    neuron_sums(space, NeuronSums<ExecutionSpace, Scalar>{lines_of(errors, subtree, layer.num_outputs), levels,
                                                          layer.num_outputs, 1});
    add_levels(space, AddLevels<ExecutionSpace, Scalar>{levels, totals, layer.first_bias_sum});
  }

  template <class Kernel>
  void backward_layer(ExecutionSpace const& space, std::size_t number, Kernel kernel, PassSubtree const& subtree,
                      Panel const& errors, DeviceArray<ExecutionSpace, Scalar> const& totals) {
    set_layer(space, number, subtree, errors, kernel);
    fused_backward(space, kernel);
    add_levels(space,
               AddLevels<ExecutionSpace, Scalar>{kernel.levels, totals, weights_->layers()[number].first_weight_sum});
  }

  /// Sets what the backward kernel of a layer reads, and where it adds up gradients.
  template <class Kernel>
  void set_layer(ExecutionSpace const& space, std::size_t number, PassSubtree const& subtree, Panel const& errors,
                 Kernel& kernel) const {
    auto const& layer = weights_->layers()[number];
    kernel.edges = layer.edges.by_input;
    kernel.weights = layer.by_input;
    kernel.inputs = lines_of(trace_.panel(number), subtree, layer.num_inputs);
    kernel.errors = lines_of(errors, subtree, layer.num_outputs);
    kernel.levels = levels_for(space, subtree, layer.edges.num_edges(), layer.num_inputs);
    kernel.num_outputs = layer.num_outputs;
  }

  /// Leaves that a team adds up by itself in kernels over num_rows rows.
  int leaves_per_run(ExecutionSpace const& space, int num_rows, int num_leaves) const {
    int const processors = num_processors(space);
    return Tune::leaves_per_run(processors, Tune::num_blocks(processors, num_rows), num_leaves);
  }
  static int levels_of(int leaves_per_run) {
    int levels = 1;
    while (1 << (levels - 1) < leaves_per_run) ++levels;
    return levels;
  }

  /// The levels for num_sums sums over a subtree, in the shared array.
  TreeLevels<ExecutionSpace, Scalar> levels_for(ExecutionSpace const& space, PassSubtree const& subtree,
                                                std::size_t num_sums, int num_rows) const {
    auto const leaves = static_cast<int>(subtree.num_leaves);
    int const per_run = leaves_per_run(space, num_rows, leaves);
    return {levels_, num_sums, levels_of(per_run), per_run, leaves};
  }
  /// The most elements that the levels need for any number of leaves.
  std::size_t size_for(std::size_t num_sums, int num_rows) const {
    std::size_t most = 0;
    for (int leaves = 1; leaves <= static_cast<int>(max_leaves_); ++leaves)
      most = std::max(most, size_of_levels(num_sums, leaves, leaves_per_run(ExecutionSpace(), num_rows, leaves)));
    return most;
  }

  Weights const* weights_;
  std::vector<std::size_t> widths_;
  std::size_t max_leaves_;
  Loss loss_;
  TrainingTrace<ExecutionSpace, Scalar> trace_;
  Panel errors_[2], targets_;
  DeviceArray<ExecutionSpace, Scalar> levels_;
  DeviceArray<ExecutionSpace, double> losses_;
  DeviceArray<ExecutionSpace, int> is_right_;
  DeviceArray<ExecutionSpace, std::uint64_t> rows_;
  DeviceArray<ExecutionSpace, NeuronIndex> labels_;
  int num_positions_ = 0;
  int num_leaves_ = 0;
};

} // namespace varve
