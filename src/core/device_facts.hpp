#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace varve {

/// Facts about a device for reports, as names and values, in the order in which they are shown.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// The GPU behind a backend: its name, memory, caches, processors, clocks and driver, as far as the runtime library
/// reports them; empty on CPU backends.
Facts device_facts(Backend backend);

/// What Kokkos was configured with, by its own account: the processor and GPU it was compiled for, and the number of
/// threads of its host backend.
Facts kokkos_facts();

} // namespace varve
