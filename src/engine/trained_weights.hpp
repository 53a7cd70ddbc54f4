#pragma once

#include "core/error.hpp"
#include "engine/training.hpp"
#include "formats/trained_edges.hpp"
#include "kernels/update_step.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace varve {

/// All weights and biases of a network that is trained, and the moments of the optimizer, on a device. Each array holds
/// the numbers of all layers, layer by layer, so that a step is two launches.
template <class ExecutionSpace, class Scalar>
class TrainedWeights {
public:
  template <class T>
  using Array = DeviceArray<ExecutionSpace, T>;

  /// One layer: its edges and its parts of the arrays.
  struct OfLayer {
    TrainedEdges<ExecutionSpace> edges;
    ConstDeviceArray<ExecutionSpace, Scalar> by_input, by_output; ///< weights in training order and by output
    ConstDeviceArray<ExecutionSpace, double> bias;
    Activation activation;
    int num_inputs, num_outputs;
    std::size_t first_edge, first_output; ///< where the parts begin
  };

  /// Throws InputError if a layer or the whole network has more edges or neurons than the arrays count.
  TrainedWeights(Network const& network, Optimizer const& optimizer) : optimizer_(optimizer) { take(network); }

  /// Takes the patterns, weights and biases of a network with as many edges and neurons in each layer, and the state of
  /// its optimizer. Must not be called while kernels use the arrays.
  void replace(Network const& network, OptimizerState const& state) {
    layers_.clear(); // memory of the old arrays is freed before new ones take it
    shapes_.clear();
    by_input_ = by_output_ = weight_sums_ = bias_sums_ = {};
    for (auto& moments : weight_moments_) moments = {};
    take(network);
    restore(state);
  }

  std::vector<OfLayer> const& layers() const { return layers_; }
  std::size_t num_edges() const { return by_input_.size(); }
  std::size_t num_outputs() const { return bias_.size(); } ///< outputs of all layers together
  /// The inputs of the network, then the outputs of each layer.
  std::vector<std::size_t> widths() const {
    std::vector<std::size_t> widths = {static_cast<std::size_t>(layers_.front().num_inputs)};
    for (auto const& layer : layers_) widths.push_back(static_cast<std::size_t>(layer.num_outputs));
    return widths;
  }

  /// Device memory of the arrays and edges for such a network, in bytes.
  static std::size_t bytes_for(Network const& network, Optimizer const& optimizer) {
    auto const moments = static_cast<std::size_t>(optimizer.num_moments());
    std::size_t bytes = 0;
    for (auto const& layer : network.layers()) {
      bytes += layer.num_edges() * (4 * sizeof(std::uint32_t) + (3 + moments) * sizeof(Scalar));
      bytes += layer.num_outputs() * (sizeof(std::uint32_t) + sizeof(Scalar) + (1 + moments) * sizeof(double));
      bytes += layer.num_inputs() * sizeof(std::uint32_t);
    }
    return bytes;
  }

  /// The arrays to which kernels write the gradients' sums over a mini-batch.
  Array<Scalar> const& weight_sums() const { return weight_sums_; }
  Array<Scalar> const& bias_sums() const { return bias_sums_; }

  std::uint64_t num_steps() const { return num_steps_; }

  /// One optimizer step of all weights and biases from the sums over num_samples samples. Throws InputError if one is
  /// no longer finite.
  void step(ExecutionSpace const& space, double rate, std::size_t num_samples) {
    ++num_steps_;
    update_step(space, UpdateStep<ExecutionSpace, Scalar, Scalar>{
                           by_input_, weight_moments_[0], weight_moments_[1], weight_sums_, by_output_, places_, bad_,
                           update_factors<Scalar>(optimizer_, rate, num_samples, num_steps_), optimizer_.kind});
    auto factors = update_factors<double>(optimizer_, rate, num_samples, num_steps_);
    factors.l2 = 0.0;
    update_step(space,
                UpdateStep<ExecutionSpace, double, Scalar>{
                    bias_, bias_moments_[0], bias_moments_[1], bias_sums_, {}, {}, bad_, factors, optimizer_.kind});
    space.fence("varve: a training step is done");
    if (download(bad_)[0] != 0) fail();
  }

