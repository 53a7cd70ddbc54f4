#pragma once

#include <cstdint>
#include <vector>

namespace varve {

/// The order in which an epoch, from 0, takes the samples: the row of the sample at each position. It follows from the
/// seed and the epoch alone, so that training can go on anywhere. (Fisher and Yates's shuffle by a counter-based
/// generator, radixnet/random.hpp.)
std::vector<std::uint64_t> sample_order(std::uint64_t seed, std::uint64_t epoch, std::uint64_t num_samples);

} // namespace varve
