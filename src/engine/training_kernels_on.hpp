#pragma once

#include "core/device_stream.hpp"
#include "core/execution.hpp"
#include "engine/training_kernels.hpp"
#include "formats/device_layer.hpp"
#include "kernels/derivative.hpp"
#include "kernels/fused_backward.hpp"
#include "kernels/gather_positions.hpp"
#include "kernels/growth.hpp"
#include "kernels/leaf_gradient.hpp"
#include "kernels/leaf_sums.hpp"
#include "kernels/output_error.hpp"
#include "kernels/trained_dense.hpp"
#include "kernels/trained_forward.hpp"
#include "kernels/training_tile.hpp"
#include "kernels/tuning/training.hpp"
#include "kernels/update_step.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace varve {

/// least = min(least, index of a number that is not finite). Index: number.
template <class ExecutionSpace, class Number>
struct FindNotFinite {
  ConstDeviceArray<ExecutionSpace, Number> numbers;

  KOKKOS_FUNCTION void operator()(std::size_t i, std::size_t& least) const {
    if (!Kokkos::isfinite(numbers(i)) && i < least) least = i;
  }
};

/// numbers(i) -= shift. Index: number.
template <class ExecutionSpace>
struct Subtract {
  DeviceArray<ExecutionSpace, std::uint32_t> numbers;
  std::uint32_t shift;

  KOKKOS_FUNCTION void operator()(std::size_t i) const { numbers(i) -= shift; }
};

/// Converts arrays of the host's code to the Views of an execution space. Links: of the lines of a launch
/// (with_links()), which lie in the memory of lines with all links.
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
struct TrainingViews {
  using Panel = TrainingPanel<ExecutionSpace, Scalar, Links>;
  using Line = typename TrainingTile<ExecutionSpace, Scalar, Links>::Line;
  static_assert(sizeof(Line) <= sizeof(LeafLine<Scalar>));

  template <class Number>
  static Kokkos::View<Number*, typename ExecutionSpace::memory_space> array(DeviceNumbers<Number> const& numbers) {
    return Kokkos::View<Number*, typename ExecutionSpace::memory_space>(numbers.data(), numbers.size());
  }
  static Panel panel(LeafPanel<Scalar> const& given) {
    return Panel(reinterpret_cast<Line*>(given.data()), given.size());
  }
  static TreeLevels<ExecutionSpace, Scalar> levels(LevelsOnDevice<Scalar> const& levels) {
    auto const num_levels = std::bit_width(static_cast<unsigned>(levels.leaves_per_run));
    return {array(levels.sums),    levels.num_sums,   static_cast<int>(num_levels),
            levels.leaves_per_run, levels.num_leaves, levels.parts_per_leaf};
  }
  static EdgeRows<ExecutionSpace> rows(RowsOnDevice const& rows) {
    return {array(rows.row_pointers), array(rows.neurons), rows.num_rows};
  }
  static DeviceRows<ExecutionSpace, Scalar> samples(SampleRowsOnDevice<Scalar> const& rows) {
    return {array(rows.row_pointers), array(rows.columns), array(rows.values)};
  }

  /// The panel from the line of a strip's first row on.
  static Panel panel_from(LeafPanel<Scalar> const& given, LayerStrip const& strip) {
    if (given.size() == 0) return panel(given);
    return Panel(reinterpret_cast<Line*>(given.data()) + strip.first_row, given.size() - strip.first_row);
  }

  /// The arguments of forward kernels for a strip of a layer.
  static TrainedForward<ExecutionSpace, Scalar, Links> forward(LayerInTraining<Scalar> const& layer,
                                                               DirectedLayer<Scalar> const& arrays,
                                                               LeafPanel<Scalar> const& inputs,
                                                               LeafPanel<Scalar> const& outputs) {
    TrainedForward<ExecutionSpace, Scalar, Links> kernel{};
    kernel.edges = rows(arrays.edges);
    kernel.weights = array(arrays.weights);
    kernel.bias = array(arrays.bias);
    kernel.bounds = bounds_of<Scalar>(layer.activation);
    kernel.inputs = panel(inputs);
    kernel.outputs = panel_from(outputs, arrays.strip);
    kernel.num_inputs = static_cast<int>(layer.num_inputs);
    kernel.stride = static_cast<int>(layer.num_outputs);
    return kernel;
  }

