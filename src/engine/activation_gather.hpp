#pragma once

#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/stopwatch.hpp"
#include "engine/activation_exchange.hpp"
#include "engine/layer_slices.hpp"
#include "engine/panel.hpp"
#include "kernels/join_neurons.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace varve {

/// Runs with neurons split across ranks: after every layer, joins the parts that the ranks have computed to the whole
/// panel. A rank's part is the live stamp of each position, then the tiles of its outputs, both padded to the
/// exchange's granularity. Parts go from device to device if the exchange can access device memory, else through pinned
/// host memory. All ranks know the number of positions, so sizes need not be sent.
template <class ExecutionSpace, class Scalar>
class ActivationGather {
public:
  using PanelType = Panel<ExecutionSpace, Scalar>;

  /// Both must outlive this object.
  ActivationGather(LayerSlices const& slices, ActivationExchange& exchange)
      : slices_(&slices),
        exchange_(&exchange),
        is_direct_(kOnHost<ExecutionSpace> || exchange.reaches_memory_of(to_backend<ExecutionSpace>())) {}

  /// Bytes on the device for the parts of all ranks, for this many samples and neurons of the widest layer.
  std::size_t bytes(std::size_t max_samples, std::size_t max_neurons) const {
    std::size_t const slots = PanelType::slots_of(max_samples);
    auto const ranks = static_cast<std::size_t>(exchange_->num_ranks());
    std::size_t const padding = 2 * ActivationExchange::granularity;
    return slots * max_neurons * sizeof(Scalar) + ranks * (slots * sizeof(int) + padding);
  }

  /// Allocates the buffers of bytes(max_samples, max_neurons).
  void allocate(std::size_t max_samples, std::size_t max_neurons) {
    auto const room = [](char const* label) {
      return Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label));
    };
    parts_ = decltype(parts_)();
    staged_ = decltype(staged_)();
    parts_ = decltype(parts_)(room("varve::parts"), bytes(max_samples, max_neurons));
    if (!is_direct_) staged_ = decltype(staged_)(room("varve::staged_parts"), parts_.size());
  }

  /// Begins a run. tile_samples: by layer, samples of the tiles that this rank's kernels write. Collective.
  void start(std::vector<int> const& tile_samples) {
    seconds_ = bytes_received_ = 0.0;
    if (!tile_samples_.empty()) return; // the same in every run
    std::vector<std::uint64_t> const own(tile_samples.begin(), tile_samples.end());
    for (auto const samples : exchange_->gather(own)) tile_samples_.push_back(static_cast<int>(samples));
  }

  /// To be called after a layer: replaces this rank's neurons in the panel by those of all ranks, in tiles of
  /// `tile_samples`. keeps_dead: dead samples stay in the panel, because a later layer may revive them. Collective;
  /// fences.
  void gather(ExecutionSpace const& space, PanelType& panel, std::size_t layer, int tile_samples, bool keeps_dead) {
    ProfilingRegion const region("varve::exchange");
    space.fence("varve: before the exchange");
    Stopwatch const time;
    bool const is_last = layer + 1 == slices_->num_layers();
    auto const parts = parts_of(layer, panel.max_samples());
    exchange(space, panel, parts);
    join(space, panel, parts, layer, tile_samples);
    int live = 0;
    Kokkos::parallel_reduce("varve::count_live", Kokkos::RangePolicy<ExecutionSpace>(space, 0, panel.max_samples()),
                            CountLive{panel.live_stamps(), panel.stamp()}, live);
    bool const may_list = layer > 0 && !keeps_dead; // a first layer that reads bits stamps no live samples
    if (is_last || (may_list && is_worth_it(live, panel.max_samples()))) {
      panel.list_live(space);
      panel.limit(live);
    }
    seconds_ += time.seconds();
  }

  /// Since start(): seconds in gather(), which includes waiting for the slowest rank, and bytes from other ranks.
  double seconds() const { return seconds_; }
  double bytes_received() const { return bytes_received_; }

