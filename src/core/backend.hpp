#pragma once

#include "core/error.hpp"
#include "core/types.hpp"

#include <string>
#include <type_traits>

namespace varve {

// A binary contains every backend of its Kokkos installation.
using v0_3::Backend;
using v0_3::compiled_backends;
using v0_3::parse_backend;
using v0_3::to_string;

/// True if the backend's device has separate memory, to which weights and samples are copied.
bool has_own_memory(Backend backend);

/// Their names, separated by commas.
std::string compiled_backend_names();

/// The backend whose kernels this one runs. Kernels of the host are compiled once: where there is OpenMP, `serial` is
/// one thread of it.
Backend backend_of_kernels(Backend backend);

/// Returns make.operator()<of_kernels>() for backend_of_kernels(backend), which must be among `Compiled`. Throws
/// UsageError if it is not.
template <Backend... Compiled, class Make>
auto on_chosen_backend(Backend backend, Make const& make) {
  std::common_type_t<decltype(make.template operator()<Compiled>())...> made;
  ((backend_of_kernels(backend) == Compiled ? void(made = make.template operator()<Compiled>()) : void()), ...);
  if (made == nullptr) throw UsageError("this build has no backend " + to_string(backend));
  return made;
}

} // namespace varve
