#pragma once

#include <string>
#include <vector>

namespace varve {

/// Where the layer loop runs. A binary holds every backend that its Kokkos has.
enum class Backend { serial, openmp, cuda };

/// "serial", "openmp" or "cuda".
std::string to_string(Backend backend);

/// True if the backend's device has memory of its own, to which weights and samples are copied.
bool has_own_memory(Backend backend);

/// The backends of this binary, the fastest first.
std::vector<Backend> compiled_backends();

/// The backend of this name. Throws UsageError naming the backends this binary has.
Backend parse_backend(std::string const& name);

} // namespace varve
