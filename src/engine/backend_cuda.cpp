#include "engine/backends.hpp"
#include "engine/prepare_on.hpp"

namespace varve {

std::unique_ptr<Inference> prepare_cuda(NetworkToRun const& network, InferenceOptions const& options) {
  return prepare_on<Kokkos::Cuda>(network, options);
}

} // namespace varve