  /// The arguments of backward kernels for a strip of a layer. before: the activation of the layer before; null for the
  /// first layer, which has gradients alone.
  template <bool HasInputErrors>
  static FusedBackward<ExecutionSpace, Scalar, HasInputErrors, Links>
  backward(LayerInTraining<Scalar> const& layer, DirectedLayer<Scalar> const& arrays, Activation const* before,
           BackwardPanels<Scalar> const& panels) {
    FusedBackward<ExecutionSpace, Scalar, HasInputErrors, Links> kernel{};
    kernel.edges = rows(arrays.edges);
    kernel.weights = array(arrays.weights);
    kernel.inputs = panel_from(panels.inputs, arrays.strip);
    kernel.errors = panel(panels.errors);
    kernel.input_errors = panel_from(panels.input_errors, arrays.strip);
    kernel.stride = static_cast<int>(layer.num_inputs);
    if (before != nullptr) kernel.derivative = Derivative<Scalar>(*before);
    kernel.levels = levels(panels.levels.weights);
    kernel.bias_levels = levels(panels.levels.bias);
    kernel.num_outputs = static_cast<int>(layer.num_outputs);
    return kernel;
  }
};

template <class ExecutionSpace, class Scalar>
class SeriesPassesOn final : public SeriesPasses<Scalar> {
public:
  void forget() override {
    std::apply([](auto&... kept) { ((kept = {}), ...); }, kept_);
  }

  void forward(Stream const& stream, std::vector<LayerInTraining<Scalar>> const& layers, std::size_t first,
               std::size_t end, SeriesPanels<Scalar> const& panels, int num_positions) override {
    with_links<ExecutionSpace, Scalar>(num_positions, [&](auto links) {
      auto& kernels = std::get<Kept<links>>(kept_).forward[{first, end}];
      if (kernels.empty()) {
        using enum LayerUse::Direction;
        for (std::size_t number = first; number < end; ++number)
          kernels.push_back(Views<links>::forward(
              layers[number], strip_of(layers[number], forward, whole_layer(layers[number], forward)),
              panels.inputs_of(number), panels.inputs_of(number + 1)));
      }
      launch_series("varve::series_forward", instance_of<ExecutionSpace>(stream),
                    num_tiles(num_positions, kLeafSamples<Scalar>),
                    SeriesForward<ExecutionSpace, Scalar, links>{list_of(kernels)});
    });
  }

  void backward(Stream const& stream, std::vector<LayerInTraining<Scalar>> const& layers, SeriesPart const& part,
                SeriesPanels<Scalar> const& panels, GradientLevels<Scalar> const& levels) override {
    with_links<ExecutionSpace, Scalar>(part.num_positions, [&](auto links) {
      auto& all = std::get<Kept<links>>(kept_).backward;
      if (all.size() == max_parts) all.clear();
      auto& kernels = all[part];
      if (kernels.empty()) add_backward<links>(kernels, layers, part, panels, levels);
      int const leaves_per_run = levels.weights.leaves_per_run;
      int const num_leaves = levels.weights.num_leaves;
      launch_series("varve::series_backward", instance_of<ExecutionSpace>(stream),
                    (num_leaves + leaves_per_run - 1) / leaves_per_run,
                    SeriesBackward<ExecutionSpace, Scalar, links>{list_of(kernels), leaves_per_run, num_leaves});
    });
  }

private:
  template <int Links>
  using Views = TrainingViews<ExecutionSpace, Scalar, Links>;
  template <int Links>
  using ForwardLayer = typename SeriesForward<ExecutionSpace, Scalar, Links>::Layer;
  template <int Links>
  using BackwardLayer = typename SeriesBackward<ExecutionSpace, Scalar, Links>::Layer;
  static constexpr std::size_t max_parts = 4096;

