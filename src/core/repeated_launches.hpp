#pragma once

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

/// Launches and copies that are repeated again and again, such as those of a training step or of the layers that a
/// batch goes through. On NVIDIA GPUs they are recorded as a CUDA graph, which the host starts by one call: a launch
/// costs the host about 6 us and a graph's node a GPU 1 to 2 us, and most kernels of narrow layers take less than that.
/// Kokkos 4.5 records no streams; CUDA's graphs are in this file alone, and elsewhere the launches are made anew each
/// time.
namespace varve {

/// Key: distinguishes launches that are not the same. State: what the host knows after them.
template <class ExecutionSpace, class Key, class State>
class RepeatedLaunches {
public:
  /// Calls launch() and returns what it returns.
  template <class Launch>
  State run(ExecutionSpace const& /*space*/, Key const& /*key*/, Launch const& launch) {
    return launch();
  }
  void forget() {}
};

#if defined(KOKKOS_ENABLE_CUDA)

template <class Key, class State>
class RepeatedLaunches<Kokkos::Cuda, Key, State> {
public:
  RepeatedLaunches() = default;
  RepeatedLaunches(RepeatedLaunches const&) = delete;
  RepeatedLaunches& operator=(RepeatedLaunches const&) = delete;
  ~RepeatedLaunches() { forget(); }

  /// Makes the launches and asynchronous copies of launch(), all of them in `space`, and returns its result: by a call
  /// the first time, and from the second time with the same key on by starting what the second call has launched. So
  /// launch() must depend on nothing but the key, and its first call must have allocated and set up whatever it needs.
  /// Keeps the launches of the last few keys. With a Kokkos tool, which sees calls only, launch() is called each time.
  /// Does not fence.
  template <class Launch>
  State run(Kokkos::Cuda const& space, Key const& key, Launch const& launch) {
    if (Kokkos::Tools::profileLibraryLoaded()) return launch();
    auto const found = std::find_if(known_.begin(), known_.end(), [&](Known const& known) { return known.key == key; });
    if (found == known_.end()) {
      if (known_.size() == most_known) end(known_.begin());
      known_.push_back({key, nullptr, launch()});
      return known_.back().state;
    }
    std::rotate(found, found + 1, known_.end()); // the last one used is the last one to go
    Known& known = known_.back();
    if (known.graph == nullptr) record(space, known, launch);
    require(cudaGraphLaunch(known.graph, space.cuda_stream()));
    return known.state;
  }

  /// To be called when arrays or other arguments of the launches have been replaced.
  void forget() {
    while (!known_.empty()) end(known_.begin());
  }

private:
  static constexpr std::size_t most_known = 4;
  struct Known {
    Key key;
    cudaGraphExec_t graph; ///< null until the launches are recorded
    State state;
  };

  static void require(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
  }

  void end(typename std::vector<Known>::iterator known) {
    if (known->graph != nullptr) cudaGraphExecDestroy(known->graph);
    known_.erase(known);
  }

  template <class Launch>
  static void record(Kokkos::Cuda const& space, Known& known, Launch const& launch) {
    cudaGraph_t recorded = nullptr;
    require(cudaStreamBeginCapture(space.cuda_stream(), cudaStreamCaptureModeThreadLocal));
    try {
      known.state = launch();
    } catch (...) {
      if (cudaStreamEndCapture(space.cuda_stream(), &recorded) == cudaSuccess) cudaGraphDestroy(recorded);
      throw;
    }
    require(cudaStreamEndCapture(space.cuda_stream(), &recorded));
    auto const error = cudaGraphInstantiateWithFlags(&known.graph, recorded, 0);
    cudaGraphDestroy(recorded);
    require(error);
  }

  std::vector<Known> known_; ///< the key used last is the last one
};

#endif

} // namespace varve
