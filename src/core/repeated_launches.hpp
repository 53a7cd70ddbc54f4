#pragma once

#include "core/beside_recordings.hpp"
#include "core/own_stream.hpp"
#include "core/work_mark.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
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
  /// Calls launch(space) and returns what it returns.
  template <class Launch>
  State run(ExecutionSpace const& space, Key const& /*key*/, Launch const& launch) {
    return launch(space);
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

  /// Makes the launches and asynchronous copies of launch(instance), all of them in the instance that it is given, and
  /// returns its result: by launch(space) the first time, and from the second time with the same key on by starting in
  /// `space` what the second call has launched. So launch() must depend on nothing but the key, and its first call must
  /// have allocated and set up whatever it needs. Keeps the launches of the last few keys. With a Kokkos tool, which
  /// sees calls only, and where a recording fails, launch(space) is called each time. Does not fence.
  template <class Launch>
  State run(Kokkos::Cuda const& space, Key const& key, Launch const& launch) {
    if (Kokkos::Tools::profileLibraryLoaded()) return launch(space);
    auto const found = std::find_if(known_.begin(), known_.end(), [&](Known const& known) { return known.key == key; });
    if (found == known_.end()) {
      if (known_.size() == most_known) end(known_.begin());
      known_.push_back({key, nullptr, launch(space)});
      return known_.back().state;
    }
    std::rotate(found, found + 1, known_.end()); // the last one used is the last one to go
    Known& known = known_.back();
    if (known.graph == nullptr && !record(known, launch)) return known.state = launch(space);
    detail::GpuEvent::check(cudaGraphLaunch(known.graph, space.cuda_stream()));
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

  void end(typename std::vector<Known>::iterator known) {
    if (known->graph != nullptr) cudaGraphExecDestroy(known->graph);
    known_.erase(known);
  }

  /// Sets the graph of the launches. False if the recording fails, such as when a library that knows nothing of this
  /// one waits for the device meanwhile (BesideRecordings); then nothing was launched, and what launch() throws it
  /// throws again when it is called.
  template <class Launch>
  bool record(Known& known, Launch const& launch) {
    if (!stream_) stream_.emplace(StreamPriority::ordinary);
    auto const& space = stream_->get();
    cudaGraph_t recorded = nullptr;
    {
      BesideRecordings::Recording const recording;
      if (cudaStreamBeginCapture(space.cuda_stream(), cudaStreamCaptureModeThreadLocal) == cudaSuccess) {
        bool is_whole = false;
        try {
          known.state = launch(space);
          is_whole = true;
        } catch (...) {
        }
        is_whole = cudaStreamEndCapture(space.cuda_stream(), &recorded) == cudaSuccess && is_whole;
        if (is_whole && cudaGraphInstantiateWithFlags(&known.graph, recorded, 0) != cudaSuccess) known.graph = nullptr;
      }
    }
    if (recorded != nullptr) cudaGraphDestroy(recorded);
    if (known.graph == nullptr) static_cast<void>(cudaGetLastError()); // the next call shall not report it again
    return known.graph != nullptr;
  }

  /// Where launches are recorded, which nothing else uses: what other threads launch, copy or fence in `space` or in
  /// the default instance (Kokkos does so for new memory) would get into a recording made there, or end it.
  std::optional<OwnStream<Kokkos::Cuda>> stream_;
  std::vector<Known> known_; ///< the key used last is the last one
};

#endif

} // namespace varve
