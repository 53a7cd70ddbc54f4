#pragma once

#include "core/execution.hpp"
#include "kernels/live_samples.hpp"
#include "kernels/samples.hpp"
#include "kernels/saturation.hpp"
#include "kernels/tile.hpp"

#include <cstddef>
#include <string>
#include <utility>

namespace varve {

/// The activations of a batch on a device: two buffers of tiles, which sample stands at each position, and how many
/// positions there are. After a list of live samples has been made, position p is found in slot from_slot(p), else in
/// slot p. Counts stay on the device; the host knows upper bounds (exact ones where it shares memory).
template <class ExecutionSpace, class Scalar>
class Panel {
public:
  static constexpr std::size_t slot_granularity = 64; ///< every tile's number of samples divides it

  Panel() = default;

  /// Room for `max_samples` samples of at most `max_neurons` activations, listed or packed at most `max_lists` times a
  /// run.
  Panel(std::size_t max_samples, std::size_t max_neurons, std::size_t max_lists) {
    auto const room = [](char const* label) {
      return Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label));
    };
    std::size_t const slots = slots_of(max_samples);
    for (auto& buffer : buffers_)
      buffer = DeviceArray<ExecutionSpace, Scalar>(room("varve::panel"), slots * max_neurons);
    for (auto& ids : ids_) ids = DeviceArray<ExecutionSpace, int>(room("varve::sample_ids"), slots);
    from_slot_ = DeviceArray<ExecutionSpace, int>(room("varve::from_slot"), slots);
    live_stamps_ = DeviceArray<ExecutionSpace, int>(room("varve::live_stamps"), slots);
    open_stamps_ = DeviceArray<ExecutionSpace, int>(room("varve::open_stamps"), slots);
    done_ids_ = DeviceArray<ExecutionSpace, int>(room("varve::done_ids"), slots);
    counts_ = DeviceArray<ExecutionSpace, int>(room("varve::live_counts"), max_lists + 2); // and of those done
  }

  /// Bytes that a panel of this size takes.
  static std::size_t bytes(std::size_t max_samples, std::size_t max_neurons) {
    return slots_of(max_samples) * (2 * max_neurons * sizeof(Scalar) + 6 * sizeof(int));
  }

  /// Starts a run on these samples, which are not in the tiles yet: see expand().
  void start(ExecutionSpace const& space, DeviceSamples<ExecutionSpace, Scalar> const& samples) {
    samples_ = samples;
    current_ = 0;
    num_lists_ = 0;
    stamp_ = 0;
    max_samples_ = samples.num_samples;
    num_neurons_ = samples.num_neurons;
    tile_samples_ = 0;
    is_listed_ = false;
    int const length = static_cast<int>(std::max(counts_.size(), slots_of(static_cast<std::size_t>(max_samples_))));
    Kokkos::parallel_for("varve::start_panel", Kokkos::RangePolicy<ExecutionSpace>(space, 0, length),
                         StartPanel{ids_[0].data(), live_stamps_.data(), open_stamps_.data(), counts_.data(),
                                    max_samples_, static_cast<int>(counts_.size())});
  }

  /// The samples of this run, if they have not been brought into tiles.
  bool is_expanded() const { return tile_samples_ != 0; }
  DeviceSamples<ExecutionSpace, Scalar> const& samples() const { return samples_; }

  /// Brings the samples into tiles of this shape.
  template <class Tile>
  void expand(ExecutionSpace const& space) {
    expand_samples<ExecutionSpace, Tile>(space, samples_, buffers_[current_].data());
    tile_samples_ = Tile::num_samples;
  }

  /// After a launch that read source() and wrote target(), position by position, in tiles of this many samples.
  void advance(int num_neurons, int tile_samples) {
    current_ = 1 - current_;
    num_neurons_ = num_neurons;
    tile_samples_ = tile_samples;
    is_listed_ = false;
  }

  /// After a launch that appended the samples it kept to target(), in tiles of this many samples, and counted them in
  /// next_count().
  void advance_packed(ExecutionSpace const& space, int num_neurons, int tile_samples) {
    advance(num_neurons, tile_samples);
    ++num_lists_;
    learn_count(space);
  }

  /// Lists the live samples (those stamped last), who alone have positions from now on. Call only after advance().
  void list_live(ExecutionSpace const& space) { list(space, nullptr); }

  /// The same, but live samples whose activations all equal `cap` are done and lose their positions too.
  void list_live_and_done(ExecutionSpace const& space, Scalar cap) {
    find_saturated(space,
                   FindSaturated<ExecutionSpace, Scalar>{source(), tile_samples_, num_samples(), num_neurons_, cap,
                                                         open_stamps_.data(), stamp_},
                   max_samples_);
    list(space, open_stamps_.data());
  }

  /// Brings all samples into slots in order, in tiles of this many samples, unless they are.
  void pack(ExecutionSpace const& space, int tile_samples) {
    if (!is_listed_ && tile_samples == tile_samples_) return;
    move_live_samples(space,
                      MoveLiveSamples<ExecutionSpace, Scalar>{source(), target(), tile_samples_, tile_samples,
                                                              num_samples(), from_slot(), num_neurons_, 0},
                      max_samples_);
    advance(num_neurons_, tile_samples);
  }

  /// What a kernel reads and writes that takes all samples through one layer. It stamps the live ones.
  LayerPass<Scalar> next_pass() {
    return {source(), tile_samples_, from_slot(), target(), num_samples(), max_samples_, live_stamps_.data(), ++stamp_};
  }

  Scalar const* source() const { return buffers_[current_].data(); }
  Scalar* target() const { return buffers_[1 - current_].data(); }
  int const* from_slot() const { return is_listed_ ? from_slot_.data() : nullptr; }
  int const* num_samples() const { return counts_.data() + num_lists_; }
  int* next_count() const { return counts_.data() + num_lists_ + 1; }
  int const* ids() const { return ids_[num_lists_ % 2].data(); }
  int* next_ids() const { return ids_[1 - num_lists_ % 2].data(); }
  int max_samples() const { return max_samples_; }
  int num_neurons() const { return num_neurons_; }
  int tile_samples() const { return tile_samples_; }
  int num_lists() const { return num_lists_; }
  DoneSamples done() const { return {done_ids_.data(), counts_.data() + counts_.size() - 1}; }
  DeviceArray<ExecutionSpace, int> const& counts() const { return counts_; }

