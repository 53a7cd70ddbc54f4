#pragma once

#include "core/execution.hpp"
#include "kernels/live_samples.hpp"
#include "kernels/samples.hpp"
#include "kernels/tile.hpp"

#include <cstddef>
#include <string>
#include <utility>

namespace varve {

/// The activations of a batch on a device: two buffers of tiles, which sample each slot holds, and how many slots are
/// held. All counts stay on the device; the host knows upper bounds (exact ones where it shares memory).
template <class ExecutionSpace, class Tile_>
class Panel {
public:
  using Tile = Tile_;
  using Scalar = typename Tile::Scalar;

  Panel() = default;

  /// Room for `max_samples` samples of at most `max_neurons` activations, compacted at most `max_compactions` times a
  /// run.
  Panel(std::size_t max_samples, std::size_t max_neurons, std::size_t max_compactions) {
    auto const room = [](char const* label) {
      return Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label));
    };
    for (auto& buffer : buffers_) {
      buffer = DeviceArray<ExecutionSpace, Scalar>(room("varve::panel"), values_of(max_samples, max_neurons));
    }
    for (auto& ids : ids_) ids = DeviceArray<ExecutionSpace, int>(room("varve::sample_ids"), slots_of(max_samples));
    from_slot_ = DeviceArray<ExecutionSpace, int>(room("varve::from_slot"), slots_of(max_samples));
    live_stamps_ = DeviceArray<ExecutionSpace, int>(room("varve::live_stamps"), slots_of(max_samples));
    counts_ = DeviceArray<ExecutionSpace, int>(room("varve::live_counts"), max_compactions + 1);
  }

  /// Bytes that a panel of this size takes.
  static std::size_t bytes(std::size_t max_samples, std::size_t max_neurons) {
    return 2 * values_of(max_samples, max_neurons) * sizeof(Scalar) + 4 * slots_of(max_samples) * sizeof(int);
  }

  /// Starts a run: fills the tiles from sparse samples.
  void load(ExecutionSpace const& space, DeviceSamples<ExecutionSpace, Scalar> const& samples) {
    current_ = 0;
    num_compactions_ = 0;
    stamp_ = 0;
    max_slots_ = samples.num_samples;
    num_neurons_ = samples.num_neurons;
    Kokkos::deep_copy(space, Kokkos::subview(counts_, 0), max_slots_);
    Kokkos::deep_copy(space, live_stamps_, 0);
    auto const ids = ids_[0];
    Kokkos::parallel_for("varve::number_samples", Kokkos::RangePolicy<ExecutionSpace>(space, 0, max_slots_),
                         NumberSamples{ids.data()});
    expand_samples<ExecutionSpace, Tile>(space, samples, buffers_[current_].data());
  }

  /// Called by a kernel launch that read source() and wrote target() with num_neurons per sample.
  void advance(int num_neurons) {
    current_ = 1 - current_;
    num_neurons_ = num_neurons;
  }

  /// Lists the live samples (those stamped last) and, if `move`, moves them together, so that the panel holds them
  /// only.
  void compact(ExecutionSpace const& space, bool move) {
    if (max_slots_ == 0) return;
    int const from = num_compactions_ % 2;
    list_live_samples(space, ListLiveSamples<ExecutionSpace>{num_slots(), counts_.data() + num_compactions_ + 1,
                                                             live_stamps_.data(), stamp_, ids_[from].data(),
                                                             ids_[1 - from].data(), from_slot_.data(), max_slots_});
    ++num_compactions_;
    if constexpr (kOnHost<ExecutionSpace>) {
      space.fence("varve: count live samples");
      max_slots_ = counts_(static_cast<std::size_t>(num_compactions_));
    }
    if (move) {
      move_live_samples<ExecutionSpace, Tile>(space, source(), target(), num_slots(), from_slot_.data(), max_slots_,
                                              num_neurons_);
      current_ = 1 - current_;
    }
  }

  /// A stamp that no kernel has used in this run.
  int next_stamp() { return ++stamp_; }

  Scalar const* source() const { return buffers_[current_].data(); }
  Scalar* target() const { return buffers_[1 - current_].data(); }
  int const* num_slots() const { return counts_.data() + num_compactions_; }
  int max_slots() const { return max_slots_; }
  int* live_stamps() const { return live_stamps_.data(); }
  int const* ids() const { return ids_[num_compactions_ % 2].data(); }
  int const* from_slot() const { return from_slot_.data(); }
  int num_neurons() const { return num_neurons_; }
  int num_compactions() const { return num_compactions_; }
  DeviceArray<ExecutionSpace, int> const& counts() const { return counts_; }

private:
  struct NumberSamples {
    int* ids;
    KOKKOS_FUNCTION void operator()(int slot) const { ids[slot] = slot; }
  };

  static std::size_t slots_of(std::size_t samples) {
    return (samples + Tile::num_samples - 1) / Tile::num_samples * Tile::num_samples;
  }
  static std::size_t values_of(std::size_t samples, std::size_t neurons) { return slots_of(samples) * neurons; }

  DeviceArray<ExecutionSpace, Scalar> buffers_[2];
  DeviceArray<ExecutionSpace, int> ids_[2];
  DeviceArray<ExecutionSpace, int> from_slot_;
  DeviceArray<ExecutionSpace, int> live_stamps_;
  DeviceArray<ExecutionSpace, int> counts_; ///< samples held after each compaction
  int current_ = 0;
  int num_compactions_ = 0;
  int stamp_ = 0;
  int max_slots_ = 0;
  int num_neurons_ = 0;
};

} // namespace varve
