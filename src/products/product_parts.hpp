#pragma once

#include "core/execution.hpp"
#include "core/views.hpp"
#include "core/work_mark.hpp"

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace varve {

/// What a ProductOn holds for its tasks and tiles.
template <class ExecutionSpace, class Scalar>
struct ProductParts {
  using Numbers = DeviceArray<ExecutionSpace, Scalar>;
  using HostNumbers =
      Kokkos::View<Scalar*,
                   std::conditional_t<kOnHost<ExecutionSpace>, Kokkos::HostSpace, Kokkos::SharedHostPinnedSpace>>;
  using Mark = WorkMark<ExecutionSpace>;

  /// A finished task on its way to the caller.
  struct Finished {
    std::uint64_t job = 0; ///< of the thread that hands it over; 0: none
    std::uint64_t task = 0;
    double task_begin = 0.0; ///< times on the timeline
    double begin = 0.0;
    double end = 0.0;
  };

  /// A task at a time, and the memory for it.
  struct Lane {
    ExecutionSpace space;
    double begin = 0.0; ///< of the task, on the timeline
    Numbers sums;
    HostNumbers sums_h; ///< on hosts the same memory
    Mark sums_came;     ///< to sums_h
    Numbers loose;      ///< a tile as it was read; on hosts that of a buffer
    Finished finished;  ///< what lies in sums_h
  };

  /// Host memory for a tile that is read.
  struct Buffer {
    HostNumbers numbers;
    Mark taken; ///< by the device
  };

  /// A packed tile on the device.
  struct Slot {
    Numbers memory; ///< on hosts; on GPUs and where tiles are shared, slots are parts of one allocation
    ArrayView<Scalar> numbers;
    std::size_t brought_by = 0; ///< a lane, or the number of lanes for a copy from another rank
    Mark brought;
    std::vector<Mark> used; ///< by each lane
  };

  static std::vector<ExecutionSpace> instances(std::size_t count) {
    if constexpr (kOnHost<ExecutionSpace>) {
      return std::vector<ExecutionSpace>(count); // a thread pool has no parts to compute side by side
    } else {
      return Kokkos::Experimental::partition_space(ExecutionSpace(), std::vector<int>(count, 1));
    }
  }

  static Numbers make_numbers(std::string const& label, std::size_t bytes) {
    return Numbers(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), bytes / sizeof(Scalar));
  }

  static HostNumbers on_host(Numbers const& numbers, std::string const& label) {
    if constexpr (kOnHost<ExecutionSpace>) {
      return HostNumbers(numbers);
    } else {
      return HostNumbers(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), numbers.size());
    }
  }
};

} // namespace varve
