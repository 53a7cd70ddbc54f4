#pragma once

#include "io/sample_range.hpp"
#include "network/labels.hpp"

#include <filesystem>

namespace varve {

/// Reads the classes of the samples [first, last) from a sample file, an IDX file (idx.hpp), or a text (plain,
/// gzip, xz, zstd) with one class per line, in the order of the samples; blank lines and lines that begin with % or #
/// do not count. Classes count from 0 in all formats. Throws InputError, naming the file, if it is broken, lacks labels
/// of wanted samples, or has labels of other samples although these are refused. The caller checks the classes
/// (require_classes).
Labels open_labels(std::filesystem::path const& path, SampleRange const& samples, OtherSamples others);

} // namespace varve
