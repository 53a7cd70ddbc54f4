#pragma once

#include "network/activation.hpp"
#include "network/sparse_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace varve {

class SampleBatch;

/// One layer: next(j) = activation(sum over edges (j, i) of weight(j, i) * previous(i) + bias(j)).
struct Layer {
  SparseMatrix weights;             ///< shape [outputs, inputs]
  std::vector<double> bias = {0.0}; ///< one per output, or exactly one shared by all outputs
  Activation activation;

  Layer() = default;
  /// As an aggregate it would destroy `weights` twice where they are a list of their own and the next member throws: a
  /// fault of g++ (12 and 13), for which each inner list of an aggregate names its type if it owns memory.
  Layer(SparseMatrix edges, std::vector<double> biases, Activation function)
      : weights(std::move(edges)), bias(std::move(biases)), activation(function) {}

  std::size_t num_inputs() const { return weights.num_columns; }
  std::size_t num_outputs() const { return weights.num_rows; }
  EdgeOffset num_edges() const { return weights.num_entries(); }
  double bias_of(std::size_t output) const { return bias.size() == 1 ? bias[0] : bias[output]; }

  bool operator==(Layer const&) const = default;
};

/// The layer that consists of these outputs, in this order, with one bias each.
Layer outputs_of(Layer const& layer, std::span<NeuronIndex const> outputs);

/// True if a sample without a nonzero activation still has none after this layer.
bool keeps_zero(Layer const& layer);

/// Throws InputError, naming the place, unless the activation's parameter is in its range.
void require_valid(Activation const& activation, std::string const& place);

/// Throws InputError, naming layer `number` (from 0), unless weights, bias and cap are well formed.
void require_valid(Layer const& layer, std::size_t number);

/// The layers of a network, read one at a time from memory or a file, so that preparing or converting a network needs
/// memory for a few layers only. Layers may be read in any order and more than once; layer() is thread-safe and returns
/// a valid layer or throws InputError.
class NetworkSource {
public:
  virtual ~NetworkSource() = default;

  virtual std::string name() const = 0;              ///< where the network comes from, for messages
  virtual std::size_t num_layers() const = 0;        ///< at least 1
  virtual Layer layer(std::size_t number) const = 0; ///< layer `number`, from 0

  /// Called before each layer by the thread that uses the layers, where other threads read them. What it throws ends
  /// the reading: after a signal, for instance.
  virtual void before_layer() const {}
};

/// A whole network in memory; the outputs of each layer are the inputs of the next.
class Network final : public NetworkSource {
public:
  /// Throws InputError if there is no layer, a layer is malformed, or a layer does not take as many inputs as the layer
  /// before it has outputs.
  explicit Network(std::vector<Layer> layers, std::string name = "network in memory");

  std::string name() const override { return name_; }
  std::size_t num_layers() const override { return layers_.size(); }
  Layer layer(std::size_t number) const override { return layers_.at(number); }

  std::vector<Layer> const& layers() const { return layers_; }
  std::size_t num_inputs() const { return layers_.front().num_inputs(); }
  std::size_t num_outputs() const { return layers_.back().num_outputs(); }
  EdgeOffset num_edges() const;

private:
  std::vector<Layer> layers_;
  std::string name_;
};

/// Reads every layer of a source into memory. Throws what the source throws.
Network load(NetworkSource const& source);

/// Throws InputError unless layer `number` takes `outputs_before` inputs.
void require_fit(std::size_t outputs_before, Layer const& layer, std::size_t number);

/// Throws InputError if a weight or bias of layer `number` (from 0) rounds to infinity in this precision. The message
/// names `network`, the layer and the value.
void require_representable(Layer const& layer, std::size_t number, Precision precision, std::string const& network);

/// Throws InputError if a value rounds to infinity in this precision. The message names `input`, the sample (from 1)
/// and the value.
void require_representable(SampleBatch const& samples, Precision precision, std::string const& input);

/// A network that checks each layer with require_representable() when it is read. The source must outlive this object.
class RepresentableNetwork final : public NetworkSource {
public:
  RepresentableNetwork(NetworkSource const& source, Precision precision) : source_(source), precision_(precision) {}

  std::string name() const override { return source_.name(); }
  std::size_t num_layers() const override { return source_.num_layers(); }
  Layer layer(std::size_t number) const override;
  void before_layer() const override { source_.before_layer(); }

private:
  NetworkSource const& source_;
  Precision precision_;
};

/// A hash of the bits of all weights and biases (as doubles), each with its layer and place (weights: output and
/// input): a sum modulo 2^64. Networks with equal numbers of neurons and equal hashes have equal edges, weights and
/// biases, up to collisions of 64 bits.
std::uint64_t weights_hash(Network const& network);

/// Cap of every activation in the Sparse DNN Graph Challenge.
inline constexpr double kChallengeCap = 32.0;

/// Weight of every edge in the challenge's networks: twice the weight with which the 32 edges of a neuron would average
/// its inputs.
inline constexpr double kChallengeWeight = 1.0 / 16.0;

/// Bias of every neuron in the challenge's networks of this width; nullopt if the challenge has no network of this
/// width.
constexpr std::optional<double> challenge_bias(std::size_t neurons) {
  constexpr std::pair<std::size_t, double> biases[] = {{1024, -0.30}, {4096, -0.35}, {16384, -0.40}, {65536, -0.45}};
  for (auto const& [width, bias] : biases)
    if (width == neurons) return bias;
  return std::nullopt;
}

} // namespace varve
