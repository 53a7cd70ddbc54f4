#pragma once

#include "engine/kernel_set.hpp"
#include "engine/rank_exchange.hpp"
#include "network/network.hpp"

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace varve {

/// Divides a layer's outputs into contiguous parts of about equal work, where an output costs as much as an edge.
/// Returns bounds: part r computes the outputs [bounds[r], bounds[r + 1]). Parts may be empty.
std::vector<std::size_t> cut_outputs(SparseMatrix const& weights, int num_parts);

/// One rank's part of a network whose neurons are split across ranks: some outputs of every layer, with all their
/// inputs. The source must outlive this object.
class LayerSlices final : public NetworkSource {
public:
  LayerSlices(NetworkSource const& network, int rank, int num_ranks);

  std::string name() const override { return network_.name(); }
  std::size_t num_layers() const override { return wholes_.size(); }

  /// This rank's outputs of a layer. Throws InputError if the whole layer has more than 2^31 - 1 outputs.
  Layer layer(std::size_t number) const override;

  /// Properties of a whole layer, of which this rank holds a part.
  struct WholeLayer {
    std::vector<std::size_t> bounds; ///< outputs of rank r: [bounds[r], bounds[r + 1])
    EdgeOffset num_edges = 0;
    bool keeps_zero = false;

    std::size_t num_outputs() const { return bounds.back(); }
  };

  /// The whole layer of this number; valid after layer(number).
  WholeLayer const& whole(std::size_t number) const { return wholes_[number]; }

  /// Edges on all ranks of the layers that have been read so far.
  EdgeOffset num_edges() const;

private:
  NetworkSource const& network_;
  int rank_;
  int num_ranks_;
  mutable std::mutex mutex_; ///< guards wholes_
  mutable std::vector<WholeLayer> wholes_;
};

/// For runs with neurons split across ranks: after every layer, joins the parts that the ranks have computed into the
/// whole panel. A rank's part is the live stamp of each position, then the tiles of its outputs, both padded to the
/// exchange's granularity. Parts are sent from device to device if the exchange can access device memory, else through
/// pinned host memory. All ranks know the number of positions, so sizes are not sent.
class ActivationGather {
public:
  /// All must outlive this object.
  ActivationGather(KernelSet const& kernels, LayerSlices const& slices, RankExchange& exchange)
      : kernels_(&kernels),
        slices_(&slices),
        exchange_(&exchange),
        is_direct_(kernels.memory().is_host() || exchange.reaches_memory_of(kernels.memory().backend())) {}

  /// Bytes on the device for the parts of all ranks. max_neurons: neurons of the widest layer.
  std::size_t bytes(std::size_t max_samples, std::size_t max_neurons) const;

  /// Allocates the buffers of bytes(max_samples, max_neurons).
  void allocate(std::size_t max_samples, std::size_t max_neurons);

  /// Starts a run. tile_samples: by layer, samples of the tiles that this rank's kernels write. Collective.
  void start(std::vector<int> const& tile_samples);

  /// Call after each layer: replaces this rank's neurons in the panel by those of all ranks, in tiles of `tile_samples`
  /// samples. keeps_dead: dead samples stay in the panel, because a later layer may revive them. Collective; fences.
  void gather(Stream const& stream, Panel& panel, std::size_t layer, int tile_samples, bool keeps_dead);

  /// Totals since start(): seconds in gather(), including waiting for the slowest rank, and bytes from other ranks.
  double seconds() const { return seconds_; }
  double bytes_received() const { return bytes_received_; }

private:
  /// The place of a rank's part of a layer within the parts of all ranks.
  struct Part {
    std::size_t stamps, activations; ///< first bytes of its stamps and tiles within the parts of all ranks
    std::size_t end;                 ///< end of the part, in bytes
    int first_neuron, num_neurons, tile_samples;
    std::size_t num_positions; ///< all slots of its tiles, including those past the last sample
  };

  std::vector<Part> parts_of(std::size_t layer, int num_samples) const;
  std::size_t activation_bytes(Part const& part) const;
  void exchange(Stream const& stream, Panel const& panel, std::vector<Part> const& parts);
  void put_own(Stream const& stream, Panel const& panel, Part const& own) const;
  void join(Stream const& stream, Panel& panel, std::vector<Part> const& parts, std::size_t layer,
            int tile_samples) const;

  KernelSet const* kernels_;
  LayerSlices const* slices_;
  RankExchange* exchange_;
  bool is_direct_;
  DeviceBytes parts_;             ///< the parts of all ranks, on the device
  DeviceBytes staged_;            ///< the same parts in host memory if the exchange cannot access the device
  std::vector<int> tile_samples_; ///< [rank][layer]
  double seconds_ = 0.0;
  double bytes_received_ = 0.0;
};

} // namespace varve
