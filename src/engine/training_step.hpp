#pragma once

#include "core/device_memory.hpp"
#include "core/runtime.hpp"
#include "engine/layer_stream.hpp"
#include "engine/leaf_levels.hpp"
#include "engine/step_shares.hpp"
#include "engine/trained_weights.hpp"
#include "engine/training_kernels.hpp"
#include "network/loss.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
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

/// The activations of all layers of a micro-batch: panel 0 holds the samples, panel l the outputs of the l-th layer.
/// Every `keep_every`-th panel is kept. The panels between two kept ones form a stretch. All stretches share the same
/// memory, so only the stretch written last is valid; others must be recomputed from the kept panel before them.
template <class Scalar>
class TrainingTrace {
public:
  using Panel = LeafPanel<Scalar>;

  TrainingTrace(DeviceMemory const& memory, std::vector<std::size_t> const& widths, std::size_t num_leaves,
                std::size_t keep_every)
      : keep_every_(keep_every) {
    for (std::size_t number = 0; number < widths.size(); number += keep_every)
      kept_.push_back(new_panel(memory, widths[number] * num_leaves));
    for (auto const width : widths_between(widths, keep_every))
      between_.push_back(new_panel(memory, width * num_leaves));
  }

  Panel const& panel(std::size_t number) const {
    return number % keep_every_ == 0 ? kept_[number / keep_every_] : between_[number % keep_every_ - 1];
  }

  /// Call after panel `number` has been written.
  void written(std::size_t number) {
    if (number % keep_every_ != 0) held_stretch_ = number / keep_every_;
  }
  bool is_there(std::size_t number) const { return number % keep_every_ == 0 || number / keep_every_ == held_stretch_; }
  /// The last kept panel at or before this one.
  std::size_t kept_before(std::size_t number) const { return number / keep_every_ * keep_every_; }
  /// The first panel from which on all panels up to this one are valid, if this one is.
  std::size_t first_there(std::size_t number) const { return keep_every_ == 1 ? 0 : kept_before(number); }

private:
  static Panel new_panel(DeviceMemory const& memory, std::size_t lines) {
    return new_numbers<LeafLine<Scalar>>(memory, "varve::activations", lines);
  }

  std::size_t keep_every_;
  std::size_t held_stretch_ = 0;
  std::vector<Panel> kept_, between_;
};

/// The rule that forms series of these neighbouring layers on a device.
template <class Layers>
SeriesRule series_rule(TrainingTraits const& traits, Layers const& layers) {
  return {{layers.begin(), layers.end()}, traits.series_sums, traits.launch_edges, traits.num_processors};
}

/// Forward and backward passes of micro-batches through a network, whose weights are on the device or, depending on the
/// plan, on the host.
template <class Scalar>
class TrainingPasses {
public:
  using Panel = LeafPanel<Scalar>;
  using Weights = TrainedWeights<Scalar>;
  using Sums = DeviceNumbers<Scalar>;
  using Set = TrainingSet<Scalar>;
  static constexpr std::size_t leaf = kLeafSamples<Scalar>;

  /// `host`: the kernels of the weights' memory; the same as `kernels` unless weights are streamed to the device. All
  /// must outlive this object.
  TrainingPasses(TrainingKernels<Scalar> const& kernels, TrainingKernels<Scalar> const& host, Weights const& weights,
                 TrainingPlan const& plan, Loss loss)
      : kernels_(kernels),
        weights_(&weights),
        widths_(weights.widths()),
        max_leaves_(plan.micro_batch / leaf),
        batch_(kernels, plan.micro_batch, loss),
        trace_(kernels.memory(), widths_, max_leaves_, plan.keep_every),
        strip_size_(plan.streams_weights ? plan.strip_size : kWholeLayers),
        strips_(weights.layers(), strip_size_),
        series_rule_(series_rule(kernels.traits(), weights.layers())),
        series_(kernels.new_series()) {
    auto const& memory = kernels.memory();
    auto const widest = *std::max_element(widths_.begin(), widths_.end());
    for (auto& panel : errors_) panel = new_numbers<LeafLine<Scalar>>(memory, "varve::errors", max_leaves_ * widest);
    levels_ = LeafLevels<Scalar>(kernels, weights.layers(), strips_, max_leaves_,
                                 plan.streams_weights ? 0 : series_rule_.max_sums(),
                                 plan.group_bytes > 0 ? weights.layers().size() : 1);
    if (!plan.streams_weights) return;
    stream_.emplace(memory, host, weights, strips_, strip_size_);
  }

