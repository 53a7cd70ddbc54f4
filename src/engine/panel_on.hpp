#pragma once

#include "core/device_stream.hpp"
#include "core/execution.hpp"
#include "engine/panel.hpp"
#include "kernels/binary_samples.hpp"
#include "kernels/equal_samples.hpp"
#include "kernels/join_neurons.hpp"
#include "kernels/live_samples.hpp"
#include "kernels/samples.hpp"
#include "kernels/tile.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>

namespace varve {

/// A panel with its arrays on the device of an execution space.
template <class ExecutionSpace, class Scalar>
class PanelOn final : public Panel {
public:
  explicit PanelOn(Size const& size) {
    auto const [max_samples, max_neurons, max_lists, num_bits, finds_equal] = size;
    std::size_t const slots = slots_of(max_samples);
    for (auto& buffer : buffers_) allocate(buffer, "varve::panel", slots * max_neurons);
    for (auto& ids : ids_) allocate(ids, "varve::sample_ids", slots);
    for (auto& from_slot : from_slot_) allocate(from_slot, "varve::from_slot", slots);
    allocate(live_stamps_, "varve::live_stamps", slots);
    allocate(unsaturated_stamps_, "varve::unsaturated_stamps", slots);
    allocate(saturated_ids_, "varve::saturated_ids", slots);
    allocate(counts_, "varve::live_counts", max_lists + 2); // one before the first list, one for saturated samples
    allocate(bits_, "varve::sample_bits", slots / SampleBits<Scalar>::samples_per_word * num_bits);
    if (!finds_equal) return;
    allocate(hashes_, "varve::sample_hashes", slots);
    allocate(hash_table_, "varve::hash_table", std::bit_ceil(2 * slots));
    allocate(candidate_, "varve::candidate", slots);
    allocate(represented_by_, "varve::represented_by", slots);
    allocate(is_worth_it_, "varve::equal_samples_found", 1);
  }

  /// Starts a run; expand() writes the samples to tiles.
  void start(Stream const& stream, SamplesOnDevice const& samples) override {
    auto const& space = instance_of<ExecutionSpace>(stream);
    set_samples(samples);
    run_ = {.current_list = run_.current_list, .max_samples = samples.num_samples, .num_neurons = samples.num_neurons};
    int const length = static_cast<int>(std::max(counts_.size(), slots_of(static_cast<std::size_t>(run_.max_samples))));
    auto const start = [&](auto const& range) {
      Kokkos::parallel_for("varve::start_panel", range,
                           StartPanel{ids_[0], live_stamps_, unsaturated_stamps_, counts_, run_.max_samples,
                                      static_cast<int>(counts_.size()), represented_by_, is_worth_it_});
    };
    constexpr int short_range = 8192; // one thread is faster than starting others
    if (length > short_range) {
      start(Kokkos::RangePolicy<ExecutionSpace>(space, 0, length));
    } else {
      start(in_short_space(space, length));
    }
  }

  DeviceSamples<ExecutionSpace, Scalar> const& samples() const { return samples_; }

  /// Converts samples() to bits.
  SampleBits<Scalar> set_bits(ExecutionSpace const& space) {
    SampleBits<Scalar> const bits{bits_, samples_.num_neurons, samples_.values};
    set_sample_bits(space, samples_, bits);
    return bits;
  }

  /// Writes samples() to tiles of this shape.
  template <class Tile>
  void expand(ExecutionSpace const& space) {
    expand_samples<ExecutionSpace, Tile>(space, samples_, buffers_[run_.current]);
    run_.tile_samples = Tile::num_samples;
  }

  /// Call after a launch that appended the samples it kept to target(), in tiles of tile_samples samples, and counted
  /// them in next_count().
  void advance_compacted(ExecutionSpace const& space, int num_neurons, int tile_samples) {
    advance(num_neurons, tile_samples);
    ++run_.num_lists;
    learn_count(space);
  }

