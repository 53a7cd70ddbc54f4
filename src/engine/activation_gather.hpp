#pragma once

#include "engine/kernel_set.hpp"
#include "engine/layer_slices.hpp"
#include "engine/rank_exchange.hpp"

#include <cstddef>
#include <vector>

namespace varve {

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
