#pragma once

#include "core/types.hpp"

#include <filesystem>
#include <span>
#include <vector>

namespace varve {

/// Reads the numbers of the samples that survived, one a line and from 1 in the file (plain, gzip, xz or zstd);
/// ascending and from 0 in memory. Blank lines and lines that begin with % or # are skipped. Throws InputError with
/// file and line.
std::vector<SampleIndex> read_categories(std::filesystem::path const& path);

/// Writes sample numbers (from 0 in memory) one a line, from 1.
void write_categories(std::filesystem::path const& path, std::span<SampleIndex const> samples);

/// Writes one line per sample: its number and that of its neuron, both from 1 in the file and from 0 in memory,
/// separated by a tab. Both spans have the same length.
void write_predictions(std::filesystem::path const& path, std::span<SampleIndex const> samples,
                       std::span<NeuronIndex const> neurons);

} // namespace varve
