#pragma once

#include "io/sample_range.hpp"
#include "io/sample_reader.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>

namespace varve {

/// Opens the targets of the samples [first, last), which a network with `num_outputs` outputs (unknown: any) should
/// give: those of an HDF5 sample file or, where it has none, its samples, so that activations of another network may be
/// targets. Throws InputError, naming the file, if it is no such file, is broken, has another width or fewer samples
/// than asked for, or, if others are refused, more.
std::unique_ptr<SampleReader> open_targets(std::filesystem::path const& path, std::optional<std::size_t> num_outputs,
                                           SampleRange const& samples, OtherSamples others);

} // namespace varve
