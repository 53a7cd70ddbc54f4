#include "core/error.hpp"
#include "engine/backends.hpp"

namespace varve {

// The fuzzers parse command lines and run none, so they are linked without kernels.

template <Backend backend, class Scalar>
std::unique_ptr<Inference> prepare_on_backend(NetworkToRun const&, InferenceOptions const&) {
  throw UsageError("this program has no kernels");
}
template std::unique_ptr<Inference> prepare_on_backend<Backend::serial, float>(NetworkToRun const&,
                                                                               InferenceOptions const&);
template std::unique_ptr<Inference> prepare_on_backend<Backend::serial, double>(NetworkToRun const&,
                                                                                InferenceOptions const&);

template <Backend backend, class Scalar>
std::unique_ptr<Training> train_on_backend(Network const&, TrainingOptions const&) {
  throw UsageError("this program has no kernels");
}
template std::unique_ptr<Training> train_on_backend<Backend::serial, float>(Network const&, TrainingOptions const&);
template std::unique_ptr<Training> train_on_backend<Backend::serial, double>(Network const&, TrainingOptions const&);

} // namespace varve
