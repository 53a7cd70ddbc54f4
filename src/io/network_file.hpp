#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace varve {

/// What a network file says about a layer beside its weights.
struct LayerHeader {
  std::size_t num_inputs = 0;
  std::size_t num_outputs = 0;
  EdgeOffset num_edges = 0;
  std::vector<double> bias; ///< one per output, or exactly one that all outputs share
  Activation activation;
};

/// A network in an HDF5 file (see FORMAT.md), read layer by layer.
class NetworkFile final : public NetworkSource {
public:
  /// Reads the descriptors of all layers. Throws InputError, naming file and layer, if the file is missing, broken or
  /// no network file, or if two layers do not fit together.
  explicit NetworkFile(std::filesystem::path const& path);
  ~NetworkFile() override;

  std::string name() const override;
  std::size_t num_layers() const override;
  Layer layer(std::size_t number) const override;

  /// All of layer `number` but its weights.
  LayerHeader header(std::size_t number) const;

  /// Reads all of a network file but its numbers, as the constructor and layer() do: for hdf5::try_out, under its lock.
  /// Throws InputError.
  static void walk(std::filesystem::path const& path);

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// Opens a network file as a source.
std::unique_ptr<NetworkSource> open_network_file(std::filesystem::path const& path);

/// Writes a network file layer by layer; the file appears with commit() or not at all.
class NetworkFileWriter {
public:
  /// Throws UsageError or ResourceError as OutputFile does.
  explicit NetworkFileWriter(std::filesystem::path const& path);
  ~NetworkFileWriter();

  /// Writes the next layer. Throws InputError if it is malformed or does not fit the one before, ResourceError if the
  /// disk is full or fails.
  void append(Layer const& layer);

  /// Makes the file appear; it needs at least one layer.
  void commit();

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

} // namespace varve
