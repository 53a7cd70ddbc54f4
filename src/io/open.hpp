#pragma once

#include "io/challenge.hpp"
#include "io/progress.hpp"
#include "io/sample_range.hpp"
#include "io/sample_writer.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

namespace varve {

/// Opens a network: a folder of challenge layer files, or an HDF5 network file, told by its signature. Throws
/// InputError if PATH is neither; UsageError if an option contradicts what an HDF5 file says, or a folder leaves
/// something open.
std::unique_ptr<NetworkSource> open_network(std::filesystem::path const& path, ChallengeOptions const& options = {});

/// A checksum of all that is read from the disk when this network is read: equal contents, equal checksum. Throws
/// InputError if something is missing or cannot be read.
std::uint64_t network_checksum(std::filesystem::path const& path, ChallengeOptions const& options = {});

/// Opens samples for a network of `neurons` inputs: an HDF5 sample file, told by its signature, or lines `image pixel
/// value`. Throws InputError if the file is broken or holds samples of another width, UsageError if it lacks the range.
SampleSet open_samples(std::filesystem::path const& path, std::size_t neurons,
                       OptionalSampleRange const& range = std::nullopt);

/// The same without a network: an HDF5 file says its width, text needs it (UsageError if it is left open).
SampleSet open_samples(std::filesystem::path const& path, std::optional<std::size_t> neurons);

/// The range of the first `count` samples of a file. Throws InputError as open_samples does.
SampleRange first_samples(std::filesystem::path const& path, std::size_t count);

/// Reads the metadata of an HDF5 file of either kind in a child process with limits, if it needs that (hdf5::guarded),
/// so that opening it later does not: a program that is going to use MPI, threads or devices calls it before it starts
/// them. Does nothing if PATH is no HDF5 file. Throws InputError if the file is broken.
void try_out_hdf5(std::filesystem::path const& path);

/// True if PATH is a file that holds samples rather than a network: an HDF5 sample file, or a text file (networks in
/// text are folders).
bool holds_samples(std::filesystem::path const& path);

/// Writes a network by the ending of PATH: .h5 or .hdf5 is one file; anything else is a folder of challenge layer
/// files, whose names end in .tsv, or in the .tsv.gz, .tsv.xz or .tsv.zst that PATH ends in (text holds neither bias
/// nor cap, see write_challenge_network). Throws UsageError if the ending is unknown or text cannot hold the network.
void save_network(NetworkSource const& network, std::filesystem::path const& path, Progress const& progress = {});

/// Begins to write samples of so many neurons, by the ending of PATH as save_samples.
std::unique_ptr<SampleWriter> open_sample_writer(std::filesystem::path const& path, std::size_t neurons);

/// Writes samples by the ending of PATH: .h5, .hdf5, .tsv, .tsv.gz, .tsv.xz, .tsv.zst. Throws UsageError for others.
void save_samples(SampleSet const& samples, std::filesystem::path const& path);

} // namespace varve