  /// The kernels for lines of this length.
  template <int Links>
  struct Kept {
    std::map<std::pair<std::size_t, std::size_t>, std::vector<ForwardLayer<Links>>> forward;
    std::map<SeriesPart, std::vector<BackwardLayer<Links>>> backward;
  };

  template <int Links>
  static void add_backward(std::vector<BackwardLayer<Links>>& kernels,
                           std::vector<LayerInTraining<Scalar>> const& layers, SeriesPart const& part,
                           SeriesPanels<Scalar> const& panels, GradientLevels<Scalar> const& levels) {
    using enum LayerUse::Direction;
    auto const& begin = layers[part.first];
    int errors = part.errors;
    for (std::size_t number = part.last + 1; number-- > part.first; errors = 1 - errors) {
      auto const& layer = layers[number];
      GradientLevels<Scalar> const own{levels.weights.from_sum(layer.first_weight_sum - begin.first_weight_sum),
                                       levels.bias.from_sum(layer.first_bias_sum - begin.first_bias_sum)};
      kernels.push_back(Views<Links>::template backward<true>(
          layer, strip_of(layer, backward, whole_layer(layer, backward)), &layers[number - 1].activation,
          {panels.inputs_of(number), panels.errors[errors], panels.errors[1 - errors], own, part.num_positions}));
    }
  }

  std::tuple<Kept<1>, Kept<2>, Kept<kChainLength>> kept_;
};

/// The kernels of training on an execution space: the only class of training that is a template over both parameters.
template <class ExecutionSpace, class Scalar>
class TrainingKernelsOn final : public TrainingKernels<Scalar> {
public:
  explicit TrainingKernelsOn(DeviceMemory const& memory) : memory_(memory) {}

  DeviceMemory const& memory() const override { return memory_; }
  TrainingTraits traits() const override {
    return {+Tune::series_sums, +Tune::group_bytes, +Tune::min_transposed_weights, +Tune::launch_edges,
            static_cast<std::size_t>(processors_)};
  }

  /// On GPUs for LeafGradientOnGpu if the layer is dense, else for ScratchBackward if the errors of all outputs fit a
  /// team's scratch.
  LeafRuns runs_of(std::size_t num_rows, std::size_t num_outputs, bool is_dense,
                   std::size_t num_leaves) const override {
    auto const leaves = static_cast<int>(num_leaves);
    auto const rows = static_cast<int>(num_rows);
    auto const outputs = static_cast<int>(num_outputs);
    if constexpr (!kOnHost<ExecutionSpace>) {
      if (is_dense) {
        int const parts = LeafGradientOnGpu<ExecutionSpace, Scalar>::num_parts(rows, outputs);
        int const per_run = Tune::leaves_per_dense_run(processors_, parts, leaves);
        return {per_run, per_run, leaves};
      }
      using Half = LineHalf<ExecutionSpace, Scalar>;
      if (Half::fits(outputs)) {
        int const halves = leaves * Half::halves;
        int const per_run = Tune::halves_per_run(processors_, Tune::half_blocks(processors_, rows, halves), halves);
        return {per_run, per_run, leaves, Half::halves};
      }
    }
    constexpr int group = LeafSums<TrainingTile<ExecutionSpace, Scalar>>::count;
    return {leaves_per_run(rows, leaves), leaves_per_run((outputs + group - 1) / group, leaves), leaves};
  }
  int leaves_of_series(int num_leaves) const override { return Tune::leaves_per_run(processors_, 1, num_leaves); }
  int leaves_of_places(int num_inputs, int block_outputs, int num_leaves) const override {
    int const parts = place_gradient_blocks<ExecutionSpace, Scalar>(processors_, num_inputs, block_outputs);
    return Tune::leaves_per_run(processors_, parts, num_leaves);
  }

