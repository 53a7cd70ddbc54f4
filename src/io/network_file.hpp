#pragma once

#include "network/network.hpp"
#include "network/optimizer.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace varve {

namespace hdf5 {
struct Share;
}

/// Everything that a network file stores about a layer except its weights.
struct LayerHeader {
  std::size_t num_inputs = 0;
  std::size_t num_outputs = 0;
  EdgeOffset num_edges = 0;
  std::vector<double> bias; ///< one per output, or exactly one shared by all outputs
  Activation activation;
};

/// A network in an HDF5 file (see FORMAT.md), read layer by layer.
class NetworkFile final : public NetworkSource {
public:
  /// Reads the descriptors of all layers. Throws InputError, naming file and layer, if the file is missing, broken or
  /// not a network file, or if a layer does not take as many inputs as the layer before it has outputs.
  explicit NetworkFile(std::filesystem::path const& path);
  /// The network whose layers are in this group of the file.
  NetworkFile(std::filesystem::path const& path, char const* group);
  ~NetworkFile() override;

  std::string name() const override;
  std::size_t num_layers() const override;
  Layer layer(std::size_t number) const override;

  /// Everything about layer `number` except its weights.
  LayerHeader header(std::size_t number) const;

  /// Reads the metadata that the constructor and layer() read of a share of the layers: for hdf5::try_out, under its
  /// lock. Throws InputError.
  static void walk(std::filesystem::path const& path, hdf5::Share const& share);

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// Opens a network file as a source. Throws as the constructor of NetworkFile does.
std::unique_ptr<NetworkSource> open_network_file(std::filesystem::path const& path);

/// Opens the network of the best epoch in a checkpoint; null if it holds none. Throws as the constructor of NetworkFile
/// does.
std::unique_ptr<NetworkSource> open_best_network(std::filesystem::path const& path);

/// The part of a checkpoint of training besides networks (group `training` and dataset `history` of FORMAT.md).
struct TrainingRecord {
  std::string recipe;   ///< JSON of the options that must not change when a training is resumed
  std::string progress; ///< JSON of the progress of the training
  OptimizerState optimizer;
  std::vector<double> history; ///< the numbers of all epochs; empty in checkpoints of Varve 0.2

  bool operator==(TrainingRecord const&) const = default;
};

/// Reads the record of a checkpoint. Throws InputError, naming the file, if it is no checkpoint or broken.
TrainingRecord read_training_record(std::filesystem::path const& path);

/// Writes a network file layer by layer; the file appears on commit() or not at all.
class NetworkFileWriter {
public:
  /// Throws UsageError or ResourceError as OutputFile does.
  explicit NetworkFileWriter(std::filesystem::path const& path);
  ~NetworkFileWriter();

  /// Writes the next layer. Throws InputError if it is malformed or does not take as many inputs as the layer before it
  /// has outputs, ResourceError if the disk is full or fails.
  void append(Layer const& layer);

  /// Makes the file a checkpoint. At most once; throws ResourceError if the disk is full or fails.
  void append(TrainingRecord const& record);

  /// Adds the network of the best epoch to a checkpoint. At most once; throws as the others do.
  void append_best(Network const& best);

  /// Makes the file appear; at least one layer must have been written. Throws as OutputFile::commit does.
  void commit();

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

} // namespace varve
