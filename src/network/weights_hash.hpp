#pragma once

#include "network/network.hpp"

#include <cstdint>

namespace varve {

/// A hash of the bits of all weights and biases (as doubles), each with its layer and place (weights: output and
/// input): a sum modulo 2^64. Networks with equal numbers of neurons and equal hashes have equal edges, weights and
/// biases, up to collisions of 64 bits.
std::uint64_t weights_hash(Network const& network);

} // namespace varve
