#include "radixnet/network.hpp"

#include "core/error.hpp"
#include "radixnet/random.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

namespace varve {

namespace {

constexpr std::size_t kNeuronsPerNode = 16;
constexpr std::size_t kDegree = 2 * kNeuronsPerNode;
constexpr std::size_t kMaxNeurons = std::size_t{1} << 31U;

using InputList = std::array<NeuronIndex, kDegree>;

std::size_t require_width(std::size_t neurons) {
  if (std::has_single_bit(neurons) && neurons >= kDegree && neurons <= kMaxNeurons) return neurons;
  throw UsageError(fmt::format("a RadiX-Net cannot have {} neurons per layer (expected a power of two from {} to {})",
                               neurons, kDegree, kMaxNeurons));
}

/// The permutation of the inputs in a replica (Fisher-Yates shuffle); the identity in replica 0.
std::vector<NeuronIndex> permutation_of(std::size_t neurons, std::uint64_t seed, std::size_t replica) {
  std::vector<NeuronIndex> permutation(neurons);
  std::iota(permutation.begin(), permutation.end(), NeuronIndex{0});
  if (replica == 0) return permutation;
  RandomStream random(seed, replica);
  for (std::size_t remaining = neurons; remaining > 1; --remaining) {
    std::swap(permutation[remaining - 1], permutation[random.below(remaining)]);
  }
  return permutation;
}

/// For each node the inputs, ascending, that its 16 neurons read.
std::vector<InputList> input_lists(std::vector<NeuronIndex> const& permutation, std::size_t offset) {
  std::size_t const num_nodes = permutation.size() / kNeuronsPerNode;
  std::vector<InputList> lists(num_nodes);
  for (std::size_t node = 0; node < num_nodes; ++node) {
    std::size_t const partner = (node + offset) % num_nodes;
    for (std::size_t part = 0; part < kNeuronsPerNode; ++part) {
      lists[node][part] = permutation[node + part * num_nodes];
      lists[node][kNeuronsPerNode + part] = permutation[partner + part * num_nodes];
    }
    std::ranges::sort(lists[node]);
  }
  return lists;
}

} // namespace

double radixnet_bias(std::size_t neurons) {
  auto const official = challenge_bias(neurons);
  if (official) return *official;
  return -0.30 - 0.05 * (std::log2(static_cast<double>(neurons)) - 10.0) / 2.0;
}

RadixNet::RadixNet(std::size_t neurons, std::size_t layers, std::uint64_t seed, double bias, double cap)
    : num_neurons_(require_width(neurons)), num_layers_(layers), seed_(seed), bias_(bias), cap_(cap) {
  if (layers == 0) throw UsageError("a RadiX-Net cannot have 0 layers (expected at least 1)");
  if (!std::isfinite(bias)) throw UsageError(fmt::format("the bias is {}, expected a finite number", bias));
  if (!(cap > 0.0 && std::isfinite(cap))) {
    throw UsageError(fmt::format("the cap is {}, expected a positive finite number", cap));
  }
}

RadixNet::RadixNet(std::size_t neurons, std::size_t layers, std::uint64_t seed)
    : RadixNet(require_width(neurons), layers, seed, radixnet_bias(neurons)) {}

std::string RadixNet::name() const {
  return fmt::format("RadiX-Net of {} neurons and {} layers from seed {}", num_neurons_, num_layers_, seed_);
}

Layer RadixNet::layer(std::size_t number) const {
  VARVE_REQUIRE(number < num_layers_, "layer number lies outside the network");
  std::size_t const num_nodes = num_neurons_ / kNeuronsPerNode;
  auto const layers_per_replica = static_cast<std::size_t>(std::countr_zero(num_nodes));
  std::size_t const offset = std::size_t{1} << (number % layers_per_replica);
  auto const lists = input_lists(permutation_of(num_neurons_, seed_, number / layers_per_replica), offset);

  Layer layer;
  layer.bias = {bias_};
  layer.activation = Activation::clipped_relu(cap_);
  auto& weights = layer.weights;
  weights.num_rows = num_neurons_;
  weights.num_columns = num_neurons_;
  weights.values = {kChallengeWeight};
  weights.row_pointers.resize(num_neurons_ + 1);
  weights.column_indices.resize(num_neurons_ * kDegree);
  for (std::size_t output = 0; output < num_neurons_; ++output) {
    weights.row_pointers[output + 1] = (output + 1) * kDegree;
    std::ranges::copy(lists[output % num_nodes],
                      weights.column_indices.begin() + static_cast<std::ptrdiff_t>(output * kDegree));
  }
  return layer;
}

} // namespace varve