  void list_live(Stream const& stream) override { list_live(instance_of<ExecutionSpace>(stream)); }
  void list_live(ExecutionSpace const& space) { list(space, {}); }

  int count_live(Stream const& stream) const override {
    int live = 0;
    Kokkos::parallel_reduce(
        "varve::count_live",
        Kokkos::RangePolicy<ExecutionSpace>(instance_of<ExecutionSpace>(stream), 0, run_.max_samples),
        CountLive{live_stamps_, run_.stamp}, live);
    return live;
  }

  /// list_live() that moves live samples whose activations all equal `cap` to the list of saturated samples.
  void list_live_and_saturated(ExecutionSpace const& space, Scalar cap) {
    find_saturated(space,
                   FindSaturated<ExecutionSpace, Scalar>{source(), run_.tile_samples, num_samples(), run_.num_neurons,
                                                         cap, unsaturated_stamps_, run_.stamp},
                   run_.max_samples);
    list(space, unsaturated_stamps_);
  }

  /// Lists one sample of each set of samples that are equal in all bits; it then represents the others. Does nothing
  /// unless Size::finds_equal was set.
  void list_distinct(ExecutionSpace const& space) {
    if (represented_by_.size() == 0 || run_.max_samples == 0) return;
    run_.seeks_equal = true;
    EqualSamples const equal{hashes_,    hash_table_,  static_cast<int>(hash_table_.size()) - 1,
                             candidate_, is_worth_it_, represented_by_};
    list_distinct_samples(
        space, PanelPositions<Scalar>{source(), run_.tile_samples, run_.num_neurons, from_slot(), num_samples()},
        ListDistinctSamples<ExecutionSpace>{num_samples(), next_count(), live_stamps_, ++run_.stamp, ids(), next_ids(),
                                            from_slot(), from_slot_[1 - run_.current_list], equal, run_.max_samples},
        live_stamps_);
    run_.current_list = 1 - run_.current_list;
    ++run_.num_lists;
    learn_count(space);
    run_.is_listed = true;
  }

  /// Compacts all samples into consecutive slots of tiles of tile_samples samples, unless they are there already.
  void compact(ExecutionSpace const& space, int tile_samples) {
    if (!run_.is_listed && tile_samples == run_.tile_samples) return;
    move_live_samples(space,
                      MoveLiveSamples<ExecutionSpace, Scalar>{source(), target(), run_.tile_samples, tile_samples,
                                                              num_samples(), from_slot(), run_.num_neurons, 0},
                      run_.max_samples);
    advance(run_.num_neurons, tile_samples);
  }

  /// The arrays for a kernel that computes one layer for all samples, with a new stamp for live samples.
  LayerPass<Scalar> next_pass() {
    ++run_.stamp;
    return same_pass();
  }
  /// The arrays of the last next_pass(), for another strip of its layer.
  LayerPass<Scalar> same_pass() const {
    return {source(),      run_.tile_samples, from_slot(),  target(),
            num_samples(), run_.max_samples,  live_stamps_, run_.stamp};
  }

  int count_samples(Stream const& stream) const override {
    auto const& space = instance_of<ExecutionSpace>(stream);
    int count = 0;
    Kokkos::View<int const, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged> const on_device(
        num_samples().data());
    Kokkos::deep_copy(space, Kokkos::View<int, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(&count), on_device);
    space.fence("varve: is anybody left");
    return count;
  }

  Arrays arrays() const override {
    return {buffers_[run_.current].data(), live_stamps_.data(),     counts_.data(), ids().data(),
            saturated_ids_.data(),         represented_by().data(), counts_.size()};
  }