  TrainingPasses(TrainingPasses const&) = delete; // the stream has a pointer to the strips
  TrainingPasses& operator=(TrainingPasses const&) = delete;

  /// Call after the patterns of the weights have changed.
  void take_patterns() {
    if (series_) series_->forget();
    series_rule_ = series_rule(kernels_.traits(), weights_->layers());
    if (strip_size_ == kWholeLayers) return;
    strips_ = LayerStrips(weights_->layers(), strip_size_);
    levels_ = {}; // memory of the old levels is freed before new ones are allocated
    levels_ = LeafLevels<Scalar>(kernels_, weights_->layers(), strips_, max_leaves_);
  }

  /// The micro-batch of the passes, whose rows are selected before forward(). From forward() on, all launches depend
  /// only on the set and the number of rows.
  MicroBatch<Scalar>& batch() { return batch_; }

  /// Forward pass of the micro-batch. Leaves the errors of the outputs for backward(), and the losses in batch().
  /// Does not fence, so that a device can start the backward pass without the host.
  void forward(Stream const& stream, Set const& set) {
    ProfilingRegion const region("varve::forward");
    batch_.gather(stream, set, trace_.panel(0), widths_.front());
    trace_.written(0);
    if (stream_) stream_->forget();
    std::size_t const num_layers = weights_->layers().size();
    forward_layers(stream, 0, num_layers, {num_layers - 1, backward_use});
    batch_.answer(stream, set, trace_.panel(num_layers), errors_[0], weights_->layers().back().activation,
                  widths_.back());
  }

  /// Backward pass of the micro-batch of the last forward(): writes the sums of gradients over each of its subtrees to
  /// the array at the subtree's place. `end_strip(layer, first_edge)` is called for each strip of each layer, from the
  /// last to the first, after the kernels that write its sums were launched or, if weights are streamed, when its sums
  /// are on the host and its weights may change. At that time, all sums of edges from first_edge on are complete, and
  /// all sums of biases from this layer on.
  template <class EndStrip>
  void backward(Stream const& stream, std::vector<PassSubtree> const& subtrees, std::vector<Sums> const& sums,
                EndStrip const& end_strip) {
    ProfilingRegion const region("varve::backward");
    std::optional<std::pair<std::size_t, std::size_t>> before; // if streamed: previous strip's layer, first edge
    int current = 0; // errors_[current] holds the errors of the layer's outputs
    for (std::size_t number = weights_->layers().size(); number-- > 0; current = 1 - current) {
      compute_again(stream, number);
      if (!stream_) {
        std::size_t const first = backward_layers(stream, number, subtrees, current, sums);
        for (; number > first; --number, current = 1 - current)
          end_strip(number, weights_->layers()[number].first_edge);
        end_strip(first, weights_->layers()[first].first_edge);
        continue;
      }
      std::size_t const first_edge = weights_->layers()[number].first_edge;
      for (std::size_t strip = 0; strip < num_strips(number, backward_use); ++strip) {
        auto const layer = on_device(stream, {number, backward_use, strip});
        for (auto const& subtree : subtrees)
          backward_strip(stream, number, layer, subtree, current, sums[subtree.place]);
        prefetch_after(number, strip);
        if (before) end_strip(before->first,
                              before->second); // while the device computes this strip
        before = {number, first_edge + layer.strip.first_edge};
      }
    }
    if (!before) return;
    stream.fence("varve: the last gradients are on the host");
    end_strip(before->first, before->second);
  }