  void update(Stream const& stream, UpdatedNumbers<Scalar, Scalar> const& weights) const override {
    update_numbers(stream, weights);
  }
  void update_bias(Stream const& stream, UpdatedNumbers<double, Scalar> const& bias) const override {
    update_numbers(stream, bias);
  }
  void store(Stream const& stream, ReceivedNumbers<Scalar> const& weights) const override {
    store_all(stream, weights);
  }
  void store_bias(Stream const& stream, ReceivedNumbers<double> const& bias) const override { store_all(stream, bias); }
  void turn(Stream const& stream, LayerInTraining<Scalar> const& layer, DeviceNumbers<Scalar> const& by_output,
            std::size_t first, std::size_t last) const override {
    launch_range(on(stream),
                 TransposeWeights<ExecutionSpace, Scalar>{Views::array(layer.by_input), Views::array(by_output),
                                                          layer.num_inputs, layer.num_outputs, first, last});
  }
  std::optional<std::size_t> first_bad(Stream const& stream,
                                       DeviceNumbers<Scalar const> const& numbers) const override {
    return first_not_finite(stream, numbers);
  }
  std::optional<std::size_t> first_bad_bias(Stream const& stream,
                                            DeviceNumbers<double const> const& numbers) const override {
    return first_not_finite(stream, numbers);
  }

  void merge_subtrees(Stream const& stream, DeviceNumbers<Scalar> const& sums,
                      DeviceNumbers<Scalar const> const& others) const override {
    launch_range(on(stream), MergeSubtrees<ExecutionSpace, Scalar>{Views::array(sums), Views::array(others)});
  }
  void add_subtrees(Stream const& stream, DeviceNumbers<Scalar const*> const& sums, DeviceNumbers<int> const& merges,
                    DeviceNumbers<Scalar> const& total) const override {
    using Place = SumsAddress<Scalar>;
    static_assert(sizeof(Place) == sizeof(Scalar const*));
    ConstDeviceArray<ExecutionSpace, Place> const places(reinterpret_cast<Place const*>(sums.data()), sums.size());
    launch_range(on(stream), AddSubtrees<ExecutionSpace, Scalar>{places, Views::array(merges), Views::array(total)});
  }
  void subtract(Stream const& stream, DeviceNumbers<std::uint32_t> const& numbers, std::uint32_t shift) const override {
    launch_range("varve::shift_strip", on(stream), numbers.size(),
                 Subtract<ExecutionSpace>{Views::array(numbers), shift});
  }

  void gather_positions(Stream const& stream, SampleRowsOnDevice<Scalar> const& rows,
                        DeviceNumbers<std::uint64_t> const& rows_of, LeafPanel<Scalar> const& panel, std::size_t width,
                        int num_positions) const override {
    with_links<ExecutionSpace, Scalar>(num_positions, [&](auto links) {
      varve::gather_positions(
          on(stream),
          GatherPositions<ExecutionSpace, Scalar, links>{Views::samples(rows), Views::array(rows_of),
                                                         ViewsOf<links>::panel(panel), static_cast<int>(width)},
          num_positions);
    });
  }
  void answer(Stream const& stream, AnsweredOutputs<Scalar> const& outputs) const override {
    OutputError<ExecutionSpace, Scalar> kernel{};
    kernel.outputs = Views::panel(outputs.outputs);
    kernel.targets = Views::panel(outputs.targets);
    kernel.labels = Views::array(outputs.labels);
    kernel.weights = Views::array(outputs.weights);
    kernel.errors = Views::panel(outputs.errors);
    kernel.losses = Views::array(outputs.losses);
    kernel.is_right = Views::array(outputs.is_right);
    kernel.derivative = Derivative<Scalar>(outputs.activation);
    kernel.loss = outputs.loss;
    kernel.num_outputs = outputs.num_outputs;
    kernel.num_positions = outputs.num_positions;
    output_error(on(stream), kernel);
  }

