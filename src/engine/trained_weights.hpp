#pragma once

#include "core/device_memory.hpp"
#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "engine/rank_exchange.hpp"
#include "engine/step_shares.hpp"
#include "engine/training.hpp"
#include "engine/training_kernels.hpp"
#include "network/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace varve {

/// Gathers moments of all ranks in rank order, as RankExchange::gather() or gather_on_root().
using GatherMoments = std::function<std::vector<double>(std::vector<double>)>;

/// Neighbouring weights, in training order, or biases, of a bundle that one rank owns.
struct OwnedRange {
  std::size_t first, last;
};

/// The moments of the weights, or of the biases, that one rank owns, bundle by bundle, on a device. A single rank owns
/// all moments.
template <class Number>
class OwnedMoments {
public:
  /// owned: by bundle. The memory must outlive this object.
  OwnedMoments(DeviceMemory const& memory, std::string label, int num_moments, std::vector<OwnedRange> owned)
      : memory_(&memory), label_(std::move(label)), owned_(std::move(owned)) {
    std::size_t size = 0;
    for (auto const& range : owned_) {
      places_.push_back(size);
      size += range.last - range.first;
    }
    for (int moment = 0; moment < num_moments; ++moment) moments_[moment] = new_zeros<Number>(memory, label_, size);
  }

  /// The moments of owned numbers of a bundle; empty if the optimizer does not have this moment.
  DeviceNumbers<Number> of(int moment, std::size_t bundle, OwnedRange const& range) const {
    if (moments_[moment].size() == 0) return {};
    std::size_t const first = places_[bundle] + range.first - owned_[bundle].first;
    return moments_[moment].part(first, first + range.last - range.first);
  }

  /// The first owned number with a moment that is not finite. first_bad_of(moments): the first bad one of an array.
  template <class FirstBadOf>
  std::optional<std::size_t> first_bad(FirstBadOf const& first_bad_of) const {
    std::optional<std::size_t> least;
    for (int moment = 0; moment < 2; ++moment) {
      for (std::size_t bundle = 0; bundle < owned_.size(); ++bundle) {
        std::optional<std::size_t> const found = first_bad_of(of(moment, bundle, owned_[bundle]));
        if (found && (!least || owned_[bundle].first + *found < *least)) least = owned_[bundle].first + *found;
      }
    }
    return least;
  }

  /// One moment of all numbers, on the ranks to which `gather` returns numbers; other ranks get an empty list.
  std::vector<double> all(int moment, GatherMoments const& gather) const {
    std::vector<double> all;
    for (std::size_t bundle = 0; bundle < owned_.size(); ++bundle) {
      auto const own = download(*memory_, of(moment, bundle, owned_[bundle]));
      auto whole = gather(std::vector<double>(own.begin(), own.end()));
      if (all.empty())
        all = std::move(whole);
      else
        all.insert(all.end(), whole.begin(), whole.end());
    }
    return all;
  }

  /// Copies the owned ones of the moments of all numbers.
  void take(int moment, std::vector<Number> const& all) {
    std::vector<Number> own;
    for (auto const& range : owned_)
      own.insert(own.end(), all.begin() + static_cast<std::ptrdiff_t>(range.first),
                 all.begin() + static_cast<std::ptrdiff_t>(range.last));
    moments_[moment] = {}; // memory of the old ones is freed before new ones are allocated
    moments_[moment] = new_copy(*memory_, label_, own);
  }

private:
  DeviceMemory const* memory_;
  std::string label_;
  std::vector<OwnedRange> owned_;
  std::vector<std::size_t> places_; ///< [bundle]: index of its first moment
  DeviceNumbers<Number> moments_[2];
};

/// All weights and biases of a network in training, and the moments of the optimizer, on a device. Each array holds the
/// numbers of all layers, layer by layer, so that a step of one rank is two launches. With several ranks each rank has
/// all weights and biases, but only the moments of its parts (engine/step_shares.hpp), which it steps.
template <class Scalar>
class TrainedWeights {
public:
  template <class T>
  using Array = DeviceNumbers<T>;
  using OfLayer = LayerInTraining<Scalar>;

