#include "passes/neuron_hash.hpp"

#include <algorithm>

namespace varve {
namespace {

/// Folds a word into a hash. Collisions are harmless: neurons with equal hashes are compared in full.
std::uint64_t hash_of_both(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29U);
}

} // namespace

std::uint64_t neuron_hash(std::span<NeuronIndex const> inputs, std::span<double const> weights, double bias) {
  std::uint64_t hash = hash_of_both(inputs.size(), bits_of(bias));
  for (NeuronIndex const input : inputs) hash = hash_of_both(hash, input);
  for (double const weight : weights) hash = hash_of_both(hash, bits_of(weight));
  return hash;
}

bool has_equal_bits(double one, double other) { return bits_of(one) == bits_of(other); }

bool has_equal_bits(std::span<double const> one, std::span<double const> other) {
  return std::ranges::equal(one, other, [](double left, double right) { return has_equal_bits(left, right); });
}

} // namespace varve
