#include "core/error.hpp"
#include "engine/backends.hpp"

namespace varve {

// The fuzzers parse command lines and run none, so they are linked without kernels.

template <>
std::unique_ptr<Inference> prepare_on_backend<Backend::serial>(NetworkToRun const&, InferenceOptions const&) {
  throw UsageError("this program has no kernels");
}

template <>
std::unique_ptr<Training> train_on_backend<Backend::serial>(Network const&, TrainingOptions const&) {
  throw UsageError("this program has no kernels");
}

} // namespace varve
