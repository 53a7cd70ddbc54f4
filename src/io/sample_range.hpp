#pragma once

#include "core/types.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace varve {

/// The samples [first, last), by their numbers within the whole input, from 0: in a file whose first_sample is 100, the
/// first sample is number 100.
using SampleRange = std::pair<SampleIndex, SampleIndex>;

/// A range of samples, or nullopt for all samples.
using OptionalSampleRange = std::optional<SampleRange>;

/// Whether a file may have labels or targets of samples other than the wanted ones.
enum class OtherSamples { refused, ignored };

/// "the samples 101:160", counted from 1 with both ends included as in options, or "none".
std::string shown(SampleRange const& samples);

/// The rows of the file `path` that hold a range of samples; the first of its `num_samples` rows is sample
/// `first_sample`. Throws UsageError if the file does not hold the range.
SampleRange rows_within(std::filesystem::path const& path, SampleIndex first_sample, std::uint64_t num_samples,
                        OptionalSampleRange const& range);

/// Checks a file `path` that has labels (or targets; `what` names them) of the samples `found`. Throws InputError
/// unless it has those of all wanted samples, and, if others are refused, no others.
void require_samples(std::filesystem::path const& path, char const* what, SampleRange const& found,
                     SampleRange const& wanted, OtherSamples others);

} // namespace varve
