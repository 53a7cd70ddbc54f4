#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace varve {

/// Number of host threads for reading, writing and preparing: the number of processors that this process may use, those
/// of the calling thread's affinity mask and of allow_processors().
std::size_t num_host_threads();

/// Names processors, by their numbers in affinity masks, that threads of num_host_threads() may use besides those of
/// the thread that starts them. OpenMP may have bound that one to a single processor (OMP_PROC_BIND), which new threads
/// would inherit. To be called before there are such threads.
void allow_processors(std::vector<int> const& numbers);

/// To be called by a new thread first: lets it run on all processors of allow_processors() as well.
void use_allowed_processors();

/// Calls work(0) ... work(count - 1) on up to num_host_threads() threads, each index exactly once, in any order, and
/// returns when all calls are done. If calls throw, no further index is started and the exception of the lowest index
/// is rethrown, so the error a user sees does not depend on timing.
void for_each_on_host_threads(std::size_t count, std::function<void(std::size_t)> const& work);

} // namespace varve
