#pragma once

#include <cstdint>
#include <vector>

namespace varve {

/// The order of the samples in an epoch (from 0): the row of the sample at each position. It depends only on the seed
/// and the epoch, so that training can continue at any step. (Fisher and Yates's shuffle with the counter-based
/// generator of radixnet/random.hpp.)
std::vector<std::uint64_t> sample_order(std::uint64_t seed, std::uint64_t epoch, std::uint64_t num_samples);

} // namespace varve
