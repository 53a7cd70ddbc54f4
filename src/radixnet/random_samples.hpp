#pragma once

#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// Samples of random values, as features that some networks are trained on: every neuron holds a value with the chance
/// `density`, uniform in (0, 1] and exact in float. Sample k depends on its number and the seed alone.
///
/// Throws UsageError unless neurons is 1 to 2^31 and the density in (0, 1].
SampleSet random_samples(std::size_t neurons, std::size_t samples, double density, std::uint64_t seed);

} // namespace varve
