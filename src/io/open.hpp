#pragma once

#include "core/host_threads.hpp"
#include "io/challenge.hpp"
#include "io/sample_reader.hpp"
#include "network/loss.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace varve {

/// What a file is, by its content.
enum class FileKind {
  absent,        ///< nothing of this name
  folder,        ///< a folder
  container,     ///< a file of Varve (FORMAT.md)
  idx,           ///< images or labels, perhaps compressed
  matrix_market, ///< a matrix, perhaps compressed
  text           ///< anything else
};

/// Throws InputError if the file cannot be read, if it is one of another program, which the Python package reads (HDF5,
/// NumPy, SciPy), or if its name says that it is a container and it is none.
FileKind kind_of(std::filesystem::path const& path);

/// True if the ending of a name says that the file is a container.
bool is_container_name(std::filesystem::path const& path);

/// Opens a network, recognized by its content: a network file, or a folder of challenge layer files. Throws InputError
/// if PATH is neither; UsageError if an option contradicts a file or is missing.
std::unique_ptr<NetworkSource> open_network(std::filesystem::path const& path, ChallengeOptions const& options = {});

/// The files that reading this network reads. Throws InputError if one is missing.
std::vector<std::filesystem::path> network_files(std::filesystem::path const& path, ChallengeOptions const& options);

/// A checksum of all bytes that reading this network reads from the disk; equal files give equal checksums. Throws
/// InputError if a file is missing or cannot be read.
std::uint64_t network_checksum(std::filesystem::path const& path, ChallengeOptions const& options = {});

/// Opens samples, for a network with `neurons` inputs if these are given: a sample file, whose parts are read
/// separately; the images of an IDX file, with values byte / 255; a Matrix Market file, recognized by their content; or
/// lines `image pixel value` (plain, gzip, xz, zstd), which are kept in memory if that takes at most `bytes` and are
/// otherwise read sequentially a second time. All but text state their width; for text, `neurons` is required (else
/// UsageError). Throws InputError if the file is broken or its samples have another width, UsageError if it does not
/// contain the range.
std::unique_ptr<SampleReader> open_sample_reader(std::filesystem::path const& path, std::optional<std::size_t> neurons,
                                                 OptionalSampleRange const& range, std::size_t bytes);

/// The same samples, all in memory.
SampleSet open_samples(std::filesystem::path const& path, std::optional<std::size_t> neurons,
                       OptionalSampleRange const& range = std::nullopt);

/// Reads the classes of the samples [first, last) from a sample file, an IDX file (foreign_files.hpp), or a text with
/// one class per line (categories.hpp), in the order of the samples. Classes count from 0 in all formats. Throws
/// InputError, naming the file, if it is broken, lacks labels of wanted samples, or has labels of other samples
/// although these are refused. The caller checks the classes (require_classes).
Labels open_labels(std::filesystem::path const& path, SampleRange const& samples, OtherSamples others);

/// Opens the targets of the samples [first, last), the wanted outputs of a network with `num_outputs` outputs (nullopt:
/// any number): the targets in a sample file or, if it has none, its samples, so that activations of another
/// network can be targets; or the rows of a Matrix Market file. Throws InputError, naming the
/// file, if it is neither, is broken, has another width, lacks targets of wanted samples, or has targets of other
/// samples although these are refused.
std::unique_ptr<SampleReader> open_targets(std::filesystem::path const& path, std::optional<std::size_t> num_outputs,
                                           SampleRange const& samples, OtherSamples others);

/// True if PATH contains samples rather than a network: a sample file or a text file (networks in text are folders).
bool holds_samples(std::filesystem::path const& path);

/// Writes a network in the format that the ending of PATH implies: .safetensors is one network file; anything else is a
/// folder of challenge layer files ending in .tsv, or in .tsv.gz, .tsv.xz or .tsv.zst if PATH does (see
/// write_challenge_network for what text cannot store). Throws UsageError if the ending is unknown or text cannot store
/// the network.
void save_network(NetworkSource const& network, std::filesystem::path const& path, Progress const& progress = {});

/// Opens a writer for samples of `neurons` neurons, in the format that the ending of PATH implies (see save_samples).
/// Throws UsageError for other endings.
std::unique_ptr<SampleWriter> open_sample_writer(std::filesystem::path const& path, std::size_t neurons);

/// Writes samples in the format that the ending of PATH implies: .safetensors, .tsv, .tsv.gz, .tsv.xz, .tsv.zst. Throws
/// UsageError for other endings.
void save_samples(SampleSet const& samples, std::filesystem::path const& path);

/// Calls visit(number, layer) for each layer in order, on the calling thread. Layers are read in groups, one layer per
/// host thread, so that memory holds one group at a time.
template <class Visit>
void for_each_layer(NetworkSource const& network, Visit const& visit) {
  auto const num_layers = network.num_layers();
  std::vector<Layer> group(std::min(num_layers, num_host_threads()));
  for (std::size_t first = 0; first < num_layers; first += group.size()) {
    auto const count = std::min(group.size(), num_layers - first);
    for_each_on_host_threads(count, [&](std::size_t member) { group[member] = network.layer(first + member); });
    for (std::size_t member = 0; member < count; ++member) visit(first + member, std::exchange(group[member], {}));
  }
}

} // namespace varve
