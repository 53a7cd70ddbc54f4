#include "../execution_instance.hpp"

#include "core/execution.hpp"
#include "core/gpu.hpp"

namespace varve::python {
namespace {

template <class... Spaces>
std::shared_ptr<void const> instance_of(Backend backend, SpaceList<Spaces...> /*spaces*/) {
  std::shared_ptr<void const> found;
  ((to_backend<Spaces>() == backend ? void(found = std::make_shared<Spaces const>()) : void()), ...);
  return found;
}

#if defined(KOKKOS_ENABLE_CUDA)
constexpr std::uintptr_t default_stream = 1; // DLPack's number of the stream that CUDA calls 0
auto stream_of_kokkos() { return Kokkos::Cuda().cuda_stream(); }
#elif defined(KOKKOS_ENABLE_HIP)
constexpr std::uintptr_t default_stream = 0;
auto stream_of_kokkos() { return Kokkos::HIP().hip_stream(); }
#else
constexpr std::uintptr_t default_stream = 0;
void* stream_of_kokkos() { return nullptr; }
#endif

} // namespace

std::shared_ptr<void const> default_instance(Backend backend) { return instance_of(backend, CompiledSpaces()); }

std::optional<Gpu> gpu() {
  if (!gpu::backend) return std::nullopt;
  auto const stream = reinterpret_cast<std::uintptr_t>(stream_of_kokkos());
  return Gpu{gpu::number(), stream == 0 ? default_stream : stream};
}

} // namespace varve::python
