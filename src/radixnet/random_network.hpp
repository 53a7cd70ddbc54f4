#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// What a random network is made of. Exactly one of `degree` and `density` is set.
struct RandomNetworkRecipe {
  std::vector<std::size_t> widths;   ///< the inputs, then the outputs of each layer: at least two numbers
  std::optional<std::size_t> degree; ///< every output reads so many distinct inputs, any of them as likely
  std::optional<double> density;     ///< the chance of every edge, in (0, 1]; 1 is a dense network
  std::optional<double> weight;      ///< of every edge; else each has its own, see `gain`
  double gain = 1.0;                 ///< weights are uniform in +- gain * sqrt(6 / inputs that an output reads)
  double lowest_bias = -0.1;         ///< biases are uniform between these, one per neuron, or one for all if the
  double highest_bias = 0.1;         ///< two are equal
  double cap = 1.0;                  ///< of the clipped ReLU
  std::uint64_t seed = 1;
};

/// A network without structure, made from a seed, one layer at a time on demand.
///
/// With gain 1 the mean square of activations stays about what it was, layer after layer (He, Zhang, Ren and Sun,
/// "Delving deep into rectifiers", 2015: variance 2 / inputs), and biases of both signs keep samples alive however deep
/// the network is. With more, samples live without biases too, for the cap bounds what grows; but so does every
/// difference: after 100 layers of gain 1.2, another rounding gives another answer. Weights and biases are exact in
/// float and the same on every platform. The pattern depends on the widths, the degree or density, and the seed alone.
class RandomNetwork final : public NetworkSource {
public:
  /// Throws UsageError if the recipe makes no network: fewer than two widths or an empty one, a degree beyond an input
  /// width, a density outside (0, 1], both or none of them, numbers that are not finite, a cap that is not positive.
  explicit RandomNetwork(RandomNetworkRecipe recipe);

  std::string name() const override;
  std::size_t num_layers() const override { return recipe_.widths.size() - 1; }
  Layer layer(std::size_t number) const override;

private:
  RandomNetworkRecipe recipe_;
};

} // namespace varve