private:
  static std::size_t slots_of(std::size_t samples) {
    return (samples + slot_granularity - 1) / slot_granularity * slot_granularity;
  }

  void list(ExecutionSpace const& space, int const* open_stamps) {
    if (max_samples_ > 0) {
      list_live_samples(space, ListLiveSamples<ExecutionSpace>{num_samples(), next_count(), live_stamps_.data(), stamp_,
                                                               ids(), next_ids(), from_slot_.data(), max_samples_,
                                                               open_stamps, done()});
    }
    ++num_lists_;
    learn_count(space);
    is_listed_ = true;
  }

  void learn_count(ExecutionSpace const& space) {
    if constexpr (kOnHost<ExecutionSpace>) {
      space.fence("varve: count live samples");
      max_samples_ = counts_(static_cast<std::size_t>(num_lists_));
    }
  }

  DeviceSamples<ExecutionSpace, Scalar> samples_;
  DeviceArray<ExecutionSpace, Scalar> buffers_[2];
  DeviceArray<ExecutionSpace, int> ids_[2];
  DeviceArray<ExecutionSpace, int> from_slot_;
  DeviceArray<ExecutionSpace, int> live_stamps_;
  DeviceArray<ExecutionSpace, int> open_stamps_;
  DeviceArray<ExecutionSpace, int> done_ids_;
  DeviceArray<ExecutionSpace, int> counts_; ///< samples after each list; the last: samples that are done
  int current_ = 0;
  int num_lists_ = 0;
  int stamp_ = 0;
  int max_samples_ = 0;
  int num_neurons_ = 0;
  int tile_samples_ = 0; ///< 0 before the samples are in tiles
  bool is_listed_ = false;
};

} // namespace varve
