#pragma once

#include "core/types.hpp"

#include <optional>
#include <utility>

namespace varve {

/// The samples [first, last) of a file, by their numbers within the whole input, from 0: those of a file whose
/// first_sample is 100 begin with 100.
using SampleRange = std::pair<SampleIndex, SampleIndex>;

/// A range, or everything.
using OptionalSampleRange = std::optional<SampleRange>;

} // namespace varve
