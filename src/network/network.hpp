#pragma once

#include "network/activation.hpp"
#include "network/sparse_matrix.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace varve {

/// One layer: next(j) = activation(sum over edges (j, i) of weight(j, i) * previous(i) + bias(j)).
struct Layer {
  SparseMatrix weights;             ///< [outputs, inputs]
  std::vector<double> bias = {0.0}; ///< one per output, or exactly one that all outputs share
  Activation activation;

  std::size_t num_inputs() const { return weights.num_columns; }
  std::size_t num_outputs() const { return weights.num_rows; }
  EdgeOffset num_edges() const { return weights.num_entries(); }
  double bias_of(std::size_t output) const { return bias.size() == 1 ? bias[0] : bias[output]; }

  bool operator==(Layer const&) const = default;
};

/// True if a sample without any nonzero activation is still without one after this layer.
bool keeps_zero(Layer const& layer);

/// Throws InputError, naming layer `number` (from 0), unless weights, bias and cap are well formed.
void require_valid(Layer const& layer, std::size_t number);

/// Layers in order, one at a time, from memory or from a file: whoever prepares or converts a network needs memory for
/// a few layers only. Layers can be asked for in any order and more than once; layer() is safe to call from several
/// threads at a time and returns a valid layer or throws InputError.
class NetworkSource {
public:
  virtual ~NetworkSource() = default;

  virtual std::string name() const = 0;              ///< for messages: where it is from
  virtual std::size_t num_layers() const = 0;        ///< at least 1
  virtual Layer layer(std::size_t number) const = 0; ///< number from 0
};

/// A whole network in memory; the outputs of each layer are the inputs of the next.
class Network final : public NetworkSource {
public:
  /// Throws InputError if there is no layer, one is malformed, or two neighbours do not fit together.
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

/// Reads every layer of a source into memory.
Network load(NetworkSource const& source);

/// Throws InputError unless layer `number` takes as many inputs as the layer before it has outputs.
void require_fit(std::size_t outputs_before, Layer const& layer, std::size_t number);

} // namespace varve
