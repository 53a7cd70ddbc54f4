#pragma once

#include "core/beside_recordings.hpp"
#include "core/execution.hpp"
#include "core/views.hpp"
#include "kernels/samples.hpp"

#include <cstddef>
#include <string>
#include <type_traits>

namespace varve {

/// Makes room for `count` numbers and a sixteenth more, because the next batch may have a few more. Loses the contents
/// if the array must grow. Does not wait for other instances than `space`, which must be the caller's own if other
/// threads use the default one: without it, Kokkos copies what it notes about new memory in the default instance.
template <class ExecutionSpace, class Array>
void make_room(ExecutionSpace const& space, Array& array, std::size_t count,
               std::string const& label = "varve::staged_samples") {
  if (array.size() >= count) return;
  auto const lock = BesideRecordings::not_while_recording();
  array = Array(); // frees the old array before the new one is allocated
  array = Array(Kokkos::view_alloc(space, Kokkos::WithoutInitializing, label), count + count / 16);
}

/// Transfer of numbers to a device array of type Wide: as Narrow through pinned memory, copied in the background, then
/// widened on the device. If the device is the host (InPlace), callers write to the array itself.
template <class ExecutionSpace, class Wide, class Narrow, bool InPlace>
class NumberLane {
public:
  /// Begins a transfer of `count` numbers to an array that has room for them. `uses_numbers`: false if numbers() is not
  /// used, because all numbers lie ready.
  void begin([[maybe_unused]] ExecutionSpace const& space, DeviceArray<ExecutionSpace, Wide> const& target,
             std::size_t count, bool uses_numbers = true) {
    target_ = target;
    count_ = count;
    if constexpr (InPlace) {
      static_assert(std::is_same_v<Narrow, Wide>);
      put_ = target_.data();
    } else {
      if (uses_numbers) make_room(space, on_host_, count);
      put_ = on_host_.data();
      if constexpr (!std::is_same_v<Narrow, Wide>) make_room(space, narrow_, count);
    }
  }

  /// The host memory to which any thread may write the numbers before they are sent.
  Narrow* numbers() const { return put_; }

  /// Starts the copy of numbers [first, first + count). One thread at a time.
  void send(ExecutionSpace const& space, std::size_t first, std::size_t count) const {
    if constexpr (!InPlace) send_from(space, put_ + first, first, count);
  }

  /// Starts the copy of `count` numbers that lie elsewhere on the host, in place of numbers() from `first` on. One
  /// thread at a time.
  void send_from(ExecutionSpace const& space, Narrow const* from, std::size_t first, std::size_t count) const {
    using Source = Kokkos::View<Narrow const*, Kokkos::SharedHostPinnedSpace, Kokkos::MemoryUnmanaged>;
    using Target = Kokkos::View<Narrow*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;
    Kokkos::deep_copy(space, Target(part_of(arrival(), first, count).data(), count), Source(from, count));
  }

  /// To be called after the last send(): launches the conversion to Wide. Does not fence.
  void finish([[maybe_unused]] ExecutionSpace const& space) const {
    if constexpr (!std::is_same_v<Narrow, Wide>) widen<ExecutionSpace, Narrow, Wide>(space, narrow_, target_, count_);
  }

  std::size_t num_bytes() const { return count_ * sizeof(Narrow); }

private:
  ArrayView<Narrow> arrival() const {
    if constexpr (std::is_same_v<Narrow, Wide>) {
      return target_;
    } else {
      return narrow_;
    }
  }

  Kokkos::View<Narrow*, Kokkos::SharedHostPinnedSpace> on_host_;
  DeviceArray<ExecutionSpace, Narrow> narrow_;
  ArrayView<Wide> target_;
  Narrow* put_ = nullptr; ///< what numbers() returns
  std::size_t count_ = 0;
};

} // namespace varve
