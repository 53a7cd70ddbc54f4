#pragma once

#include "core/beside_recordings.hpp"
#include "core/execution.hpp"
#include "core/views.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

namespace varve {

/// The memory from which SampleCopy brings columns to this execution space at the least cost: pinned memory, from which
/// a GPU copies 16 bits a column by itself; on the host, memory that kernels read where it is.
template <class ExecutionSpace>
std::shared_ptr<SampleMemory> upload_memory() {
  if constexpr (kOnHost<ExecutionSpace>) {
    return std::make_shared<SampleMemory>(SampleMemory::Source{std::malloc, std::free}, false);
  } else {
    using Pinned = Kokkos::SharedHostPinnedSpace;
    SampleMemory::Source source;
    source.allocate = [](std::size_t bytes) {
      auto const lock = BesideRecordings::not_while_recording();
      return Kokkos::kokkos_malloc<Pinned>("varve::samples_ahead", bytes);
    };
    source.free = [](void* address) {
      auto const lock = BesideRecordings::not_while_recording();
      Kokkos::kokkos_free<Pinned>(address);
    };
    return std::make_shared<SampleMemory>(source, true);
  }
}

} // namespace varve
