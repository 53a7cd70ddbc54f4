#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace varve {

/// The options of `varve convert` for samples.
struct SampleConversion {
  std::string source, target;
  std::string labels;                 ///< file with the labels; empty: labels of the source, if it has any
  std::string targets;                ///< file with the targets; empty: targets of the source, if it has any
  bool drops_answers = false;         ///< leaves out labels and targets of the source
  std::optional<std::string> pixels;  ///< values of IDX images: "unit" (default) or "raw"
  std::optional<std::size_t> neurons; ///< neurons of samples in text
};

/// Rewrites samples, with their labels and targets, in the format that the target's name implies. Converts a limited
/// number of samples at a time, so that the input may be larger than memory; all labels are in memory, with 4 bytes per
/// sample. Throws UsageError if the options do not fit the files, and what reading and writing throw.
void convert_samples(SampleConversion const& conversion);

} // namespace varve
