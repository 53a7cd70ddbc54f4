#pragma once

#include "io/sample_range.hpp"
#include "io/sample_reader.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>

namespace varve {

/// Opens the targets of the samples [first, last), the wanted outputs of a network with `num_outputs` outputs (nullopt:
/// any number): the targets in a sample file or, if it has none, its samples, so that activations of another
/// network can be targets; or the rows of a Matrix Market file. Throws InputError, naming the
/// file, if it is neither, is broken, has another width, lacks targets of wanted samples, or has targets of other
/// samples although these are refused.
std::unique_ptr<SampleReader> open_targets(std::filesystem::path const& path, std::optional<std::size_t> num_outputs,
                                           SampleRange const& samples, OtherSamples others);

} // namespace varve
