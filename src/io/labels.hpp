#pragma once

#include "io/sample_range.hpp"
#include "network/labels.hpp"

#include <filesystem>

namespace varve {

/// Reads the classes of the samples [first, last): from an HDF5 sample file; from an IDX file (idx.hpp); or from a text
/// (plain, gzip, xz, zstd) with one class per line, where the n-th class is that of sample n; blank lines and lines
/// that begin with % or # do not count. Classes count from 0 in all of them. Throws InputError, naming the file, if it
/// is broken, has no labels or those of fewer samples than asked for, or, if others are refused, of more. The caller
/// checks the classes (require_classes).
Labels open_labels(std::filesystem::path const& path, SampleRange const& samples, OtherSamples others);

} // namespace varve
