#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

namespace varve {

/// Host memory, in bytes, that this process can still allocate: the kernel's MemAvailable, or less if a control group
/// (version 1 or 2) or a limit of this process (ulimit -v, -d) allows less. A group also limits its subgroups, so every
/// group from that of this process up to the mount point is read. `root` is the folder that contains proc and sys.
std::size_t available_host_memory(std::filesystem::path const& root = "/");

/// Address space and private writable memory of this process, in bytes.
std::pair<std::size_t, std::size_t> memory_in_use();

/// Lets allocations fail (std::bad_alloc) that this machine, or its control group, has no memory for, where the kernel
/// would end the process. Stacks of threads count, although they stay almost empty: those of threads that start later
/// become 1 MiB, and one per host thread is allowed.
void limit_memory_to_available();

/// The model name of the processor, such as "AMD EPYC 9454 48-Core Processor"; empty if the kernel does not report it.
std::string processor_name(std::filesystem::path const& root = "/");

/// Seconds for which the threads of this process were ready to run while no processor was free: of the thread that
/// waited longest, since it started. 0 if the kernel does not report them (schedstat).
double longest_wait_for_processor(std::filesystem::path const& root = "/");

/// The name of this machine, or "unknown".
std::string host_name();

} // namespace varve
