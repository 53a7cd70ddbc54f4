#pragma once

#include "network/challenge.hpp"
#include "network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

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

} // namespace varve
