#include "engine/inference.hpp"

#include "core/error.hpp"
#include "core/execution.hpp"
#include "engine/backends.hpp"

namespace varve {
namespace {

#if defined(VARVE_HAVE_KOKKOS_KERNELS)
constexpr bool kHasKokkosKernels = true;
#else
constexpr bool kHasKokkosKernels = false;
#endif

std::unique_ptr<Inference> prepare_varve(NetworkSource const& network, InferenceOptions const& options) {
  if constexpr (kHasSerial) {
    if (options.backend == Backend::serial) return prepare_serial(network, options);
  }
  if constexpr (kHasOpenMP) {
    if (options.backend == Backend::openmp) return prepare_openmp(network, options);
  }
  if constexpr (kHasCuda) {
    if (options.backend == Backend::cuda) return prepare_cuda(network, options);
  }
  throw UsageError("this build has no backend " + to_string(options.backend));
}

} // namespace

std::string to_string(Engine engine) {
  switch (engine) {
  case Engine::varve:
    return "varve";
  case Engine::kokkos_kernels:
    return "kokkos-kernels";
  case Engine::reference:
    return "reference";
  }
  throw std::logic_error("varve: unknown engine");
}

Engine parse_engine(std::string const& name) {
  if (name == "varve") return Engine::varve;
  if (name == "reference") return Engine::reference;
  if (name == "kokkos-kernels" && kHasKokkosKernels) return Engine::kokkos_kernels;
  throw UsageError("this build has no engine '" + name + "'; it has: varve, " +
                   (kHasKokkosKernels ? "kokkos-kernels, " : "") + "reference");
}

std::unique_ptr<Inference> prepare(NetworkSource const& network, InferenceOptions const& options) {
  if (options.batch && *options.batch == 0) throw UsageError("a batch needs at least 1 sample");
  if (options.repeat == 0) throw UsageError("the layer loop must run at least once");
  if (options.format && *options.format != "csr" && *options.format != "sliced_ell") {
    throw UsageError("the formats are csr and sliced_ell, not '" + *options.format + "'");
  }
  switch (options.engine) {
  case Engine::varve:
    return prepare_varve(network, options);
  case Engine::reference:
    return prepare_reference(network, options);
  case Engine::kokkos_kernels:
    if constexpr (kHasKokkosKernels) return prepare_kokkos_kernels(network, options);
  }
  throw UsageError("this build has no engine " + to_string(options.engine));
}

} // namespace varve
