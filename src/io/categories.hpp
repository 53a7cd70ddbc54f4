#pragma once

#include "core/types.hpp"

#include <filesystem>
#include <span>
#include <vector>

namespace varve {

/// Reads the numbers of the surviving samples ("categories") from a plain, gzip, xz or zstd file with one number per
/// line. Numbers count from 1 in the file and from 0 in the result, which is sorted. Blank lines and lines that begin
/// with % or # are skipped. Throws InputError with file and line if a line is not a sample number or repeats one.
std::vector<SampleIndex> read_categories(std::filesystem::path const& path);

/// Writes sample numbers, one per line: from 0 in memory, from 1 in the file. Throws as TextWriter does.
void write_categories(std::filesystem::path const& path, std::span<SampleIndex const> samples);

/// Writes one line per sample, `sample<TAB>neuron`: from 0 in memory, from 1 in the file. Both spans must
/// have the same length. Throws as TextWriter does.
void write_predictions(std::filesystem::path const& path, std::span<SampleIndex const> samples,
                       std::span<NeuronIndex const> neurons);

} // namespace varve