  ArrayView<Scalar const> source() const { return buffers_[run_.current]; }
  /// source() for a launch that overwrites it after reading it.
  ArrayView<Scalar> reusable_source() { return buffers_[run_.current]; }
  ArrayView<Scalar> target() const { return buffers_[1 - run_.current]; }
  /// Position -> slot; empty: position p is slot p.
  ArrayView<int const> from_slot() const {
    return run_.is_listed ? ArrayView<int const>(from_slot_[run_.current_list]) : ArrayView<int const>();
  }
  ArrayView<int> live_stamps() const { return live_stamps_; }
  /// num_samples(), next_count(): one element each, on the device.
  ArrayView<int const> num_samples() const { return part_of(counts_, static_cast<std::size_t>(run_.num_lists), 1); }
  ArrayView<int> next_count() const { return part_of(counts_, static_cast<std::size_t>(run_.num_lists) + 1, 1); }
  ArrayView<int const> ids() const { return ids_[run_.num_lists % 2]; }
  ArrayView<int> next_ids() const { return ids_[1 - run_.num_lists % 2]; }
  SaturatedSamples saturated() const { return {saturated_ids_, part_of(counts_, counts_.size() - 1)}; }

  /// By sample: the sample that represents it, or itself; empty if equal samples have not been searched in this run.
  ArrayView<int const> represented_by() const {
    return run_.seeks_equal ? ArrayView<int const>(represented_by_) : ArrayView<int const>();
  }

private:
  template <class Number>
  using Const = ConstDeviceArray<ExecutionSpace, Number>;

  void set_samples(SamplesOnDevice const& samples) override {
    std::size_t const num_values = samples.value_stride == 0 ? 1 : samples.num_entries;
    samples_ = {samples.num_samples,
                samples.num_neurons,
                Const<EdgeOffset>(samples.row_pointers, static_cast<std::size_t>(samples.num_samples) + 1),
                Const<NeuronIndex>(samples.columns, samples.num_entries),
                Const<Scalar>(static_cast<Scalar const*>(samples.values), num_values),
                samples.value_stride};
  }

  /// Allocates zeros: kernels compute whole tiles, and values past the last sample must be finite.
  template <class Array>
  static void allocate(Array& array, char const* label, std::size_t size) {
    array = Array(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label)), size);
    device_memory(to_backend<ExecutionSpace>()).clear_and_wait(array.data(), size * sizeof(typename Array::value_type));
  }

  void list(ExecutionSpace const& space, ArrayView<int const> const& unsaturated_stamps) {
    if (run_.max_samples > 0) {
      list_live_samples(space, ListLiveSamples<ExecutionSpace>{num_samples(), next_count(), live_stamps_, run_.stamp,
                                                               ids(), next_ids(), from_slot_[run_.current_list],
                                                               run_.max_samples, unsaturated_stamps, saturated()});
    }
    ++run_.num_lists;
    learn_count(space);
    run_.is_listed = true;
  }

  void learn_count(ExecutionSpace const& space) {
    if constexpr (kOnHost<ExecutionSpace>) {
      space.fence("varve: count live samples");
      run_.max_samples = counts_(static_cast<std::size_t>(run_.num_lists));
    }
  }

  DeviceSamples<ExecutionSpace, Scalar> samples_;
  DeviceArray<ExecutionSpace, Scalar> buffers_[2];
  DeviceArray<ExecutionSpace, int> ids_[2];
  DeviceArray<ExecutionSpace, int> from_slot_[2]; ///< the present list, and room for the next one
  DeviceArray<ExecutionSpace, int> live_stamps_;
  DeviceArray<ExecutionSpace, int> unsaturated_stamps_;
  DeviceArray<ExecutionSpace, int> saturated_ids_;
  DeviceArray<ExecutionSpace, int> counts_; ///< samples after each list; last element: samples that left saturated
  DeviceArray<ExecutionSpace, std::uint32_t> bits_;
  DeviceArray<ExecutionSpace, std::uint64_t> hashes_; ///< arrays of EqualSamples: from here to is_worth_it_
  DeviceArray<ExecutionSpace, int> hash_table_;
  DeviceArray<ExecutionSpace, int> candidate_;
  DeviceArray<ExecutionSpace, int> represented_by_;
  DeviceArray<ExecutionSpace, int> is_worth_it_;
};

} // namespace varve