  Network network() const {
    auto const weights = download(by_output_);
    auto const bias = download(bias_);
    std::vector<Layer> layers = shapes_;
    for (std::size_t number = 0; number < layers.size(); ++number) {
      auto const& own = layers_[number];
      auto const at = [](auto const& numbers, std::size_t place) {
        return numbers.begin() + static_cast<std::ptrdiff_t>(place);
      };
      layers[number].weights.values.assign(at(weights, own.first_edge),
                                           at(weights, own.first_edge + own.edges.num_edges()));
      layers[number].bias.assign(at(bias, own.first_output),
                                 at(bias, own.first_output + static_cast<std::size_t>(own.num_outputs)));
      if (layers[number].bias.empty()) layers[number].bias = {0.0}; // a layer without outputs; valid layers have a bias
    }
    return Network(std::move(layers));
  }

  OptimizerState state() const {
    OptimizerState state;
    state.num_steps = num_steps_;
    state.layers.resize(layers_.size());
    auto const places = download(places_);
    for (int moment = 0; moment < optimizer_.num_moments(); ++moment) {
      auto const weights = download(weight_moments_[moment]);
      auto const bias = download(bias_moments_[moment]);
      for (std::size_t number = 0; number < layers_.size(); ++number) {
        auto const& own = layers_[number];
        std::vector<double> by_edge(own.edges.num_edges());
        for (std::size_t i = 0; i < by_edge.size(); ++i)
          by_edge[places[own.first_edge + i] - own.first_edge] = static_cast<double>(weights[own.first_edge + i]);
        auto const begin = bias.begin() + static_cast<std::ptrdiff_t>(own.first_output);
        state.layers[number].weights.push_back(std::move(by_edge));
        state.layers[number].bias.emplace_back(begin, begin + own.num_outputs);
      }
    }
    return state;
  }

  void restore(OptimizerState const& state) {
    require_shape(state);
    auto const places = download(places_);
    for (int moment = 0; moment < optimizer_.num_moments(); ++moment) {
      auto const which = static_cast<std::size_t>(moment);
      std::vector<Scalar> weights(num_edges());
      std::vector<double> bias;
      for (std::size_t number = 0; number < layers_.size(); ++number) {
        auto const& own = layers_[number];
        auto const& from = state.layers[number];
        for (std::size_t i = 0; i < own.edges.num_edges(); ++i) {
          weights[own.first_edge + i] =
              static_cast<Scalar>(from.weights[which][places[own.first_edge + i] - own.first_edge]);
        }
        bias.insert(bias.end(), from.bias[which].begin(), from.bias[which].end());
      }
      weight_moments_[moment] = upload<ExecutionSpace>("varve::moments", weights);
      bias_moments_[moment] = upload<ExecutionSpace>("varve::bias_moments", bias);
    }
    num_steps_ = state.num_steps;
  }

private:
  /// Copies a network to the device, with moments 0.
  void take(Network const& network) {
    std::vector<Scalar> by_input;
    std::vector<Scalar> by_output;
    std::vector<std::uint32_t> places;
    std::vector<double> bias;
    in_32_bits(network.num_edges(), "edges in all layers, which cannot be trained,");
    for (auto const& layer : network.layers()) {
      auto const turned = transposed(layer.weights);
      OfLayer own{TrainedEdges<ExecutionSpace>(layer.weights, turned),
                  {},
                  {},
                  {},
                  layer.activation,
                  static_cast<int>(layer.num_inputs()),
                  static_cast<int>(layer.num_outputs()),
                  by_input.size(),
                  bias.size()};
      auto const first = static_cast<std::uint32_t>(by_input.size());
      for (auto const edge : turned.edges) {
        by_input.push_back(static_cast<Scalar>(layer.weights.value(edge)));
        places.push_back(first + static_cast<std::uint32_t>(edge));
      }
      for (EdgeOffset edge = 0; edge < layer.num_edges(); ++edge)
        by_output.push_back(static_cast<Scalar>(layer.weights.value(edge)));
      for (std::size_t output = 0; output < layer.num_outputs(); ++output) bias.push_back(layer.bias_of(output));
      layers_.push_back(own);
      shapes_.push_back(layer);
      shapes_.back().weights.values.clear();
    }
    by_input_ = upload<ExecutionSpace>("varve::weights", by_input);
    by_output_ = upload<ExecutionSpace>("varve::weights_by_output", by_output);
    places_ = upload<ExecutionSpace>("varve::places", places);
    bias_ = upload<ExecutionSpace>("varve::bias", bias);
    weight_sums_ = Array<Scalar>("varve::gradient", by_input.size());
    bias_sums_ = Array<Scalar>("varve::bias_gradient", bias.size());
    bad_ = Array<int>("varve::bad", 1);
    for (int moment = 0; moment < optimizer_.num_moments(); ++moment) {
      weight_moments_[moment] = Array<Scalar>("varve::moments", by_input.size());
      bias_moments_[moment] = Array<double>("varve::bias_moments", bias.size());
    }
    for (auto& layer : layers_) view_arrays(layer);
  }

