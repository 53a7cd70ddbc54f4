#pragma once

#include "io/sample_reader.hpp"
#include "network/loss.hpp"

#include <filesystem>
#include <span>
#include <vector>

namespace varve {

/// Texts with a line for each sample, plain or compressed (gzip, xz, zstd). Blank lines and lines that begin with % or
/// # are skipped.

/// Reads the numbers of the surviving samples ("categories"), one in a line. They
/// count from 1 in the file and from 0 in the result, which is sorted. Throws InputError with file and line if a line
/// is not a sample number or repeats one.
std::vector<SampleIndex> read_categories(std::filesystem::path const& path);

/// Reads the classes of wanted samples from lines with one class each, in the order of the samples, and keeps no others
/// in memory, however long the file is. Throws as open_labels() does.
Labels read_text_labels(std::filesystem::path const& path, SampleRange const& wanted, OtherSamples others);

/// Writes sample numbers, one per line: from 0 in memory, from 1 in the file. Throws as TextWriter does.
void write_categories(std::filesystem::path const& path, std::span<SampleIndex const> samples);

/// Writes one line per sample, `sample<TAB>neuron`: from 0 in memory, from 1 in the file. Both spans must
/// have the same length. Throws as TextWriter does.
void write_predictions(std::filesystem::path const& path, std::span<SampleIndex const> samples,
                       std::span<NeuronIndex const> neurons);

} // namespace varve