  /// Backward pass of the micro-batch of the last forward(), for the errors alone: calls visit(layer, inputs, errors,
  /// num_positions) for each layer, the last one first, with the activations of its inputs and the errors of its
  /// outputs.
  template <class Visit>
  void visit_errors(Stream const& stream, Visit const& visit) {
    ProfilingRegion const region("varve::visit_errors");
    PassSubtree const all{0, batch_.num_leaves(), 0, 0};
    int current = 0; // errors_[current] holds the errors of the layer's outputs
    for (std::size_t number = weights_->layers().size(); number-- > 0; current = 1 - current) {
      compute_again(stream, number);
      visit(number, trace_.panel(number), errors_[current], batch_.num_positions());
      for (std::size_t strip = 0; number > 0 && strip < num_strips(number, backward_use); ++strip) {
        auto const layer = on_device(stream, {number, backward_use, strip});
        auto const levels = levels_.of(weights_->layers()[number], layer.strip, all.num_leaves);
        kernels_.backward(stream, weights_->layers()[number], layer, activation_before(number),
                          panels_of(number, levels, all, current));
        prefetch_after(number, strip);
      }
    }
    if (stream_) stream_->forget(); // weights may be replaced after a visit
  }

private:
  using Layer = DirectedLayer<Scalar>;
  static constexpr auto forward_use = LayerUse::Direction::forward;
  static constexpr auto backward_use = LayerUse::Direction::backward;

  std::size_t num_strips(std::size_t layer, LayerUse::Direction direction) const {
    return strips_.of(layer, direction).size();
  }

  /// A strip on the device, valid until the next call.
  Layer on_device(Stream const& stream, LayerUse const& use) {
    if (stream_) return stream_->acquire(stream, use);
    return strip_of(weights_->layers()[use.layer], use.direction, strips_.of(use));
  }
  void prefetch(LayerUse const& use) {
    if (stream_) stream_->prefetch(use);
  }
  /// Prefetches the strip that the backward pass uses after this one, if there is one.
  void prefetch_after(std::size_t number, std::size_t strip) {
    if (strip + 1 < num_strips(number, backward_use)) {
      prefetch({number, backward_use, strip + 1});
    } else if (number > 0) {
      prefetch(trace_.is_there(number - 1) ? LayerUse{number - 1, backward_use}
                                           : LayerUse{trace_.kept_before(number - 1), forward_use});
    }
  }

  /// next: the strip that is used after the layer.
  void forward_layer(Stream const& stream, std::size_t number, LayerUse const& next) {
    std::size_t const count = num_strips(number, forward_use);
    for (std::size_t strip = 0; strip < count; ++strip) {
      kernels_.forward(stream, weights_->layers()[number], on_device(stream, {number, forward_use, strip}),
                       trace_.panel(number), trace_.panel(number + 1), batch_.num_positions());
      prefetch(strip + 1 < count ? LayerUse{number, forward_use, strip + 1} : next);
    }
    trace_.written(number + 1);
  }

  /// Forward pass of the layers [first, last). after: the strip that is used next.
  void forward_layers(Stream const& stream, std::size_t first, std::size_t last, LayerUse const& after) {
    for (std::size_t number = first; number < last;) {
      std::size_t const end = series_end(number, last);
      if (end == number) {
        forward_layer(stream, number, number + 1 < last ? LayerUse{number + 1, forward_use} : after);
        ++number;
        continue;
      }
      PassSubtree const all{0, batch_.num_leaves(), 0, 0};
      series_->forward(stream, weights_->layers(), number, end, panels_of_series(all, 0), batch_.num_positions());
      for (; number < end; ++number) trace_.written(number + 1);
    }
  }

  /// Recomputes the inputs of a layer unless the trace still holds them.
  void compute_again(Stream const& stream, std::size_t number) {
    if (!trace_.is_there(number)) forward_layers(stream, trace_.kept_before(number), number, {number, backward_use});
  }