private:
  /// True if listing the live samples saves an eighth of the slots or more. With a list the next kernel compacts, which
  /// costs about as much as a join.
  static bool is_worth_it(int live, int held) {
    auto const slots = [](int samples) { return PanelType::slots_of(static_cast<std::size_t>(samples)); };
    return 8 * slots(live) <= 7 * slots(held);
  }

  using Bytes = DeviceArray<ExecutionSpace, std::byte>;
  using StagedBytes = Kokkos::View<std::byte*, Kokkos::SharedHostPinnedSpace>;

  /// The place of a rank's part of a layer within the parts of all ranks.
  struct Part {
    std::size_t stamps, activations; ///< first bytes of its stamps and tiles within the parts of all ranks
    std::size_t end;                 ///< first byte behind it
    int first_neuron, num_neurons, tile_samples;
    std::size_t num_positions; ///< all slots of its tiles, including those past the last sample
  };

  static std::size_t padded(std::size_t bytes) {
    std::size_t const step = ActivationExchange::granularity;
    return (bytes + step - 1) / step * step;
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
      part.num_positions = part.num_neurons == 0 ? 0
                                                 : static_cast<std::size_t>(num_tiles(num_samples, part.tile_samples)) *
                                                       static_cast<std::size_t>(part.tile_samples);
      part.stamps = place;
      part.activations = part.stamps + padded(part.num_positions * sizeof(int));
      place = part.end = part.activations + padded(activation_bytes(part));
      parts.push_back(part);
    }
    return parts;
  }

  static std::size_t activation_bytes(Part const& part) {
    return part.num_positions * static_cast<std::size_t>(part.num_neurons) * sizeof(Scalar);
  }

  /// Copies the parts of all ranks to the device of this rank.
  void exchange(ExecutionSpace const& space, PanelType const& panel, std::vector<Part> const& parts) {
    Part const& own = parts[static_cast<std::size_t>(exchange_->rank())];
    std::size_t const end = parts.back().end;
    VARVE_REQUIRE(end <= parts_.size(), "parts larger than planned");
    std::vector<std::size_t> sizes;
    for (auto const& part : parts) sizes.push_back(part.end - part.stamps);
    bytes_received_ += static_cast<double>(end - (own.end - own.stamps));
    if constexpr (!kOnHost<ExecutionSpace>) {
      if (!is_direct_) {
        put_own(space, panel, own, staged_);
        exchange_->gather_parts(staged_.data(), sizes);
        auto const all = std::make_pair(std::size_t(0), end);
        Kokkos::deep_copy(space, Kokkos::subview(parts_, all), Kokkos::subview(staged_, all));
        return;
      }
    }
    put_own(space, panel, own, parts_);
    exchange_->gather_parts(parts_.data(), sizes);
  }

  template <class Parts>
  static void put_own(ExecutionSpace const& space, PanelType const& panel, Part const& own, Parts const& parts) {
    auto const put = [&](void const* from, std::size_t place, std::size_t bytes) {
      using From = Kokkos::View<std::byte const*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;
      Kokkos::deep_copy(space, Kokkos::subview(parts, std::make_pair(place, place + bytes)),
                        From(static_cast<std::byte const*>(from), bytes));
    };
    if (own.num_positions > 0) {
      put(panel.live_stamps().data(), own.stamps, own.num_positions * sizeof(int));
      put(panel.source().data(), own.activations, activation_bytes(own));
    }
    space.fence("varve: own part is in its place");
  }

  void join(ExecutionSpace const& space, PanelType& panel, std::vector<Part> const& parts, std::size_t layer,
            int tile_samples) const {
    auto const num_outputs = static_cast<int>(slices_->whole(layer).num_outputs());
    for (auto const& part : parts) {
      JoinNeurons<ExecutionSpace, Scalar> kernel{};
      kernel.part = {
          array_in<Scalar>(parts_, part.activations, part.num_positions * static_cast<std::size_t>(part.num_neurons)),
          array_in<int>(parts_, part.stamps, part.num_positions), part.first_neuron, part.num_neurons,
          part.tile_samples};
      kernel.target = panel.target();
      kernel.num_neurons = num_outputs;
      kernel.tile_samples = tile_samples;
      kernel.num_slots = panel.max_samples();
      kernel.live_stamps = panel.live_stamps();
      kernel.stamp = panel.stamp();
      join_neurons(space, kernel);
    }
    panel.advance(num_outputs, tile_samples);
  }

  LayerSlices const* slices_;
  ActivationExchange* exchange_;
  bool is_direct_;
  Bytes parts_;                   ///< the parts of all ranks, on the device
  StagedBytes staged_;            ///< the same parts in host memory if the exchange cannot access the device
  std::vector<int> tile_samples_; ///< [rank][layer]
  double seconds_ = 0.0;
  double bytes_received_ = 0.0;
};

} // namespace varve
