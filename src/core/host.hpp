#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

namespace varve {

/// Host memory in bytes that this process can still allocate: the kernel's MemAvailable, or less if a control group
/// (version 1 or 2) or a limit of this process (ulimit -v, -d) is lower. A group also limits its subgroups, so all
/// groups from that of this process up to the mount point are read. `root`: the folder that contains proc and sys.
std::size_t available_host_memory(std::filesystem::path const& root = "/");

/// Address space and private writable memory of this process, in bytes.
std::pair<std::size_t, std::size_t> memory_in_use();

/// Makes allocations fail (std::bad_alloc) for which this machine or its control group has no memory; otherwise the
/// kernel would kill the process. Thread stacks count in full, although they stay almost empty: stacks of later threads
/// become 1 MiB, and the limit allows one per host thread.
void limit_memory_to_available();

/// The model name of the processor, such as "AMD EPYC 9454 48-Core Processor"; empty if the kernel does not report it.
std::string processor_name(std::filesystem::path const& root = "/");

/// The longest time in seconds, over the threads of this process, for which a thread has been ready to run without a
/// free processor since it started. 0 if the kernel does not report it (schedstat).
double longest_wait_for_processor(std::filesystem::path const& root = "/");

/// The name of this machine, or "unknown".
std::string host_name();

} // namespace varve
