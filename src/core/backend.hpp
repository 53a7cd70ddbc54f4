#pragma once

#include "core/error.hpp"

#include <string>
#include <vector>

namespace varve {

/// The backend that runs the layer loop. A binary contains every backend of its Kokkos installation.
enum class Backend { serial, openmp, cuda, hip };

/// The name of a backend: "serial", "openmp", "cuda" or "hip".
std::string to_string(Backend backend);

/// True if the backend's device has separate memory, to which weights and samples are copied.
bool has_own_memory(Backend backend);

/// The backends compiled into this binary, fastest first.
std::vector<Backend> compiled_backends();

/// Their names, separated by commas.
std::string compiled_backend_names();

/// The backend with this name. Throws UsageError, which lists the backends of this binary, if there is none.
Backend parse_backend(std::string const& name);

/// Returns make.operator()<backend>() for the backend, which must be among `Compiled`. Throws UsageError if it is not.
template <Backend... Compiled, class Make>
auto on_chosen_backend(Backend backend, Make const& make) {
  decltype(make.template operator()<Backend::serial>()) made;
  ((backend == Compiled ? void(made = make.template operator()<Compiled>()) : void()), ...);
  if (made == nullptr) throw UsageError("this build has no backend " + to_string(backend));
  return made;
}

} // namespace varve
