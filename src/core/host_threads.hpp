#pragma once

#include <cstddef>
#include <functional>

namespace varve {

/// Number of host threads for reading, writing and preparing: the number of processors in this process's affinity mask.
std::size_t num_host_threads();

/// Calls work(0) ... work(count - 1) on up to num_host_threads() threads, each index exactly once, in any order, and
/// returns when all calls are done. If calls throw, no further index is started and the exception of the lowest index
/// is rethrown, so the error a user sees does not depend on timing.
void for_each_on_host_threads(std::size_t count, std::function<void(std::size_t)> const& work);

} // namespace varve
