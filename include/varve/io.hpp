#pragma once

/// \file
/// Networks, samples and labels in files.

#include <varve/network.hpp>
#include <varve/samples.hpp>
#include <varve/types.hpp>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

namespace varve::v0_3 {

/// What the challenge's text files do not say about their network.
struct OpenOptions {
  std::optional<std::size_t> neurons = std::nullopt; ///< neurons per layer
  std::optional<std::size_t> layers = std::nullopt;  ///< the first layers; empty: all that there are
  std::optional<double> bias = std::nullopt;         ///< the bias of every neuron
  std::optional<double> cap = std::nullopt;          ///< the cap of every clipped ReLU
};

/// Opens a network in any format of FORMAT.md, recognized by its content. Layers are read when they are needed. Throws
/// InputError if it is broken, UsageError if an option contradicts a file or is missing.
Network open_network(std::filesystem::path const& path, OpenOptions const& options = {});

/// Writes a network in the format that the ending implies (.safetensors, or a folder of text); it appears whole or not
/// at all. Throws UsageError if the format cannot hold the network, ResourceError if it cannot be written.
void save_network(Network const& network, std::filesystem::path const& path, Progress const& progress = {});

/// Reads samples in any format of FORMAT.md, recognized by its content. Text does not state its width, so it needs
/// num_neurons. Throws InputError if the file is broken or its samples have another width.
Samples open_samples(std::filesystem::path const& path, std::optional<std::size_t> num_neurons = std::nullopt);

/// Writes samples in the format of the ending: .safetensors, .tsv, .tsv.gz, .tsv.xz, .tsv.zst. Throws as
/// save_network().
void save_samples(Samples const& samples, std::filesystem::path const& path);

/// Reads the classes of all these samples from a sample file, an IDX file, or text with one class a
/// line. Throws InputError if the file is broken or holds the labels of other samples.
std::vector<NeuronIndex> open_labels(std::filesystem::path const& path, Samples const& samples);

} // namespace varve::v0_3
