#pragma once

#include "core/execution.hpp"
#include "core/host_threads.hpp"
#include "kernels/samples.hpp"
#include "network/sample_set.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace varve {

/// Samples on their way to the device: through pinned memory and by a stream of their own into one of two places there,
/// so that those of the next batch can come, on another thread, while one is computed.
template <class ExecutionSpace, class Scalar>
class SampleStage {
public:
  using OnDevice = DeviceSamples<ExecutionSpace, Scalar>;
  static constexpr std::size_t num_places = 2;

  SampleStage() {
    if constexpr (!kOnHost<ExecutionSpace>) copy_space_ = Kokkos::Experimental::partition_space(ExecutionSpace(), 1)[0];
  }

  /// Brings samples to the device, unless both places are taken; on any thread. The samples may be moved, but not
  /// copied, before they are taken.
  void stage(SampleSet const& samples) {
    std::size_t place = 0;
    {
      std::unique_lock lock(guard_);
      changed_.wait(lock, [this] { return !is_staging_; });
      if (num_staged_ == num_places) return;
      place = (first_ + num_staged_) % num_places; // whatever is released meanwhile
      is_staging_ = true;
    }
    try {
      fill(places_[place], samples);
    } catch (...) {
      finish_staging(0);
      throw;
    }
    finish_staging(1);
  }

  /// These samples on the device, where they stay until release(): already staged, or brought now. Others that were
  /// staged before them are given up.
  OnDevice take(SampleSet const& samples) {
    Place const* staged = nullptr;
    while ((staged = find(samples)) == nullptr) stage(samples);
    return staged->samples;
  }

  void release() {
    std::lock_guard const lock(guard_);
    give_up_first();
  }

private:
  template <class T>
  using HostArray = Kokkos::View<T*, Kokkos::SharedHostPinnedSpace>;

  struct Place {
    OnDevice samples;
    EdgeOffset const* key = nullptr; ///< whose they are: where their row pointers lie on the host
    DeviceArray<ExecutionSpace, EdgeOffset> row_pointers;
    DeviceArray<ExecutionSpace, NeuronIndex> columns;
    DeviceArray<ExecutionSpace, Scalar> values;
  };

  Place const* find(SampleSet const& samples) {
    std::unique_lock lock(guard_);
    for (;;) {
      while (num_staged_ > 0 && places_[first_].key != samples.matrix.row_pointers.data()) give_up_first();
      if (num_staged_ > 0) return &places_[first_];
      if (!is_staging_) return nullptr;
      changed_.wait(lock, [this] { return !is_staging_; });
    }
  }

  void give_up_first() {
    places_[first_].key = nullptr;
    first_ = (first_ + 1) % num_places;
    --num_staged_;
  }

  void finish_staging(std::size_t num_more) {
    {
      std::lock_guard const lock(guard_);
      is_staging_ = false;
      num_staged_ += num_more;
    }
    changed_.notify_all();
  }

  void fill(Place& place, SampleSet const& samples) {
    auto const& matrix = samples.matrix;
    place.key = matrix.row_pointers.data();
    place.samples.num_samples = static_cast<int>(matrix.num_rows);
    place.samples.num_neurons = static_cast<int>(matrix.num_columns);
    place.samples.row_pointers = bring(place.row_pointers, row_pointers_, matrix.row_pointers);
    place.samples.columns = bring(place.columns, columns_, matrix.column_indices);
    place.samples.values = bring(place.values, values_, matrix.values);
    place.samples.value_stride = matrix.values.size() == 1 ? 0 : 1;
    if constexpr (!kOnHost<ExecutionSpace>) copy_space_.fence("varve: samples have arrived");
  }

  /// Begins to bring numbers to the device, rounded to T. Arrays grow where they must.
  template <class T, class Number>
  ConstDeviceArray<ExecutionSpace, T> bring(DeviceArray<ExecutionSpace, T>& target, HostArray<T>& on_host,
                                            std::vector<Number> const& numbers) {
    grow(target, numbers.size());
    if constexpr (kOnHost<ExecutionSpace>) {
      copy(numbers, target.data());
    } else {
      using Source = Kokkos::View<T const*, Kokkos::SharedHostPinnedSpace, Kokkos::MemoryUnmanaged>;
      using Target = Kokkos::View<T*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;
      grow(on_host, numbers.size());
      copy(numbers, on_host.data());
      Kokkos::deep_copy(copy_space_, Target(target.data(), numbers.size()), Source(on_host.data(), numbers.size()));
    }
    return ConstDeviceArray<ExecutionSpace, T>(target.data(), numbers.size());
  }

  template <class Array>
  static void grow(Array& array, std::size_t size) {
    if (array.size() >= size) return;
    array = Array(); // the old one goes before the new one comes
    array = Array(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("varve::staged_samples")), size);
  }

  template <class Number, class T>
  static void copy(std::vector<Number> const& numbers, T* target) {
    constexpr std::size_t at_a_time = std::size_t(1) << 20U;
    for_each_on_host_threads((numbers.size() + at_a_time - 1) / at_a_time, [&](std::size_t part) {
      std::size_t const first = part * at_a_time;
      std::size_t const last = std::min(first + at_a_time, numbers.size());
      for (std::size_t i = first; i < last; ++i) target[i] = static_cast<T>(numbers[i]);
    });
  }

  ExecutionSpace copy_space_;
  HostArray<EdgeOffset> row_pointers_; ///< these three: on their way to a device
  HostArray<NeuronIndex> columns_;
  HostArray<Scalar> values_;
  std::mutex guard_; ///< of all that follows; a place that is being filled belongs to who fills it
  std::condition_variable changed_;
  std::array<Place, num_places> places_;
  std::size_t first_ = 0;
  std::size_t num_staged_ = 0; ///< and not released yet, from the first place on
  bool is_staging_ = false;
};

} // namespace varve
