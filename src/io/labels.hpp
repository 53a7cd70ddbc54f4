#pragma once

#include "io/sample_reader.hpp"
#include "network/loss.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>

namespace varve {

/// Reads the classes of the samples [first, last) from a sample file, an IDX file (idx.hpp), or a text (plain,
/// gzip, xz, zstd) with one class per line, in the order of the samples; blank lines and lines that begin with % or #
/// do not count. Classes count from 0 in all formats. Throws InputError, naming the file, if it is broken, lacks labels
/// of wanted samples, or has labels of other samples although these are refused. The caller checks the classes
/// (require_classes).
Labels open_labels(std::filesystem::path const& path, SampleRange const& samples, OtherSamples others);

/// Opens the targets of the samples [first, last), the wanted outputs of a network with `num_outputs` outputs (nullopt:
/// any number): the targets in a sample file or, if it has none, its samples, so that activations of another
/// network can be targets; or the rows of a Matrix Market file. Throws InputError, naming the
/// file, if it is neither, is broken, has another width, lacks targets of wanted samples, or has targets of other
/// samples although these are refused.
std::unique_ptr<SampleReader> open_targets(std::filesystem::path const& path, std::optional<std::size_t> num_outputs,
                                           SampleRange const& samples, OtherSamples others);

} // namespace varve
