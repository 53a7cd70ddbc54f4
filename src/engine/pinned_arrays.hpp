#pragma once

#include "core/execution.hpp"

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

namespace varve {

/// Arrays of an execution space; those of a host are pinned, so that a GPU copies them while the host does other work.
template <class ExecutionSpace, class T>
class PinnedArrays {
public:
  using Array = DeviceArray<ExecutionSpace, T>;

  /// An array of zeros. It must not be used after clear() or after the end of this object.
  Array add(std::string const& label, std::size_t size) {
    arrays_.emplace_back(label, size);
    return Array(arrays_.back().data(), size);
  }

  void clear() { arrays_.clear(); }

private:
  using Space =
      std::conditional_t<kOnHost<ExecutionSpace>, Kokkos::SharedHostPinnedSpace, typename ExecutionSpace::memory_space>;
  std::vector<Kokkos::View<T*, Space>> arrays_;
};

/// A pinned array of a host as copies to a device take it.
template <class T>
using PinnedSource = Kokkos::View<T const*, Kokkos::SharedHostPinnedSpace, Kokkos::MemoryUnmanaged>;

} // namespace varve
