#include <varve/generate.hpp>

#include "library/crossing.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

namespace varve::v0_3 {
namespace {

std::optional<varve::Activation> to_private(std::optional<Activation> const& activation) {
  if (!activation) return std::nullopt;
  auto const own = v0_3::to_private(*activation);
  varve::require_valid(own, "initial weights");
  return own;
}

} // namespace

Network radixnet(std::size_t neurons, std::size_t layers, std::uint64_t seed, std::optional<double> bias, double cap) {
  return hold(std::make_shared<varve::RadixNet const>(neurons, layers, seed,
                                                      bias ? *bias : varve::radixnet_bias(neurons), cap));
}

Samples digit_images(std::size_t neurons, std::size_t num_samples, std::uint64_t seed) {
  return hold(varve::digit_images(neurons, num_samples, seed));
}

Network random_network(RandomRecipe const& recipe) {
  return hold(std::make_shared<varve::RandomNetwork const>(recipe));
}

Samples random_samples(std::size_t neurons, std::size_t num_samples, double density, std::uint64_t seed) {
  return hold(varve::random_samples(neurons, num_samples, density, seed));
}

Network initial_network(Network const& pattern, std::string const& weights, std::optional<Activation> const& activation,
                        std::optional<Activation> const& last_activation, std::uint64_t seed) {
  varve::InitialRecipe const recipe{varve::parse_initial_weights(weights), to_private(activation),
                                    to_private(last_activation), seed};
  return hold_copy(varve::InitialNetwork(*pattern.contents().source, recipe));
}

} // namespace varve::v0_3
