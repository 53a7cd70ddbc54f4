#pragma once

#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// Samples of random values, resembling features of other machine-learning data: every neuron has a value with
/// probability `density`, uniform in (0, 1] and exact in float. Sample k depends on k and the seed only, so any range
/// gives the same samples.
///
/// Throws UsageError unless neurons is 1 to 2^31 and the density is in (0, 1].
SampleSet random_samples(std::size_t neurons, SampleIndex first, SampleIndex last, double density, std::uint64_t seed);

/// The samples 0 ... samples - 1.
SampleSet random_samples(std::size_t neurons, std::size_t samples, double density, std::uint64_t seed);

} // namespace varve
