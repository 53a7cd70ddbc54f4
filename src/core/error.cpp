#include "core/error.hpp"

#include <fmt/format.h>

#include <new>
#include <string_view>
#include <system_error>

namespace varve {

Error error_of(std::exception const& failure) {
  if (auto const* const error = dynamic_cast<Error const*>(&failure)) return *error;
  constexpr char const* no_memory =
      "the memory of this machine does not suffice, or what limits leave of it (ulimit, control groups); "
      "a command that has the options --batch and --memory takes less with smaller ones";
  if (dynamic_cast<std::bad_alloc const*>(&failure) != nullptr) return ResourceError(no_memory);
  if (std::string_view(failure.what()).find("memory space failed to allocate") != std::string_view::npos) // Kokkos
    return ResourceError(fmt::format("{} ({})", no_memory, failure.what()));
  auto const* const of_system = dynamic_cast<std::system_error const*>(&failure);
  if (of_system == nullptr || of_system->code() != std::errc::resource_unavailable_try_again)
    return ResourceError(failure.what());
  return ResourceError(
      fmt::format("a thread cannot be started: {}; raise the limits of threads and memory (ulimit -u, ulimit -v) or "
                  "lower OMP_NUM_THREADS",
                  of_system->code().message()));
}

} // namespace varve
