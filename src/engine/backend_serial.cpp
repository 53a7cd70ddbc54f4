#include "engine/backends.hpp"
#include "engine/prepare_on.hpp"

namespace varve {

std::unique_ptr<Inference> prepare_serial(NetworkToRun const& network, InferenceOptions const& options) {
  return prepare_on<Kokkos::Serial>(network, options);
}

} // namespace varve
