#pragma once

#include "core/types.hpp"

#include <bit>
#include <cstdint>
#include <span>

/// How neurons are compared: by hash first, then bit for bit.
namespace varve {

/// Hash of a neuron; neurons with equal hashes are compared in full. `weights` has one element per input, or none if
/// all neurons compared have the same weights.
using NeuronHash = std::uint64_t (*)(std::span<NeuronIndex const> inputs, std::span<double const> weights, double bias);

/// The default hash of a neuron; only tests that want collisions use another.
std::uint64_t neuron_hash(std::span<NeuronIndex const> inputs, std::span<double const> weights, double bias);

/// The bits of a number; has_equal_bits() compares them, so 0 and -0 differ.
inline std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }

bool has_equal_bits(double one, double other);
bool has_equal_bits(std::span<double const> one, std::span<double const> other);

} // namespace varve
