#pragma once

/// \file
/// Networks, their layers, and smaller networks made from them.

#include <varve/matrix.hpp>
#include <varve/types.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace varve::v0_3 {

/// The activation functions; Activation has their formulas.
enum class ActivationKind { identity, relu, clipped_relu, leaky_relu, sigmoid, tanh, softplus };

/// The function that is applied to x, the sum of an output's products and its bias: x (identity), max(x, 0) (relu),
/// min(max(x, 0), cap) (clipped_relu), x or slope * x below zero (leaky_relu), 1 / (1 + exp(-x)), tanh(x), log(1 +
/// exp(x)).
struct Activation {
  ActivationKind kind = ActivationKind::relu; ///< the function
  double parameter = 0.0; ///< the cap of clipped_relu, above 0; the slope of leaky_relu, between 0 and 1; else unused

  /// x.
  static Activation identity() { return {ActivationKind::identity, 0.0}; }
  /// max(x, 0).
  static Activation relu() { return {ActivationKind::relu, 0.0}; }
  /// min(max(x, 0), cap), with a cap above 0.
  static Activation clipped_relu(double cap) { return {ActivationKind::clipped_relu, cap}; }
  /// x, or slope * x below zero, with a slope between 0 and 1.
  static Activation leaky_relu(double slope) { return {ActivationKind::leaky_relu, slope}; }
  /// 1 / (1 + exp(-x)).
  static Activation sigmoid() { return {ActivationKind::sigmoid, 0.0}; }
  /// tanh(x).
  static Activation tanh() { return {ActivationKind::tanh, 0.0}; }
  /// log(1 + exp(x)).
  static Activation softplus() { return {ActivationKind::softplus, 0.0}; }

  /// Equal kind and parameter.
  bool operator==(Activation const&) const = default;
};

/// One layer: next(j) = activation(sum over the entries (j, i) of weights(j, i) * previous(i) + bias(j)).
struct Layer {
  CsrMatrix weights;                ///< shape [outputs, inputs]
  std::vector<double> bias = {0.0}; ///< one per output, or exactly one for all
  Activation activation;            ///< of all outputs

  /// Equal weights, in equal order, biases and activation.
  bool operator==(Layer const&) const = default;
};

/// A network that is never changed. Copies share its layers. All methods may be called by several threads at a time.
class Network {
public:
  /// Layers whose arrays are moved in; the outputs of each are the inputs of the next. Messages quote `name`.
  /// Throws InputError, naming the layer, if there is none, one is malformed, or two do not fit.
  explicit Network(std::vector<Layer> layers, std::string const& name = "network in memory");

  /// The name in messages: the file, or what the constructor was given.
  std::string name() const;
  /// Layers, at least one.
  std::size_t num_layers() const;
  /// Values of a sample: the columns of the first layer.
  std::size_t num_inputs() const;
  /// Last activations of a sample: the rows of the last layer.
  std::size_t num_outputs() const;
  /// The number of weights. Reads all layers of a network that was opened from a file.
  EdgeOffset num_edges() const;

  /// A copy of layer `number`, from 0. Throws UsageError if there is none, InputError if its file is broken.
  Layer layer(std::size_t number) const;

  /// A hash of all weights, biases and activations; equal networks have equal hashes.
  std::uint64_t weights_hash() const;

  /// The private part of a network.
  struct Contents;
  /// For the library itself.
  Contents const& contents() const { return *contents_; }

private:
  Network(std::shared_ptr<Contents const> contents, std::nullptr_t /*private*/) : contents_(std::move(contents)) {}

  std::shared_ptr<Contents const> contents_;
};

/// Builds a network layer by layer from arrays of the caller, which are copied.
class NetworkBuilder {
public:
  /// A builder without layers.
  NetworkBuilder();
  ~NetworkBuilder();
  /// Takes the layers; the other builder can only be assigned to or destroyed.
  NetworkBuilder(NetworkBuilder&&) noexcept;
  /// Takes the layers, as the constructor does.
  NetworkBuilder& operator=(NetworkBuilder&&) noexcept;

  /// Adds a layer with weights [outputs, inputs], whose rows are outputs, and a bias per output or one for all. Throws
  /// InputError, naming the layer, if it is malformed or does not take the outputs of the layer before it.
  NetworkBuilder& add_layer(CsrView const& weights, std::span<double const> bias, Activation const& activation);

  /// The network of all layers; the builder is empty afterwards. Throws InputError if there are none.
  Network build(std::string const& name = "network in memory");

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// Which neurons reduced() may remove. Outputs of the network keep their number and order.
struct ReductionPasses {
  bool merge_neurons = true;  ///< equal neurons become one
  bool fold_constants = true; ///< constant neurons become part of biases
  bool drop_unread = true;    ///< neurons that no neuron reads are dropped
};

/// A smaller network with the same outputs, up to rounding where weights were added up.
Network reduced(Network const& network, ReductionPasses const& passes = {});

/// The network without its smallest weights: `density` (above 0, at most 1) is the number of edges that stay, divided
/// by inputs times outputs, of each layer or of the whole network.
Network pruned(Network const& network, double density, bool over_whole_network = false);

} // namespace varve::v0_3