  /// Throws InputError if a layer or the whole network has more edges or neurons than the arrays can number. The
  /// kernels, those of the weights' memory, must outlive this object. `streams_to`: the memory of another device to
  /// which the weights are streamed, so that they are in memory pinned by it; else null.
  TrainedWeights(TrainingKernels<Scalar> const& kernels, Network const& network, Optimizer const& optimizer,
                 GradientParts const& parts, std::size_t rank, std::vector<TrainedFormat> const& formats,
                 DeviceMemory const* streams_to)
      : kernels_(&kernels),
        streams_to_(streams_to),
        optimizer_(optimizer),
        parts_(parts),
        rank_(rank),
        weight_moments_(kernels.memory(), "varve::moments", optimizer.num_moments(),
                        owned(parts, rank, &GradientPart::first_edge, &GradientPart::last_edge)),
        bias_moments_(kernels.memory(), "varve::bias_moments", optimizer.num_moments(),
                      owned(parts, rank, &GradientPart::first_output, &GradientPart::last_output)),
        formats_(formats) {
    take(network);
  }

  /// Copies the patterns, weights and biases of a network with the same numbers of edges and neurons in each layer, and
  /// the state of its optimizer with the moments of all ranks. No kernel may use the arrays meanwhile.
  void replace(Network const& network, OptimizerState const& state) {
    layers_.clear(); // memory of the old arrays is freed before new ones are allocated
    transposed_layers_.clear();
    shapes_.clear();
    by_input_ = by_output_ = {};
    take(network);
    restore(state);
  }

  std::vector<OfLayer> const& layers() const { return layers_; }
  std::size_t num_edges() const { return by_input_.size(); }
  std::size_t num_outputs() const { return bias_.size(); } ///< outputs of all layers together
  /// The inputs of the network, then the outputs of each layer.
  std::vector<std::size_t> widths() const {
    std::vector<std::size_t> widths = {layers_.front().num_inputs};
    for (auto const& layer : layers_) widths.push_back(layer.num_outputs);
    return widths;
  }

  /// Device memory of the arrays and edges for such layers on one of num_ranks ranks, in bytes.
  static std::size_t bytes_for(std::vector<TrainedShape> const& layers, Optimizer const& optimizer,
                               std::size_t num_ranks) {
    std::size_t bytes = 0;
    std::size_t moment_bytes = 0;
    for (auto const& layer : layers) {
      bytes += (layer.num_forward_weights() - layer.num_edges) * sizeof(Scalar);
      if (layer.has_gaps_backward())
        bytes += layer.num_places() * sizeof(Scalar) + layer.num_edges * sizeof(std::uint32_t);
      bytes += layer.num_edges * (4 * sizeof(std::uint32_t) + 3 * sizeof(Scalar));
      bytes += layer.num_outputs * (sizeof(std::uint32_t) + sizeof(Scalar) + sizeof(double));
      bytes += layer.num_inputs * sizeof(std::uint32_t);
      moment_bytes += layer.num_edges * sizeof(Scalar) + layer.num_outputs * sizeof(double);
    }
    return bytes + moment_bytes * static_cast<std::size_t>(optimizer.num_moments()) / num_ranks;
  }

  /// All weights in training order, and all biases.
  Array<Scalar> const& weights() const { return by_input_; }
  Array<double> const& bias() const { return bias_; }
  GradientParts const& parts() const { return parts_; }

  /// Begins a step with this rate from sums over num_samples samples.
  void begin_step(double rate, std::size_t num_samples) {
    ++num_steps_;
    weight_factors_ = update_factors<Scalar>(optimizer_, rate, num_samples, num_steps_);
    bias_factors_ = bias_update_factors(optimizer_, rate, num_samples, num_steps_);
  }

  /// Steps this rank's part of a bundle. sums: the sums of its gradients, weights first. Does not fence.
  void step_part(Stream const& stream, std::size_t bundle, DeviceNumbers<Scalar const> const& sums) {
    auto const part = parts_.part(bundle, rank_);
    for_each_stretch(stream, part.first_edge, part.last_edge,
                     [&](std::size_t first, std::size_t last, auto const& copies, auto const& places) {
                       kernels_->update(stream,
                                        {by_input_.part(first, last), weight_moments_.of(0, bundle, {first, last}),
                                         weight_moments_.of(1, bundle, {first, last}),
                                         sums.part(first - part.first_edge, last - part.first_edge), copies, places,
                                         bad_.on_device(), weight_factors_, optimizer_.kind});
                     });
    kernels_->update_bias(stream, {bias_.part(part.first_output, part.last_output),
                                   bias_moments_.of(0, bundle, {part.first_output, part.last_output}),
                                   bias_moments_.of(1, bundle, {part.first_output, part.last_output}),
                                   sums.part(part.num_edges(), part.num_sums()),
                                   {},
                                   {},
                                   bad_.on_device(),
                                   bias_factors_,
                                   optimizer_.kind});
  }

