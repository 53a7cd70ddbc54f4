#pragma once

#include "network/network.hpp"
#include "network/optimizer.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace varve {

/// Everything that a network file stores about a layer except its weights.
struct LayerHeader {
  std::size_t num_inputs = 0;
  std::size_t num_outputs = 0;
  EdgeOffset num_edges = 0;
  std::vector<double> bias; ///< one per output, or exactly one shared by all outputs
  Activation activation;
};

/// The part of a checkpoint of training besides networks (FORMAT.md).
struct TrainingRecord {
  std::string recipe;   ///< JSON of the options that must not change when a training is resumed
  std::string progress; ///< JSON of the progress of the training
  OptimizerState optimizer;
  std::vector<double> history; ///< the numbers of all epochs; empty in checkpoints of Varve 0.2
  std::string receipt = {};    ///< JSON of the receipt of the steps so far; empty without one

  bool operator==(TrainingRecord const&) const = default;
};

/// A network in a container (FORMAT.md), read layer by layer.
class NetworkFile final : public NetworkSource {
public:
  /// Reads what the file says of all layers. Throws InputError, naming file and layer, if the file is missing, broken
  /// or no network, or if a layer does not take as many inputs as the layer before it has outputs.
  explicit NetworkFile(std::filesystem::path const& path);
  ~NetworkFile() override;

  std::string name() const override;
  std::size_t num_layers() const override;
  Layer layer(std::size_t number) const override;

  /// Everything about layer `number` except its weights.
  LayerHeader header(std::size_t number) const;

  /// The network of the best epoch in a checkpoint; null if the file holds none. It needs this object.
  NetworkSource const* best() const;

  /// The part of a checkpoint besides networks. Throws InputError, naming the file, if it is not a checkpoint or
  /// broken.
  TrainingRecord training_record() const;

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// Writes a network file layer by layer; the file appears on commit() or not at all. A layer whose weights equal those
/// of an earlier one refers to them.
class NetworkFileWriter {
public:
  /// For a network of so many layers. Throws UsageError or ResourceError as OutputFile does.
  NetworkFileWriter(std::filesystem::path const& path, std::size_t num_layers);
  /// For a checkpoint.
  NetworkFileWriter(std::filesystem::path const& path, Network const& network, TrainingRecord const& record,
                    Network const* best);
  ~NetworkFileWriter();

  /// Writes the next layer. Throws InputError if it is malformed or does not take as many inputs as the layer before it
  /// has outputs, ResourceError if the disk is full or fails.
  void append(Layer const& layer);

  /// Makes the file appear; all layers must have been written. Throws as OutputFile::commit does.
  void commit();

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

} // namespace varve
