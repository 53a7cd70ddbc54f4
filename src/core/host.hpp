#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace varve {

/// Bytes of host memory that this process can still allocate: what the kernel says is available (caches that it can
/// drop count as such), or less where a control group, version 1 or 2, leaves less. A group limits the groups inside
/// it, so all from that of this process up to the mounted one are read. `root` is the folder that holds proc and sys.
std::size_t available_host_memory(std::filesystem::path const& root = "/");

/// The model of the processor, "AMD EPYC 9454 48-Core Processor"; empty where the kernel does not name it.
std::string processor_name(std::filesystem::path const& root = "/");

} // namespace varve
