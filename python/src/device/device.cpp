#include "../device.hpp"
#include "../gpu_of_thread.hpp"

#include "core/execution.hpp"
#include "core/gpu.hpp"

#if defined(KOKKOS_ENABLE_CUDA)
#include <cuda.h>
#endif

#include <map>
#include <memory>
#include <type_traits>
#include <utility>

namespace varve::python {
namespace {

/// Stream: of a host, none.
using StreamOfBackend = std::pair<Backend, std::optional<std::uintptr_t>>;

#if defined(VARVE_GPU)

/// While it lives, its thread may take memory of the GPU though a stream records what is launched in it.
struct BesideRecording {
  VARVE_GPU(StreamCaptureMode) mode = VARVE_GPU(StreamCaptureModeRelaxed); ///< the other one of the thread
  BesideRecording() { exchange(); }
  ~BesideRecording() { exchange(); }
  BesideRecording(BesideRecording const&) = delete;
  BesideRecording& operator=(BesideRecording const&) = delete;
  void exchange() { static_cast<void>(VARVE_GPU(ThreadExchangeStreamCaptureMode)(&mode)); }
};

#endif

template <class ExecutionSpace>
ExecutionSpace on_stream([[maybe_unused]] StreamOfBackend const& place) {
#if defined(VARVE_GPU)
  if constexpr (std::is_same_v<ExecutionSpace, gpu::Space>) {
    BesideRecording const beside;
    if (place.second) return gpu::Space(reinterpret_cast<VARVE_GPU(Stream_t)>(*place.second));
  }
#endif
  return instance_of_backend<ExecutionSpace>(place.first);
}

template <class... Spaces>
std::shared_ptr<void const> new_instance(StreamOfBackend const& place, SpaceList<Spaces...> /*spaces*/) {
  std::shared_ptr<void const> made;
  ((to_backend<Spaces>() == backend_of_kernels(place.first)
        ? void(made = std::make_shared<Spaces const>(on_stream<Spaces>(place)))
        : void()),
   ...);
  return made;
}

#if defined(KOKKOS_ENABLE_CUDA)

constexpr std::uintptr_t default_stream = 1; // DLPack's number of the stream that CUDA calls 0
auto stream_of_kokkos() { return Kokkos::Cuda().cuda_stream(); }
int gpu_of_thread() {
  int number = -1;
  return cudaGetDevice(&number) == cudaSuccess ? number : -1;
}
void set_gpu_of_thread(int number) { static_cast<void>(cudaSetDevice(number)); }

/// False for a GPU that nothing in this process has used; choosing it would take memory there.
bool is_in_use(int number) {
  unsigned int flags = 0;
  int is_active = 0;
  return cuDevicePrimaryCtxGetState(number, &flags, &is_active) == CUDA_SUCCESS && is_active != 0;
}

#elif defined(KOKKOS_ENABLE_HIP)

constexpr std::uintptr_t default_stream = 0;
auto stream_of_kokkos() { return Kokkos::HIP().hip_stream(); }
int gpu_of_thread() {
  int number = -1;
  return hipGetDevice(&number) == hipSuccess ? number : -1;
}
void set_gpu_of_thread(int number) { static_cast<void>(hipSetDevice(number)); }
bool is_in_use(int /*number*/) { return true; } // choosing a GPU takes no memory there

#else

constexpr std::uintptr_t default_stream = 0;
void* stream_of_kokkos() { return nullptr; }
int gpu_of_thread() { return -1; }
void set_gpu_of_thread(int /*number*/) {}
bool is_in_use(int /*number*/) { return false; }

#endif

} // namespace

void const* instance(Backend backend, std::optional<std::uintptr_t> stream) {
  static std::map<StreamOfBackend, std::shared_ptr<void const>> made;
  StreamOfBackend const place{backend, stream};
  if (auto const found = made.find(place); found != made.end()) return found->second.get();
  if (made.empty()) Kokkos::push_finalize_hook([] { made.clear(); });
  return made.emplace(place, new_instance(place, CompiledSpaces())).first->second.get();
}

std::optional<Gpu> gpu() {
  if (!gpu::backend) return std::nullopt;
  auto const stream = reinterpret_cast<std::uintptr_t>(stream_of_kokkos());
  return Gpu{gpu::number(), stream == 0 ? default_stream : stream};
}

GpuOfThread::GpuOfThread() : before_(gpu_of_thread()) {}

GpuOfThread::~GpuOfThread() {
  if (before_ >= 0 && before_ != gpu_of_thread() && is_in_use(before_)) set_gpu_of_thread(before_);
}

void GpuOfThread::use_that_of_kokkos() const {
  if (before_ >= 0 && gpu_of_thread() != gpu::number()) set_gpu_of_thread(gpu::number());
}

} // namespace varve::python
