#pragma once

/// \file
/// Networks and samples from a seed.

#include <varve/network.hpp>
#include <varve/samples.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varve::v0_3 {

/// The networks of the Graph Challenge in structure (`varve generate radixnet`): neurons a power of two from 32 on.
/// Layers are made when they are needed. bias: of all neurons; empty: the challenge's for this width. cap: of the
/// clipped ReLU. Throws UsageError about the numbers.
Network radixnet(std::size_t neurons, std::size_t layers, std::uint64_t seed = 1, std::optional<double> bias = {},
                 double cap = 32.0);

/// Images of 0 and 1 that fit radixnet() (`varve generate images`), numbered from 0.
Samples digit_images(std::size_t neurons, std::size_t num_samples, std::uint64_t seed = 1);

/// The recipe of `varve generate random`. Exactly one of degree and density is set.
struct RandomRecipe {
  std::vector<std::size_t> widths;   ///< number of inputs, then the outputs of each layer: at least two numbers
  std::optional<std::size_t> degree; ///< distinct inputs that every output reads, chosen uniformly
  std::optional<double> density;     ///< probability of every edge, above 0 and at most 1, a dense network
  std::optional<double> weight;      ///< one weight for all edges; empty: each has its own, see `gain`
  double gain = 1.0;                 ///< weights are uniform in +- gain * sqrt(6 / mean number of inputs per output)
  double lowest_bias = -0.1;         ///< biases are uniform in [lowest_bias, highest_bias), one per neuron
  double highest_bias = 0.1;         ///< if it equals lowest_bias, all neurons of a layer share this bias
  double cap = 1.0;                  ///< of the clipped ReLU
  std::uint64_t seed = 1;            ///< equal seeds give equal networks on every machine
};

/// A network without structure. Throws UsageError about the recipe.
Network random_network(RandomRecipe const& recipe);

/// Samples of random values in (0, 1], each neuron with probability `density`.
Samples random_samples(std::size_t neurons, std::size_t num_samples, double density, std::uint64_t seed = 1);

/// The pattern of a network with biases 0 and initial weights for training: "he" or "identity"
/// (`varve generate weights`). Activations: of all layers but the last, and of the last; empty: those of the pattern.
Network initial_network(Network const& pattern, std::string const& weights = "he",
                        std::optional<Activation> const& activation = {},
                        std::optional<Activation> const& last_activation = {}, std::uint64_t seed = 1);

} // namespace varve::v0_3
