#pragma once

#include "core/types.hpp"

#include <optional>
#include <utility>

namespace varve {

/// The samples [first, last) of a file, counted from 0 at the file's first sample.
using SampleRange = std::pair<SampleIndex, SampleIndex>;

/// A range, or everything.
using OptionalSampleRange = std::optional<SampleRange>;

} // namespace varve