  /// Copies the weights and biases of a part that another rank has stepped from arrays like weights() and bias(). These
  /// may be the same arrays, or be in the memory of another device. Does not fence.
  void take_part(Stream const& stream, GradientPart const& part, DeviceNumbers<Scalar> const& weights,
                 DeviceNumbers<double> const& bias) {
    for_each_stretch(stream, part.first_edge, part.last_edge,
                     [&](std::size_t first, std::size_t last, auto const& copies, auto const& places) {
                       kernels_->store(stream,
                                       {weights.part(first, last), taken(by_input_, weights.data(), first, last),
                                        copies, places, bad_.on_device()});
                     });
    kernels_->store_bias(stream, {bias.part(part.first_output, part.last_output),
                                  taken(bias_, bias.data(), part.first_output, part.last_output),
                                  {},
                                  {},
                                  bad_.on_device()});
  }

  /// Launches the remaining work after all parts are stepped. Does not fence.
  void launch_end(Stream const& stream) {
    fill_dense(stream);
    bad_.copy_back(stream, 1);
  }
  /// Waits for the end of a step, after launch_end(). Throws DivergenceError if a weight or bias is not finite.
  void end_step(Stream const& stream) {
    stream.fence("varve: a training step is done");
    if (bad_[0] != 0) fail();
  }

  Network network() const {
    auto const weights = download(kernels_->memory(), by_output_);
    auto const bias = download(kernels_->memory(), bias_);
    std::vector<Layer> layers(shapes_.size());
    for_each_on_host_threads(layers.size(), [&](std::size_t number) {
      layers[number] = shapes_[number];
      auto const& own = layers_[number];
      auto const at = [](auto const& numbers, std::size_t place) {
        return numbers.begin() + static_cast<std::ptrdiff_t>(place);
      };
      auto& matrix = layers[number].weights;
      matrix.values.reserve(matrix.num_entries());
      for (auto const place : places_by_output(matrix, own.format.has_dense_forward))
        matrix.values.push_back(static_cast<double>(weights[own.first_stored + place]));
      layers[number].bias.assign(at(bias, own.first_output), at(bias, own.first_output + own.num_outputs));
      if (layers[number].bias.empty()) layers[number].bias = {0.0}; // a layer without outputs; valid layers have a bias
    });
    return Network(std::move(layers));
  }

