#pragma once

#include "core/types.hpp"

#include <optional>
#include <utility>

namespace varve {

/// The samples [first, last), by their numbers within the whole input, from 0: in a file whose first_sample is 100, the
/// first sample is number 100.
using SampleRange = std::pair<SampleIndex, SampleIndex>;

/// A range of samples, or nullopt for all samples.
using OptionalSampleRange = std::optional<SampleRange>;

} // namespace varve
