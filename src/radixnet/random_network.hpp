#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// The parameters of a random network. Exactly one of `degree` and `density` is set.
struct RandomNetworkRecipe {
  std::vector<std::size_t> widths;   ///< number of inputs, then the outputs of each layer: at least two numbers
  std::optional<std::size_t> degree; ///< number of distinct inputs that every output reads, chosen uniformly
  std::optional<double> density;     ///< probability of every possible edge, in (0, 1]; 1 is a dense network
  std::optional<double> weight;      ///< the weight of all edges; without it, each edge has its own weight, see `gain`
  double gain = 1.0;                 ///< weights are uniform in +- gain * sqrt(6 / mean number of inputs per output)
  double lowest_bias = -0.1;         ///< biases are uniform in [lowest_bias, highest_bias), one per neuron
  double highest_bias = 0.1;         ///< if it equals lowest_bias, all neurons of a layer share this bias
  double cap = 1.0;                  ///< the cap of the clipped ReLU
  std::uint64_t seed = 1;
};

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

} // namespace varve