  /// The number of steps and, if has_moments, the moments of all ranks. Collective; `gather` must return all moments on
  /// the ranks with has_moments.
  OptimizerState state(GatherMoments const& gather, bool has_moments) const {
    OptimizerState state;
    state.num_steps = num_steps_;
    state.layers.resize(has_moments ? layers_.size() : 0);
    auto const edges = edges_in_order();
    for (int moment = 0; moment < optimizer_.num_moments(); ++moment) {
      auto const weights = weight_moments_.all(moment, gather);
      auto const bias = bias_moments_.all(moment, gather);
      for_each_on_host_threads(state.layers.size(), [&](std::size_t number) {
        auto const& own = layers_[number];
        std::vector<double> by_edge(own.num_edges);
        for (std::size_t i = 0; i < by_edge.size(); ++i) by_edge[edges[number][i]] = weights[own.first_edge + i];
        auto const begin = bias.begin() + static_cast<std::ptrdiff_t>(own.first_output);
        state.layers[number].weights.push_back(std::move(by_edge));
        state.layers[number].bias.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(own.num_outputs));
      });
    }
    return state;
  }

  void restore(OptimizerState const& state) {
    require_shape(state, shapes_, optimizer_);
    auto const edges = edges_in_order();
    for (int moment = 0; moment < optimizer_.num_moments(); ++moment) {
      auto const which = static_cast<std::size_t>(moment);
      std::vector<Scalar> weights(num_edges());
      std::vector<double> bias;
      for (std::size_t number = 0; number < layers_.size(); ++number) {
        auto const& own = layers_[number];
        auto const& from = state.layers[number];
        for (std::size_t i = 0; i < own.num_edges; ++i)
          weights[own.first_edge + i] = static_cast<Scalar>(from.weights[which][edges[number][i]]);
        bias.insert(bias.end(), from.bias[which].begin(), from.bias[which].end());
      }
      weight_moments_.take(moment, weights);
      bias_moments_.take(moment, bias);
    }
    num_steps_ = state.num_steps;
  }

  /// Throws DivergenceError on all ranks if a moment of Adam is not finite on one of them. (With other optimizers,
  /// moments that are not finite imply such weights.) exchange: null if there is one rank. Collective.
  void require_finite_moments(Stream const& stream, RankExchange* exchange) const {
    if (!optimizer_.is_adaptive()) return;
    auto const own = layer_of_bad_moment(stream);
    std::vector<double> layers = {own ? static_cast<double>(*own) : std::numeric_limits<double>::infinity()};
    if (exchange != nullptr) layers = exchange->gather(layers);
    double const layer = *std::ranges::min_element(layers);
    if (std::isinf(layer)) return;
    throw DivergenceError("training diverges: after step " + std::to_string(num_steps_) + ", layer " +
                          std::to_string(static_cast<std::size_t>(layer)) +
                          " has a moment of Adam that is no finite number, so that weights no longer change; its "
                          "gradients are too large to be squared: scale targets or samples down");
  }

