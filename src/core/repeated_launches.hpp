#pragma once

#include "core/device_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace varve {

/// Launches and copies that are repeated, such as those of a training step or of the layer loop on a batch. If the
/// device can record launches, they are recorded; otherwise they are launched again each time. Key: distinguishes
/// different launches. State: the state of the host after them.
template <class Key, class State>
class RepeatedLaunches {
public:
  explicit RepeatedLaunches(DeviceMemory const& memory) : memory_(&memory) {}

  /// Runs the launches and asynchronous copies of launch(stream), all of which must be on the given stream, and returns
  /// its result. The first call with a key calls launch(stream). The second call records launch() and starts the
  /// recording on `stream`, as all later calls do. So launch() must depend on nothing but the key, and its first call
  /// must allocate and set up everything. Keeps the recordings of the last few keys. If nothing can be recorded or a
  /// recording fails, launch(stream) is called each time. Does not fence.
  template <class Launch>
  State run(Stream const& stream, Key const& key, Launch const& launch) {
    if (!memory_->can_record()) return launch(stream);
    auto const found = std::find_if(known_.begin(), known_.end(), [&](Known const& known) { return known.key == key; });
    if (found == known_.end()) {
      if (known_.size() == max_known) known_.erase(known_.begin());
      known_.push_back({key, nullptr, launch(stream)});
      return known_.back().state;
    }
    std::rotate(found, found + 1, known_.end()); // the most recently used key is replaced last
    Known& known = known_.back();
    if (known.graph == nullptr) {
      if (!stream_) stream_ = memory_->independent_stream(StreamPriority::ordinary);
      known.graph = memory_->record(*stream_, [&] { known.state = launch(*stream_); });
      if (known.graph == nullptr) return known.state = launch(stream);
    }
    known.graph->start(stream);
    return known.state;
  }

  /// Call after arrays or other arguments of the launches have been replaced.
  void forget() { known_.clear(); }

private:
  static constexpr std::size_t max_known = 4;
  struct Known {
    Key key;
    std::unique_ptr<LaunchGraph> graph; ///< null until the launches are recorded
    State state;
  };

  DeviceMemory const* memory_;
  std::unique_ptr<Stream> stream_; ///< records launches; nothing else uses it
  std::vector<Known> known_;       ///< the most recently used key is the last one
};

} // namespace varve