  void forward(Stream const& stream, LayerInTraining<Scalar> const& layer, DirectedLayer<Scalar> const& strip,
               LeafPanel<Scalar> const& inputs, LeafPanel<Scalar> const& outputs, int num_positions) const override {
    int const num_leaves = num_tiles(num_positions, kLeafSamples<Scalar>);
    with_links<ExecutionSpace, Scalar>(
        num_positions, [&](auto links) { forward_by<links>(on(stream), layer, strip, inputs, outputs, num_leaves); });
  }

  void backward(Stream const& stream, LayerInTraining<Scalar> const& layer, DirectedLayer<Scalar> const& strip,
                Activation const* before, BackwardPanels<Scalar> const& panels) const override {
    with_links<ExecutionSpace, Scalar>(panels.num_positions, [&](auto links) {
      if (before != nullptr) backward_by<links, true>(on(stream), layer, strip, before, panels);
      if (before == nullptr) backward_by<links, false>(on(stream), layer, strip, before, panels);
    });
  }

  void totals(Stream const& stream, GradientLevels<Scalar> const& levels,
              DeviceNumbers<std::uint32_t const> const* places, DeviceNumbers<Scalar> const& totals, std::size_t first,
              std::size_t first_bias) const override {
    if (places == nullptr)
      return launch_range(on(stream),
                          AddLevels<ExecutionSpace, Scalar>{Views::levels(levels.weights), Views::array(totals), first,
                                                            Views::levels(levels.bias), first_bias});
    launch_range(on(stream), PickLevels<ExecutionSpace, Scalar>{Views::levels(levels.weights), Views::array(*places),
                                                                Views::array(totals), first});
    launch_range(on(stream),
                 AddLevels<ExecutionSpace, Scalar>{Views::levels(levels.bias), Views::array(totals), first_bias});
  }
  std::unique_ptr<SeriesPasses<Scalar>> new_series() const override {
    if constexpr (kOnHost<ExecutionSpace>) return std::make_unique<SeriesPassesOn<ExecutionSpace, Scalar>>();
    return nullptr;
  }

  void place_gradients(Stream const& stream, PlaceBlock<Scalar> const& block,
                       LevelsOnDevice<Scalar> const& levels) const override {
    with_links<ExecutionSpace, Scalar>(block.num_positions, [&](auto links) {
      PlaceGradients<ExecutionSpace, Scalar, links> kernel{};
      kernel.inputs = ViewsOf<links>::panel(block.inputs);
      kernel.errors = ViewsOf<links>::panel(block.errors);
      kernel.num_inputs = block.num_inputs;
      kernel.num_outputs = block.num_outputs;
      kernel.first_output = block.first_output;
      kernel.block_outputs = block.block_outputs;
      kernel.levels = Views::levels(levels);
      varve::place_gradients(on(stream), kernel);
    });
  }
  std::size_t list_free_places(Stream const& stream, RowsOnDevice const& edges, PlaceBlock<Scalar> const& block,
                               DeviceNumbers<Scalar const> const& gradients, Scalar limit,
                               DeviceNumbers<std::uint32_t> const& places,
                               DeviceNumbers<Scalar> const& magnitudes) const override {
    ListFreePlaces<ExecutionSpace, Scalar> kernel{};
    kernel.edges = Views::rows(edges);
    kernel.gradients = Views::array(gradients);
    kernel.places = Views::array(places);
    kernel.magnitudes = Views::array(magnitudes);
    kernel.limit = limit;
    kernel.num_inputs = block.num_inputs;
    kernel.first_output = block.first_output;
    return varve::list_free_places(on(stream), kernel, gradients.size());
  }

private:
  using Views = TrainingViews<ExecutionSpace, Scalar>;
  template <int Links>
  using ViewsOf = TrainingViews<ExecutionSpace, Scalar, Links>;
  using Tune = TrainingTuning<ExecutionSpace>;
  using Range = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;