  /// The end of the forward series from `first` on; `first` if there is none.
  std::size_t series_end(std::size_t first, std::size_t last) const {
    return stream_ ? first : series_rule_.forward_end(first, last, batch_.num_leaves());
  }

  /// The first layer of the backward series that ends with `last` and whose inputs the trace holds; last + 1 if there
  /// is none. Layer 0, which has no errors of inputs, is in no series.
  std::size_t series_begin(std::size_t last) const {
    std::size_t const lowest = std::max(trace_.first_there(last), std::min(last, std::size_t(1)));
    return series_rule_.backward_begin(lowest, last, batch_.num_leaves());
  }

  /// Backward pass of a layer and of the layers before it that are launched together; returns the first of them.
  /// errors_[current] holds the errors of the layer's outputs.
  std::size_t backward_layers(Stream const& stream, std::size_t last, std::vector<PassSubtree> const& subtrees,
                              int current, std::vector<Sums> const& sums) {
    std::size_t const series = series_begin(last);
    std::size_t const first = series <= last ? series : group_begin(last);
    for (auto const& subtree : subtrees) {
      if (series <= last) {
        backward_series(stream, first, last, subtree, current, sums[subtree.place]);
      } else {
        backward_group(stream, first, last, subtree, current, sums[subtree.place]);
      }
    }
    return first;
  }

  /// Backward pass of a series; errors_[current] holds the errors of its outputs.
  void backward_series(Stream const& stream, std::size_t first, std::size_t last, PassSubtree const& subtree,
                       int current, Sums const& sums) {
    auto const& begin = weights_->layers()[first];
    auto const& top = weights_->layers()[last];
    auto const levels =
        levels_.of_series(top.first_weight_sum + top.num_edges - begin.first_weight_sum,
                          top.first_bias_sum + top.num_outputs - begin.first_bias_sum, subtree.num_leaves);
    SeriesPart const part{first, last, subtree.first_leaf, subtree.num_leaves, batch_.num_positions(), current};
    series_->backward(stream, weights_->layers(), part, panels_of_series(subtree, top.num_outputs), levels);
    kernels_.totals(stream, levels, nullptr, sums, begin.first_weight_sum, begin.first_bias_sum);
  }

  /// The first layer of the group that ends with `last` and whose inputs the trace holds (LeafLevels): layers of one
  /// width and format, whose sums are adjacent.
  std::size_t group_begin(std::size_t last) const {
    std::size_t const lowest = std::max(trace_.first_there(last), last - std::min(last, levels_.group_layers() - 1));
    std::size_t first = last;
    while (first > lowest && goes_with_next(first - 1)) --first;
    return first;
  }
  bool goes_with_next(std::size_t number) const {
    auto const& layer = weights_->layers()[number];
    auto const& next = weights_->layers()[number + 1];
    return layer.num_inputs == next.num_outputs && layer.num_outputs == next.num_outputs &&
           layer.format.has_dense_backward == next.format.has_dense_backward && !layer.has_gaps_backward() &&
           !next.has_gaps_backward() && layer.is_before(next);
  }

  /// Backward pass of a group over a subtree: errors of the inputs, except those of layer 0, and sums of gradients.
  /// errors_[current] holds the errors of the last layer's outputs.
  void backward_group(Stream const& stream, std::size_t first, std::size_t last, PassSubtree const& subtree,
                      int current, Sums const& sums) {
    auto const& begin = weights_->layers()[first];
    auto const& end = weights_->layers()[last];
    auto levels = levels_.of(end, strips_.of({last, backward_use}), subtree.num_leaves);
    if (first < last) {
      levels.weights.num_sums = end.first_weight_sum + end.num_edges - begin.first_weight_sum;
      levels.bias.num_sums = end.first_bias_sum + end.num_outputs - begin.first_bias_sum;
    }
    for (std::size_t number = last + 1; number-- > first; current = 1 - current) {
      auto const& layer = weights_->layers()[number];
      Layer const arrays = on_device(stream, {number, backward_use});
      GradientLevels<Scalar> const own{levels.weights.from_sum(layer.first_weight_sum - begin.first_weight_sum),
                                       levels.bias.from_sum(layer.first_bias_sum - begin.first_bias_sum)};
      kernels_.backward(stream, layer, arrays, activation_before(number), panels_of(number, own, subtree, current));
    }
    kernels_.totals(stream, levels, end.has_gaps_backward() ? &end.dense_places : nullptr, sums, begin.first_weight_sum,
                    begin.first_bias_sum);
  }