  void view_arrays(OfLayer& layer) {
    auto const edges = std::make_pair(layer.first_edge, layer.first_edge + layer.edges.num_edges());
    layer.by_input = Kokkos::subview(by_input_, edges);
    layer.by_output = Kokkos::subview(by_output_, edges);
    layer.bias = Kokkos::subview(
        bias_, std::make_pair(layer.first_output, layer.first_output + static_cast<std::size_t>(layer.num_outputs)));
  }

  /// Throws InputError that names the first layer with a number that is not finite.
  [[noreturn]] void fail() const {
    auto const weights = download(by_output_);
    auto const bias = download(bias_);
    for (std::size_t number = 0; number < layers_.size(); ++number) {
      auto const& own = layers_[number];
      bool is_bad = false;
      for (std::size_t i = 0; i < own.edges.num_edges(); ++i) is_bad |= !std::isfinite(weights[own.first_edge + i]);
      for (std::size_t i = 0; i < static_cast<std::size_t>(own.num_outputs); ++i)
        is_bad |= !std::isfinite(bias[own.first_output + i]);
      if (is_bad) {
        throw InputError("training diverges: after step " + std::to_string(num_steps_) + ", layer " +
                         std::to_string(number) + " has a weight or bias that is no finite number; take a lower rate");
      }
    }
    throw std::logic_error("varve: a number that is not finite cannot be found");
  }

  void require_shape(OptimizerState const& state) const {
    auto const moments = static_cast<std::size_t>(optimizer_.num_moments());
    bool fits = state.layers.size() == layers_.size();
    for (std::size_t number = 0; fits && number < layers_.size(); ++number) {
      auto const& given = state.layers[number];
      fits = given.weights.size() == moments && given.bias.size() == moments;
      for (std::size_t moment = 0; fits && moment < moments; ++moment)
        fits = given.weights[moment].size() == layers_[number].edges.num_edges() &&
               given.bias[moment].size() == static_cast<std::size_t>(layers_[number].num_outputs);
    }
    if (!fits)
      throw InputError("the state of the optimizer does not fit the network and the optimizer " +
                       to_string(optimizer_.kind));
  }

  Optimizer optimizer_;
  std::vector<OfLayer> layers_;
  std::vector<Layer> shapes_; ///< patterns and activations, without values
  Array<Scalar> by_input_, by_output_, weight_sums_, bias_sums_;
  Array<double> bias_;
  Array<std::uint32_t> places_; ///< index in by_input_ -> index in by_output_
  Array<Scalar> weight_moments_[2];
  Array<double> bias_moments_[2];
  Array<int> bad_;
  std::uint64_t num_steps_ = 0;
};

} // namespace varve