  static ExecutionSpace const& on(Stream const& stream) { return instance_of<ExecutionSpace>(stream); }

  template <int Links>
  static void forward_by(ExecutionSpace const& space, LayerInTraining<Scalar> const& layer,
                         DirectedLayer<Scalar> const& strip, LeafPanel<Scalar> const& inputs,
                         LeafPanel<Scalar> const& outputs, int num_leaves) {
    auto const kernel = ViewsOf<Links>::forward(layer, strip, inputs, outputs);
    if (layer.format.has_dense_forward)
      return trained_dense_forward(space, kernel, static_cast<int>(strip.strip.num_rows), num_leaves);
    if constexpr (!kOnHost<ExecutionSpace>) {
      if (LineHalf<ExecutionSpace, Scalar>::fits(kernel.num_inputs)) return scratch_forward(space, kernel, num_leaves);
    }
    trained_forward(space, kernel, num_leaves);
  }

  template <int Links, bool HasInputErrors>
  static void backward_by(ExecutionSpace const& space, LayerInTraining<Scalar> const& layer,
                          DirectedLayer<Scalar> const& strip, Activation const* before,
                          BackwardPanels<Scalar> const& panels) {
    auto const kernel = ViewsOf<Links>::template backward<HasInputErrors>(layer, strip, before, panels);
    if constexpr (!kOnHost<ExecutionSpace>) {
      if (kernel.levels.parts_per_leaf > 1) return scratch_backward(space, kernel);
    }
    if (layer.format.has_dense_backward)
      return trained_dense_backward(space, kernel, static_cast<int>(strip.strip.num_rows));
    fused_backward(space, kernel);
  }

  /// Leaves that one team adds up in kernels over num_rows rows, or groups of rows.
  int leaves_per_run(int num_rows, int num_leaves) const {
    return Tune::leaves_per_run(processors_, Tune::num_blocks(processors_, num_rows), num_leaves);
  }

  template <class Number>
  static void update_numbers(Stream const& stream, UpdatedNumbers<Number, Scalar> const& step) {
    launch_range(on(stream), UpdateStep<ExecutionSpace, Number, Scalar>{
                                 Views::array(step.numbers), Views::array(step.first), Views::array(step.second),
                                 Views::array(step.sums), Views::array(step.copies), Views::array(step.places),
                                 Views::array(step.bad), step.factors, step.kind});
  }
  template <class Number>
  static void store_all(Stream const& stream, ReceivedNumbers<Number> const& taken) {
    launch_range(on(stream), StoreReceived<ExecutionSpace, Number>{
                                 Views::array(taken.numbers), Views::array(taken.in_order), Views::array(taken.copies),
                                 Views::array(taken.places), Views::array(taken.bad)});
  }
  template <class Number>
  static std::optional<std::size_t> first_not_finite(Stream const& stream, DeviceNumbers<Number const> const& numbers) {
    std::size_t least = std::numeric_limits<std::size_t>::max();
    if (numbers.size() == 0) return std::nullopt;
    Kokkos::parallel_reduce("varve::find_not_finite", Range(on(stream), 0, numbers.size()),
                            FindNotFinite<ExecutionSpace, Number>{Views::array(numbers)},
                            Kokkos::Min<std::size_t>(least));
    return least < numbers.size() ? std::optional(least) : std::nullopt;
  }

  DeviceMemory const& memory_;
  int processors_ = memory_.num_processors();
};

template <Backend backend, class Scalar>
std::unique_ptr<TrainingKernels<Scalar>> training_kernels_of(DeviceMemory const& memory) {
  return std::make_unique<TrainingKernelsOn<SpaceOf<backend>, Scalar>>(memory);
}

} // namespace varve
