#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace varve {

/// What `varve convert` does with samples.
struct SampleConversion {
  std::string source, target;
  std::string labels;                ///< file with the labels of the samples; empty: those of the source, if it has any
  std::string targets;               ///< file with their targets; likewise
  bool drops_answers = false;        ///< labels and targets of the source are left out
  std::optional<std::string> pixels; ///< values of IDX images: "unit" (default) or "raw"
  std::optional<std::size_t> neurons; ///< of samples in text
};

/// Rewrites samples, with their labels and targets, in the format of the target's name. Converts a limited number of
/// samples at a time, so that the input may be larger than memory; labels are kept whole, in 4 bytes per sample. Throws
/// UsageError if the options do not fit the files, and what reading and writing throw.
void convert_samples(SampleConversion const& conversion);

} // namespace varve