private:
  /// The part of each bundle that a rank owns, between two members of GradientPart.
  static std::vector<OwnedRange> owned(GradientParts const& parts, std::size_t rank, std::size_t GradientPart::*first,
                                       std::size_t GradientPart::*last) {
    std::vector<OwnedRange> ranges;
    for (std::size_t bundle = 0; bundle < parts.bundles().size(); ++bundle)
      ranges.push_back({parts.part(bundle, rank).*first, parts.part(bundle, rank).*last});
    return ranges;
  }

  /// The first layer in which this rank owns a moment that is not finite.
  std::optional<std::size_t> layer_of_bad_moment(Stream const& stream) const {
    auto const edge =
        weight_moments_.first_bad([&](auto const& moments) { return kernels_->first_bad(stream, moments); });
    auto const output =
        bias_moments_.first_bad([&](auto const& moments) { return kernels_->first_bad_bias(stream, moments); });
    for (std::size_t number = 0; number < layers_.size(); ++number) {
      auto const& layer = layers_[number];
      bool const has_edge = edge && *edge < layer.first_edge + layer.num_edges;
      bool const has_output = output && *output < layer.first_output + layer.num_outputs;
      if (has_edge || has_output) return number;
    }
    return std::nullopt;
  }

  /// Index of each edge's weight among the weights by output: its own number, or its place in a dense [output][input].
  static std::vector<std::uint32_t> places_by_output(SparseMatrix const& matrix, bool is_dense) {
    std::vector<std::uint32_t> places;
    places.reserve(matrix.num_entries());
    for (std::size_t output = 0; output < matrix.num_rows; ++output) {
      for (EdgeOffset edge = matrix.row_pointers[output]; edge < matrix.row_pointers[output + 1]; ++edge) {
        auto const place = is_dense ? output * matrix.num_columns + matrix.column_indices[edge] : edge;
        places.push_back(narrowed<std::uint32_t>(place, "place of a weight of a dense layer"));
      }
    }
    return places;
  }

  /// Index of the weight of each edge in training order (by input) in a dense [input][output].
  static std::vector<std::uint32_t> places_by_input(SparseMatrix const& matrix, TransposedEdges const& by_input) {
    std::vector<std::uint32_t> places;
    places.reserve(matrix.num_entries());
    for (std::size_t input = 0; input < matrix.num_columns; ++input)
      for (EdgeOffset i = by_input.row_pointers[input]; i < by_input.row_pointers[input + 1]; ++i)
        places.push_back(narrowed<std::uint32_t>(input * matrix.num_rows + by_input.outputs[i],
                                                 "place of a weight of a dense layer"));
    return places;
  }

  /// Copies a network to the device.
  void take(Network const& network) {
    std::size_t const min_transposed_weights = kernels_->traits().min_transposed_weights;
    std::vector<Scalar> by_input;
    std::vector<Scalar> by_output;
    std::vector<std::uint32_t> places;
    std::vector<double> bias;
    for (auto const& layer : network.layers()) {
      auto const inputs = transposed(layer.weights);
      auto const& parts = parts_.bundle_of(layers_.size());
      TrainedShape const shape{layer.num_inputs(),
                               layer.num_outputs(),
                               layer.num_edges(),
                               parts.sum_of_edge(by_input.size()),
                               parts.sum_of_output(bias.size()),
                               formats_[layers_.size()]};
      OfLayer own{
          shape,           pattern_on_device(layer.weights, inputs), layer.activation, by_input.size(), bias.size(),
          by_output.size()};
      std::size_t const end = own.first_stored + own.num_forward_weights();
      narrowed<std::uint32_t>(end, "weights of all layers of a training"); // for places
      auto const stored = places_by_output(layer.weights, own.format.has_dense_forward);
      by_output.resize(end, Scalar(0));
      for (auto const edge : inputs.edges) {
        auto const weight = static_cast<Scalar>(layer.weights.value(edge));
        by_input.push_back(weight);
        by_output[own.first_stored + stored[edge]] = weight;
        places.push_back(static_cast<std::uint32_t>(own.first_stored + stored[edge]));
      }
      if (own.has_gaps_backward()) {
        own.dense_by_input = new_weights("varve::dense_weights", own.num_places());
        own.dense_places = new_copy(kernels_->memory(), "varve::dense_places", places_by_input(layer.weights, inputs));
      }
      for (std::size_t output = 0; output < layer.num_outputs(); ++output) bias.push_back(layer.bias_of(output));
      bool const has_all = own.format.has_dense_forward && own.num_places() == own.num_edges;
      if (has_all && own.num_places() >= min_transposed_weights) transposed_layers_.push_back(layers_.size());
      layers_.push_back(own);
      shapes_.push_back(layer);
      shapes_.back().weights.values.clear();
    }
    by_input_ = weights_of("varve::weights", by_input);
    by_output_ = weights_of("varve::weights_by_output", by_output);
    places_ = new_copy(kernels_->memory(), "varve::places", places);
    bias_ = new_copy(kernels_->memory(), "varve::bias", bias);
    bad_ = MirroredArray<int>(kernels_->memory(), "varve::bad", 1);
    for (auto& layer : layers_) view_arrays(layer);
    auto const stream = kernels_->memory().default_stream();
    fill_dense(*stream);
    stream->fence("varve: dense layers are there");
  }

  PatternOnDevice pattern_on_device(SparseMatrix const& matrix, TransposedEdges const& inputs) const {
    auto const& memory = kernels_->memory();
    auto const by_output = upload_rows(memory, "varve::by_output", matrix.row_pointers, matrix.column_indices);
    std::vector<std::uint32_t> const places(inputs.edges.begin(), inputs.edges.end()); // row pointers fit 32 bits
    return {by_output, upload_rows(memory, "varve::by_input", inputs.row_pointers, inputs.outputs),
            new_copy(memory, "varve::places", places)};
  }

  /// An array of zeros in the weights' memory.
  Array<Scalar> new_weights(std::string const& label, std::size_t size) {
    if (streams_to_ == nullptr) return new_zeros<Scalar>(kernels_->memory(), label, size);
    auto const array = numbers_in<Scalar>(streams_to_->allocate_on_host(label, size * sizeof(Scalar)));
    std::fill_n(array.data(), size, Scalar(0));
    return array;
  }
  Array<Scalar> weights_of(std::string const& label, std::vector<Scalar> const& numbers) {
    auto const array = new_weights(label, numbers.size());
    kernels_->memory().copy_and_wait(array.data(), numbers.data(), array.num_bytes());
    return array;
  }

  /// Calls launch(first, last, copies, places) for neighbouring edges [first, last), in training order, whose weights
  /// are written to by_output_ in the same way. copies: by_output_, and `places` the places there; or, for a layer
  /// whose weights are transposed in blocks afterwards, empty. Does not fence.
  template <class Launch>
  void for_each_stretch(Stream const& stream, std::size_t first, std::size_t last, Launch const& launch) const {
    for (std::size_t begin = first, end = first; begin < last; begin = end) {
      auto const found = std::ranges::find_if(transposed_layers_, [&](std::size_t number) {
        return layers_[number].first_edge + layers_[number].num_edges > begin;
      });
      auto const* layer = found == transposed_layers_.end() ? nullptr : &layers_[*found];
      if (layer == nullptr || layer->first_edge > begin) {
        end = layer == nullptr ? last : std::min(layer->first_edge, last);
        launch(begin, end, by_output_, places_.part(begin, end));
        continue;
      }
      end = std::min(layer->first_edge + layer->num_edges, last);
      launch(begin, end, Array<Scalar>(), Array<std::uint32_t>());
      kernels_->turn(stream, *layer, by_output_.part(layer->first_stored, layer->first_stored + layer->num_places()),
                     begin - layer->first_edge, end - layer->first_edge);
    }
  }

  /// Copies weights to the dense matrices by input of layers that lack some edges. Does not fence.
  void fill_dense(Stream const& stream) const {
    for (auto const& layer : layers_) {
      if (layer.dense_places.size() == 0) continue;
      kernels_->store(stream, {layer.by_input, {}, layer.dense_by_input, layer.dense_places, bad_.on_device()});
    }
  }

  /// By layer: the edge, by output, of each edge in training order.
  std::vector<std::vector<std::uint32_t>> edges_in_order() const {
    std::vector<std::vector<std::uint32_t>> edges;
    for (auto const& layer : layers_) edges.push_back(download(kernels_->memory(), layer.edges.places));
    return edges;
  }

  void view_arrays(OfLayer& layer) {
    layer.by_input = by_input_.part(layer.first_edge, layer.first_edge + layer.num_edges);
    layer.by_output = by_output_.part(layer.first_stored, layer.first_stored + layer.num_forward_weights());
    layer.dense_weights = layer.dense_by_input;
    layer.bias = bias_.part(layer.first_output, layer.first_output + layer.num_outputs);
  }

  /// Destination of numbers from another array; empty if `numbers` are in the array itself.
  template <class T>
  static Array<T> taken(Array<T> const& array, T const* numbers, std::size_t first, std::size_t last) {
    return numbers == array.data() ? Array<T>() : array.part(first, last);
  }

  /// Throws DivergenceError that names the first layer with a number that is not finite.
  [[noreturn]] void fail() const {
    auto const weights = download(kernels_->memory(), by_output_);
    auto const bias = download(kernels_->memory(), bias_);
    for (std::size_t number = 0; number < layers_.size(); ++number) {
      auto const& own = layers_[number];
      bool is_bad = false;
      for (std::size_t i = 0; i < own.num_forward_weights(); ++i)
        is_bad |= !std::isfinite(weights[own.first_stored + i]);
      for (std::size_t i = 0; i < own.num_outputs; ++i) is_bad |= !std::isfinite(bias[own.first_output + i]);
      if (is_bad) {
        throw DivergenceError("training diverges: after step " + std::to_string(num_steps_) + ", layer " +
                              std::to_string(number) +
                              " has a weight or bias that is no finite number; "
                              "take a lower rate");
      }
    }
    throw std::logic_error("varve: a number that is not finite cannot be found");
  }

  TrainingKernels<Scalar> const* kernels_;
  DeviceMemory const* streams_to_;
  Optimizer optimizer_;
  GradientParts parts_;
  std::size_t rank_;
  OwnedMoments<Scalar> weight_moments_;
  OwnedMoments<double> bias_moments_;
  std::vector<TrainedFormat> formats_; ///< [layer]
  UpdateFactors<Scalar> weight_factors_{};
  UpdateFactors<double> bias_factors_{};
  std::vector<OfLayer> layers_;
  std::vector<std::size_t> transposed_layers_; ///< layers whose weights by output are transposed in blocks, ascending
  std::vector<Layer> shapes_;                  ///< patterns and activations, without values
  Array<Scalar> by_input_, by_output_;
  Array<double> bias_;
  Array<std::uint32_t> places_; ///< index in by_input_ -> index in by_output_
  MirroredArray<int> bad_;      ///< one element; nonzero if a weight or bias is not finite
  std::uint64_t num_steps_ = 0;
};

} // namespace varve
