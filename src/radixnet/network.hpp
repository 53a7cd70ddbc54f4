#pragma once

#include "network/challenge.hpp"
#include "network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace varve {

/// Bias of every neuron in a network of this width: the challenge's where it has one; between and beyond its widths the
/// straight line through them, -0.30 - 0.05 (log2(neurons) - 10) / 2.
double radixnet_bias(std::size_t neurons);

/// A network of the challenge's structure, made from a seed, one layer at a time on demand (RadiX-Net: Kepner and
/// Robinett, "RadiX-Net: Structured sparse matrices for deep neural networks", 2019; the details are read off the
/// official files).
///
/// With M = neurons / 16 and offset = 2^(k mod log2 M), output j of layer k reads the inputs i with i mod M equal to
/// j mod M or (j + offset) mod M: 32 inputs of weight 1/16. That is a radix-2 butterfly on M nodes, each node being 16
/// neurons that are M apart. Every log2 M layers make up one replica, after which each output depends on each input.
/// The first replica is as written, hence equal to the official one; in each later one, a random permutation of its
/// own, the same for all of its layers, renames the inputs: p(i) takes the place of i.
class RadixNet final : public NetworkSource {
public:
  /// Throws UsageError unless neurons is a power of two from 32 to 2^31, there is at least one layer, the bias is
  /// finite and the cap positive and finite.
  RadixNet(std::size_t neurons, std::size_t layers, std::uint64_t seed, double bias, double cap = kChallengeCap);

  /// The same with the bias that radixnet_bias() gives.
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