  /// The activation of the layer before; null for layer 0.
  Activation const* activation_before(std::size_t number) const {
    return number > 0 ? &weights_->layers()[number - 1].activation : nullptr;
  }

  /// The lines of a panel of `width` neurons from the subtree's first leaf on.
  static Panel lines_of(Panel const& panel, PassSubtree const& subtree, std::size_t width) {
    if (subtree.first_leaf == 0) return panel;
    std::size_t const first = subtree.first_leaf * width;
    return panel.part(first, first + subtree.num_leaves * width);
  }

  /// Errors of a streamed strip's inputs, except for the first layer, and sums of gradients over a subtree, which are
  /// copied to the host.
  void backward_strip(Stream const& stream, std::size_t number, Layer const& arrays, PassSubtree const& subtree,
                      int current, Sums const& sums) {
    auto const& layer = weights_->layers()[number];
    auto const& strip = arrays.strip;
    auto const levels = levels_.of(layer, strip, subtree.num_leaves);
    kernels_.backward(stream, layer, arrays, activation_before(number), panels_of(number, levels, subtree, current));
    auto const& gradients = stream_->gradients();
    kernels_.totals(stream, levels, layer.has_gaps_backward() ? &arrays.places : nullptr, gradients, 0,
                    strip.num_edges);
    auto const copy_back = [&](std::size_t place, std::size_t first, std::size_t count) {
      if (count > 0) stream.copy_to_host(sums.data() + place, gradients.data() + first, count * sizeof(Scalar));
    };
    copy_back(layer.first_weight_sum + strip.first_edge, 0, strip.num_edges);
    copy_back(layer.first_bias_sum, strip.num_edges, levels.bias.num_sums);
  }

  /// The lines of a subtree's leaves that the backward pass of a layer reads and writes. errors_[current] holds the
  /// errors of its outputs.
  BackwardPanels<Scalar> panels_of(std::size_t number, GradientLevels<Scalar> const& levels, PassSubtree const& subtree,
                                   int current) const {
    auto const& layer = weights_->layers()[number];
    return {lines_of(trace_.panel(number), subtree, layer.num_inputs),
            lines_of(errors_[current], subtree, layer.num_outputs),
            lines_of(errors_[1 - current], subtree, layer.num_inputs), levels, batch_.num_positions()};
  }

  /// The lines of a subtree in the panels of a series of layers of this width.
  SeriesPanels<Scalar> panels_of_series(PassSubtree const& subtree, std::size_t width) const {
    auto const inputs_of = [this, subtree, width](std::size_t layer) {
      return lines_of(trace_.panel(layer), subtree, width);
    };
    return {inputs_of, {lines_of(errors_[0], subtree, width), lines_of(errors_[1], subtree, width)}};
  }

  TrainingKernels<Scalar> const& kernels_;
  Weights const* weights_;
  std::vector<std::size_t> widths_;
  std::size_t max_leaves_;
  MicroBatch<Scalar> batch_;
  TrainingTrace<Scalar> trace_;
  std::size_t strip_size_;
  LayerStrips strips_;
  SeriesRule series_rule_;
  std::unique_ptr<SeriesPasses<Scalar>> series_; ///< null if the device computes no series
  std::optional<LayerStream<Scalar>> stream_;    ///< only if weights are streamed
  Panel errors_[2];
  LeafLevels<Scalar> levels_;
};

} // namespace varve
