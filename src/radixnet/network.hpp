#pragma once

#include "network/network.hpp"

#include <varve/generate.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// Bias of every neuron in a network of this width: the challenge's bias where it has that width; for other widths the
/// value on the straight line through the challenge's biases, -0.30 - 0.05 (log2(neurons) - 10) / 2.
double radixnet_bias(std::size_t neurons);

/// A synthetic network with the structure of the challenge's networks, generated from a seed, one layer at a time on
/// demand (RadiX-Net: Kepner and Robinett, "RadiX-Net: Structured sparse matrices for deep neural networks", 2019;
/// details taken from the official files).
///
/// With M = neurons / 16 and offset = 2^(k mod log2 M), output j of layer k reads the inputs i with i mod M equal to j
/// mod M or (j + offset) mod M: 32 inputs of weight 1/16. This is a radix-2 butterfly on M nodes, each node consisting
/// of 16 neurons that are M apart. Every log2 M layers form one replica, after which each output depends on each input.
/// The first replica equals the official one. Each later replica renames the inputs of all its layers by a random
/// permutation p of its own: p(i) takes the place of i.
class RadixNet final : public NetworkSource {
public:
  /// Throws UsageError unless neurons is a power of two from 32 to 2^31, there is at least one layer, the bias is
  /// finite, and the cap is positive and finite.
  RadixNet(std::size_t neurons, std::size_t layers, std::uint64_t seed, double bias, double cap = kChallengeCap);

  /// A network with the bias radixnet_bias(neurons). Throws as the other constructor does.
  RadixNet(std::size_t neurons, std::size_t layers, std::uint64_t seed);

  std::string name() const override;
  std::size_t num_layers() const override { return num_layers_; }
  Layer layer(std::size_t number) const override;

  std::size_t num_neurons() const { return num_neurons_; }

private:
  std::size_t num_neurons_;
  std::size_t num_layers_;
  std::uint64_t seed_;
  double bias_;
  double cap_;
};

using RandomNetworkRecipe = v0_3::RandomRecipe;

/// A network without structure, generated from a seed, one layer at a time on demand.
///
/// With gain 1 the mean square of the activations stays roughly constant from layer to layer (He, Zhang, Ren and Sun,
/// "Delving deep into rectifiers", 2015: variance 2 / inputs), and biases of both signs keep samples alive at any
/// depth. With a larger gain, samples live without biases too, since the cap bounds their growth; but every difference
/// grows as well: after 100 layers of gain 1.2, a different rounding gives a different answer. Weights and biases are
/// exact in float and the same on every platform. The pattern depends only on the widths, the degree or density, and
/// the seed.
class RandomNetwork final : public NetworkSource {
public:
  /// Throws UsageError if the recipe is invalid: fewer than two widths or a width of 0, a degree larger than some
  /// layer's number of inputs, a density outside (0, 1], both or neither of degree and density, a number that is not
  /// finite, or a cap that is not positive.
  explicit RandomNetwork(RandomNetworkRecipe recipe);

  std::string name() const override;
  std::size_t num_layers() const override { return recipe_.widths.size() - 1; }
  Layer layer(std::size_t number) const override;

private:
  RandomNetworkRecipe recipe_;
};

/// Weights to begin training with.
enum class InitialWeights {
  he,      ///< random, scaled so that activations keep their size from layer to layer
  identity ///< in layers with as many inputs as outputs: 1 on the diagonal, small random numbers elsewhere
};

/// "he" or "identity".
std::string to_string(InitialWeights weights);

/// The initial weights with this name. Throws UsageError, which lists the valid names, if there are none.
InitialWeights parse_initial_weights(std::string const& name);

/// The parameters of an initial network.
struct InitialRecipe {
  InitialWeights weights = InitialWeights::he;
  std::optional<Activation> activation;      ///< activation of all layers but the last; empty: as in the pattern
  std::optional<Activation> last_activation; ///< activation of the last layer; empty: as in the pattern
  std::uint64_t seed = 1;
};

/// A network with the pattern of another one, biases 0, and weights to begin training with.
///
/// he: the weights of an output with d edges are uniform with mean 0 and variance 2 / (1 + slope^2) / d, where `slope`
/// is that of the activation below zero (0 for ReLU; 1 for identity and curves). This keeps the mean square of the
/// activations about the same in all layers (He, Zhang, Ren and Sun, "Delving deep into rectifiers", 2015).
///
/// identity: layers with as many inputs as outputs get an edge of weight 1 from each input to the output of the same
/// number, in addition to the edges of the pattern. The other edges of an output, d of them, have weights that are
/// uniform with mean 0 and variance 1 / (d * depth), where `depth` is the number of such layers. Networks of thousands
/// of layers then train (a residual network without blocks: He, Zhang, Ren and Sun, "Deep residual learning for image
/// recognition", 2016). Layers with other shapes get the weights of he.
///
/// The random number of an edge depends on the seed, its layer, output and input only: patterns that share an edge
/// share its number. All weights are exact in float and the same on every platform.
class InitialNetwork final : public NetworkSource {
public:
  /// The pattern must outlive this object. With InitialWeights::identity, reads all its layers here. Throws what the
  /// pattern throws, and UsageError if identity is asked for and no layer has as many inputs as outputs.
  InitialNetwork(NetworkSource const& pattern, InitialRecipe const& recipe);

  std::string name() const override;
  std::size_t num_layers() const override { return pattern_.num_layers(); }
  Layer layer(std::size_t number) const override;

private:
  NetworkSource const& pattern_;
  InitialRecipe recipe_;
  std::size_t depth_ = 0; ///< identity: number of layers with as many inputs as outputs
};

} // namespace varve
