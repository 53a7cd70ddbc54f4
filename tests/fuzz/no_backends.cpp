#include "core/error.hpp"
#include "engine/kernel_set.hpp"
#include "engine/training_kernels.hpp"

namespace varve {

// The fuzzers parse command lines and run none, so they are linked without kernels.

template <Backend backend, class Scalar>
std::unique_ptr<KernelSet> kernel_set_of(DeviceMemory const& /*memory*/) {
  throw UsageError("this program has no kernels");
}
template std::unique_ptr<KernelSet> kernel_set_of<Backend::serial, float>(DeviceMemory const&);
template std::unique_ptr<KernelSet> kernel_set_of<Backend::serial, double>(DeviceMemory const&);

template <Backend backend, class Scalar>
std::unique_ptr<TrainingKernels<Scalar>> training_kernels_of(DeviceMemory const& /*memory*/) {
  throw UsageError("this program has no kernels");
}
template std::unique_ptr<TrainingKernels<float>> training_kernels_of<Backend::serial, float>(DeviceMemory const&);
template std::unique_ptr<TrainingKernels<double>> training_kernels_of<Backend::serial, double>(DeviceMemory const&);

} // namespace varve
