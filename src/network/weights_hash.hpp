#pragma once

#include "network/network.hpp"

#include <cstdint>

namespace varve {

/// A hash of the bits of all weights and biases (as doubles), each with its layer and place: a sum modulo 2^64.
/// Networks of one shape with equal hashes are equal, up to collisions of 64 bits.
std::uint64_t weights_hash(Network const& network);

} // namespace varve
