#pragma once

#include "io/sample_reader.hpp"
#include "io/text_file.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace varve {

using v0_3::Progress;

/// Properties of a network that the challenge's text files do not contain.
struct ChallengeOptions {
  std::optional<std::size_t> neurons = std::nullopt; ///< neurons per layer
  std::optional<std::size_t> layers = std::nullopt;
  std::optional<double> bias = std::nullopt; ///< the bias of every neuron
  std::optional<double> cap = std::nullopt;  ///< the cap of every clipped ReLU, positive
};

/// Opens a folder of layer files nN-lK.tsv[.gz|.xz|.zst], K from 1, or a folder whose sub-folder neuronN contains them.
/// Defaults for omitted options: N if the folder contains only one, all layers, the challenge's bias for N, cap 32.
/// Each line is `input output weight`, numbered from 1, in any order; layer(k) reads its file on demand. Throws
/// InputError, naming the file, if a layer is missing or the folder contains none; UsageError if N or the bias has no
/// default, or an option is invalid.
std::unique_ptr<NetworkSource> open_challenge_network(std::filesystem::path const& folder,
                                                      ChallengeOptions const& options = {});

/// True if the name has the form nN-lK.tsv[.gz|.xz|.zst].
bool is_layer_file_name(std::string_view name);

/// The files that open_challenge_network would read, in layer order. Throws as it does.
std::vector<std::filesystem::path> challenge_layer_files(std::filesystem::path const& folder,
                                                         ChallengeOptions const& options = {});

/// Reads samples from lines `image pixel value`, numbered from 1, in any order; entries of value 0 are dropped. The
/// result has shape [samples, neurons]. The number of samples is the length of `range` if given, else the largest image
/// number in the file (trailing images without a pixel are then not counted). Samples of a range beyond the last image
/// are empty. Throws InputError with file and line.
SampleSet read_challenge_samples(std::filesystem::path const& path, std::size_t neurons,
                                 OptionalSampleRange const& range = std::nullopt);

/// Opens samples in the same text format for reading in parts. The file is kept in memory if that takes at most
/// `bytes`; otherwise it is read twice, once now to count and once part by part, and its images must ascend. Throws as
/// read_challenge_samples does, and InputError if the file is too large to keep and its images do not ascend.
std::unique_ptr<SampleReader> open_challenge_samples(std::filesystem::path const& path, std::size_t neurons,
                                                     OptionalSampleRange const& range, std::size_t bytes);

/// Writes a folder of layer files with the given compression. Text stores neither bias nor cap: throws UsageError,
/// naming the layer, unless all layers are square, have the same width and share one bias and one clipped ReLU; throws
/// UsageError as well if the folder exists and is not empty.
void write_challenge_network(NetworkSource const& network, std::filesystem::path const& folder, Compression compression,
                             Progress const& progress = {});

/// Writes lines `image pixel value`, compressed as the ending of PATH implies. Image numbers start from the first
/// batch's first_sample + 1. Text cannot store labels or targets: to append some throws UsageError. Throws as
/// OutputFile does.
std::unique_ptr<SampleWriter> create_challenge_samples(std::filesystem::path const& path);

} // namespace varve
