#pragma once

#include "io/sample_reader.hpp"
#include "network/loss.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>

namespace varve {

/// The header of a sample file: everything but the samples.
struct SampleFileHeader : SampleFacts {
  bool has_labels = false;                ///< true if each sample has a class
  std::optional<std::size_t> num_targets; ///< width of the targets, if each sample has some
};

/// The matrices of a sample file, with one row per sample each: the inputs of a network, and the outputs that it is
/// trained to give.
enum class SamplePart { samples, targets };

/// Reads the header of a sample file (see FORMAT.md). Throws InputError, naming the file, if it is missing, broken or
/// not a sample file.
SampleFileHeader read_sample_header(std::filesystem::path const& path);

/// Throws InputError, naming the file, if its samples (or targets, as `what` names them) have `found` neurons instead
/// of `expected`, which are the network's `ends`.
void require_width(std::filesystem::path const& path, std::size_t found, std::size_t expected,
                   char const* ends = "inputs", char const* what = "samples");

/// Reads the classes of all samples of a sample file, or of a range. Throws as open_sample_file does, and InputError if
/// the file has no labels. The caller checks the classes (require_classes).
Labels read_sample_labels(std::filesystem::path const& path, OptionalSampleRange const& range = std::nullopt);

/// Opens the samples of a sample file, or their targets, or a range of them, to be read part by part; the file stays
/// open. Throws InputError as read_sample_header does, if the content is malformed, or if the file has no targets but
/// they are wanted; UsageError if the file does not contain the range.
std::unique_ptr<SampleReader> open_sample_file(std::filesystem::path const& path,
                                               OptionalSampleRange const& range = std::nullopt,
                                               SamplePart part = SamplePart::samples);

/// Creates a sample file, to be written batch by batch; it appears on commit() or not at all. The bytes of a file of
/// samples alone do not depend on their division into batches. A file has labels or targets if any were appended, even
/// an empty batch; before commit() there must be as many as samples. Throws UsageError or ResourceError as OutputFile
/// does.
std::unique_ptr<SampleWriter> create_sample_file(std::filesystem::path const& path, std::size_t num_neurons);

} // namespace varve
