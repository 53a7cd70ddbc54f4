#pragma once

#include <cstddef>
#include <functional>

namespace varve {

/// Number of host threads that reading, writing and preparing may use: the processors this process may run on.
std::size_t num_host_threads();

/// Calls work(0) ... work(count - 1) on up to num_host_threads() threads, each index exactly once, in any order.
/// Returns when all are done. If calls throw, the exception of the lowest index that threw is rethrown and indices not
/// yet begun are skipped, so the error a user sees does not depend on timing.
void for_each_on_host_threads(std::size_t count, std::function<void(std::size_t)> const& work);

} // namespace varve
