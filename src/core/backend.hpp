#pragma once

#include "core/error.hpp"

#include <string>
#include <vector>

namespace varve {

/// The backend that runs the layer loop. A binary contains every backend that its Kokkos installation was built with.
enum class Backend { serial, openmp, cuda, hip };

/// The name of a backend: "serial", "openmp", "cuda" or "hip".
std::string to_string(Backend backend);

/// True if the backend's device has memory of its own, to which weights and samples are copied.
bool has_own_memory(Backend backend);

/// The backends compiled into this binary, fastest first.
std::vector<Backend> compiled_backends();

/// Their names, with commas between.
std::string compiled_backend_names();

/// The backend with this name. Throws UsageError, which lists the backends of this binary, if there is none.
Backend parse_backend(std::string const& name);

/// What make.operator()<backend>() returns for the backend among `Compiled`. Throws UsageError if the build lacks it.
template <Backend... Compiled, class Make>
auto on_chosen_backend(Backend backend, Make const& make) {
  decltype(make.template operator()<Backend::serial>()) made;
  ((backend == Compiled ? void(made = make.template operator()<Compiled>()) : void()), ...);
  if (made == nullptr) throw UsageError("this build has no backend " + to_string(backend));
  return made;
}

} // namespace varve
