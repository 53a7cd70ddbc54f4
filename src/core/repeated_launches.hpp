#pragma once

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

/// Launches and copies that are repeated again and again, such as those of a training step. On NVIDIA GPUs they are
/// recorded as a CUDA graph, which the host starts by one call: a launch costs the host about 6 us and a graph's node
/// a GPU 1 to 2 us, and most kernels of narrow layers take less than that. Kokkos 4.5 records no streams; CUDA's graphs
/// are in this file alone, and elsewhere the launches are made anew each time.
namespace varve {

/// What distinguishes launches that are not the same: two numbers of the caller's choice.
using LaunchKey = std::pair<std::size_t, std::size_t>;

template <class ExecutionSpace>
class RepeatedLaunches {
public:
  /// Calls launch().
  template <class Launch>
  void run(ExecutionSpace const& /*space*/, LaunchKey /*key*/, Launch const& launch) {
    launch();
  }
  void forget() {}
};

#if defined(KOKKOS_ENABLE_CUDA)

template <>
class RepeatedLaunches<Kokkos::Cuda> {
public:
  RepeatedLaunches() = default;
  RepeatedLaunches(RepeatedLaunches const&) = delete;
  RepeatedLaunches& operator=(RepeatedLaunches const&) = delete;
  ~RepeatedLaunches() { forget(); }

  /// Makes the launches and asynchronous copies of launch(), all of them in `space`: by a call, or, from the second
  /// time in turn with the same key on, by starting what the second call has launched. So launch() must depend on
  /// nothing but the key, and its first call must have allocated and set up whatever it needs. With a Kokkos tool,
  /// which sees calls only, it is called each time. Does not fence.
  template <class Launch>
  void run(Kokkos::Cuda const& space, LaunchKey key, Launch const& launch) {
    bool const is_again = last_ == key;
    last_ = key;
    if (Kokkos::Tools::profileLibraryLoaded() || (recorded_ != key && !is_again)) {
      launch();
      return;
    }
    if (recorded_ != key) record(space, key, launch);
    require(cudaGraphLaunch(graph_, space.cuda_stream()));
  }

  /// To be called when arrays or other arguments of the launches have been replaced.
  void forget() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    graph_ = nullptr;
    recorded_.reset();
    last_.reset();
  }

private:
  static void require(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
  }

  template <class Launch>
  void record(Kokkos::Cuda const& space, LaunchKey key, Launch const& launch) {
    forget();
    cudaGraph_t recorded = nullptr;
    require(cudaStreamBeginCapture(space.cuda_stream(), cudaStreamCaptureModeThreadLocal));
    try {
      launch();
    } catch (...) {
      if (cudaStreamEndCapture(space.cuda_stream(), &recorded) == cudaSuccess) cudaGraphDestroy(recorded);
      throw;
    }
    require(cudaStreamEndCapture(space.cuda_stream(), &recorded));
    auto const error = cudaGraphInstantiateWithFlags(&graph_, recorded, 0);
    cudaGraphDestroy(recorded);
    require(error);
    last_ = recorded_ = key;
  }

  cudaGraphExec_t graph_ = nullptr;
  std::optional<LaunchKey> recorded_; ///< of graph_
  std::optional<LaunchKey> last_;
};

#endif

} // namespace varve
