#pragma once

#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
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
  std::size_t bytes(std::size_t max_samples, std::size_t max_neurons) const {
    std::size_t const slots = Panel::slots_of(max_samples);
    auto const ranks = exchange_->num_ranks();
    std::size_t const padding = 2 * RankExchange::granularity;
    return slots * max_neurons * kernels_->scalar_bytes() + ranks * (slots * sizeof(int) + padding);
  }

  /// Allocates the buffers of bytes(max_samples, max_neurons).
  void allocate(std::size_t max_samples, std::size_t max_neurons) {
    parts_ = {};
    staged_ = {};
    parts_ = kernels_->memory().allocate("varve::parts", bytes(max_samples, max_neurons));
    if (!is_direct_) staged_ = kernels_->memory().allocate_on_host("varve::staged_parts", parts_.size());
  }

  /// Starts a run. tile_samples: by layer, samples of the tiles that this rank's kernels write. Collective.
  void start(std::vector<int> const& tile_samples) {
    seconds_ = bytes_received_ = 0.0;
    if (!tile_samples_.empty()) return; // the same in every run
    std::vector<std::uint64_t> const own(tile_samples.begin(), tile_samples.end());
    for (auto const samples : exchange_->gather(own)) tile_samples_.push_back(static_cast<int>(samples));
  }

  /// Call after each layer: replaces this rank's neurons in the panel by those of all ranks, in tiles of `tile_samples`
  /// samples. keeps_dead: dead samples stay in the panel, because a later layer may revive them. Collective; fences.
  void gather(Stream const& stream, Panel& panel, std::size_t layer, int tile_samples, bool keeps_dead) {
    ProfilingRegion const region("varve::exchange");
    stream.fence("varve: before the exchange");
    Stopwatch const time;
    bool const is_last = layer + 1 == slices_->num_layers();
    auto const parts = parts_of(layer, panel.max_samples());
    exchange(stream, panel, parts);
    join(stream, panel, parts, layer, tile_samples);
    int const live = panel.count_live(stream);
    bool const may_list = layer > 0 && !keeps_dead; // a first layer that reads bits does not stamp live samples
    auto const slots = [](int samples) { return Panel::slots_of(static_cast<std::size_t>(samples)); };
    // A list must save an eighth of the slots: the kernel after it compacts, which costs about as much as a join.
    if (is_last || (may_list && 8 * slots(live) <= 7 * slots(panel.max_samples()))) {
      panel.list_live(stream);
      panel.limit(live);
    }
    seconds_ += time.seconds();
  }

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

  static std::size_t padded(std::size_t bytes) {
    std::size_t const step = RankExchange::granularity;
    return (bytes + step - 1) / step * step;
  }

  /// Samples in the tiles that num_samples samples occupy, padding included.
  static std::size_t num_slots(int num_samples, int tile_samples) {
    return static_cast<std::size_t>((num_samples + tile_samples - 1) / tile_samples) *
           static_cast<std::size_t>(tile_samples);
  }

  std::vector<Part> parts_of(std::size_t layer, int num_samples) const {
    auto const& bounds = slices_->whole(layer).bounds;
    std::vector<Part> parts;
    std::size_t place = 0;
    for (std::size_t rank = 0; rank + 1 < bounds.size(); ++rank) {
      Part part{};
      part.first_neuron = static_cast<int>(bounds[rank]);
      part.num_neurons = static_cast<int>(bounds[rank + 1] - bounds[rank]);
      part.tile_samples = tile_samples_[rank * slices_->num_layers() + layer];
      part.num_positions = part.num_neurons == 0 ? 0 : num_slots(num_samples, part.tile_samples);
      part.stamps = place;
      part.activations = part.stamps + padded(part.num_positions * sizeof(int));
      place = part.end = part.activations + padded(activation_bytes(part));
      parts.push_back(part);
    }
    return parts;
  }

  std::size_t activation_bytes(Part const& part) const {
    return part.num_positions * static_cast<std::size_t>(part.num_neurons) * kernels_->scalar_bytes();
  }

  /// Copies the parts of all ranks to the device of this rank.
  void exchange(Stream const& stream, Panel const& panel, std::vector<Part> const& parts) {
    Part const& own = parts[exchange_->rank()];
    std::size_t const end = parts.back().end;
    VARVE_REQUIRE(end <= parts_.size(), "parts larger than planned");
    std::vector<std::size_t> sizes;
    for (auto const& part : parts) sizes.push_back(part.end - part.stamps);
    bytes_received_ += static_cast<double>(end - (own.end - own.stamps));
    put_own(stream, panel, own);
    exchange_->gather_parts(is_direct_ ? parts_.data() : staged_.data(), sizes);
    if (!is_direct_) stream.copy_to_device(parts_.data(), staged_.data(), end);
  }

  void put_own(Stream const& stream, Panel const& panel, Part const& own) const {
    auto const put = [&](void const* from, std::size_t place, std::size_t bytes) {
      if (is_direct_) stream.copy_on_device(parts_.data() + place, from, bytes);
      if (!is_direct_) stream.copy_to_host(staged_.data() + place, from, bytes);
    };
    if (own.num_positions > 0) {
      put(panel.arrays().live_stamps, own.stamps, own.num_positions * sizeof(int));
      put(panel.arrays().source, own.activations, activation_bytes(own));
    }
    stream.fence("varve: own part is in its place");
  }

  void join(Stream const& stream, Panel& panel, std::vector<Part> const& parts, std::size_t layer,
            int tile_samples) const {
    auto const num_outputs = static_cast<int>(slices_->whole(layer).num_outputs());
    for (auto const& part : parts) {
      auto const* const stamps = reinterpret_cast<int const*>(parts_.data() + part.stamps);
      kernels_->join_part(stream, panel,
                          {parts_.data() + part.activations, stamps, part.num_positions, part.first_neuron,
                           part.num_neurons, part.tile_samples},
                          num_outputs, tile_samples);
    }
    panel.advance(num_outputs, tile_samples);
  }

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
