#include "core/error.hpp"
#include "engine/kernel_set.hpp"
#include "engine/training_kernels.hpp"

namespace varve {

// The fuzzers parse command lines and run none, so they are linked without kernels.

template <Backend backend, class Scalar>
std::unique_ptr<KernelSet> kernel_set_of() {
  throw UsageError("this program has no kernels");
}
template std::unique_ptr<KernelSet> kernel_set_of<Backend::serial, float>();
template std::unique_ptr<KernelSet> kernel_set_of<Backend::serial, double>();

template <Backend backend, class Scalar>
std::unique_ptr<TrainingKernels<Scalar>> training_kernels_of() {
  throw UsageError("this program has no kernels");
}
template std::unique_ptr<TrainingKernels<float>> training_kernels_of<Backend::serial, float>();
template std::unique_ptr<TrainingKernels<double>> training_kernels_of<Backend::serial, double>();

} // namespace varve
