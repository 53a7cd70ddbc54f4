#pragma once

#include "core/device_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace varve {

/// Launches and copies that are repeated again and again, such as those of a training step or of the layers that a
/// batch goes through. Where the device can record launches they are recorded; elsewhere they are made anew each time.
/// Key: distinguishes launches that are not the same. State: what the host knows after them.
template <class Key, class State>
class RepeatedLaunches {
public:
  explicit RepeatedLaunches(DeviceMemory const& memory) : memory_(&memory) {}

  /// Makes the launches and asynchronous copies of launch(lane), all of them on the lane that it is given, and returns
  /// its result: by launch(lane) the first time, and from the second time with the same key on by starting on `lane`
  /// what the second call has launched. So launch() must depend on nothing but the key, and its first call must have
  /// allocated and set up whatever it needs. Keeps the launches of the last few keys. Where nothing can be recorded or
  /// a recording fails, launch(lane) is called each time. Does not fence.
  template <class Launch>
  State run(Lane const& lane, Key const& key, Launch const& launch) {
    if (!memory_->can_record()) return launch(lane);
    auto const found = std::find_if(known_.begin(), known_.end(), [&](Known const& known) { return known.key == key; });
    if (found == known_.end()) {
      if (known_.size() == most_known) known_.erase(known_.begin());
      known_.push_back({key, nullptr, launch(lane)});
      return known_.back().state;
    }
    std::rotate(found, found + 1, known_.end()); // the last one used is the last one to go
    Known& known = known_.back();
    if (known.graph == nullptr) {
      if (!lane_) lane_ = memory_->independent_lane(LanePriority::ordinary);
      known.graph = memory_->record(*lane_, [&] { known.state = launch(*lane_); });
      if (known.graph == nullptr) return known.state = launch(lane);
    }
    known.graph->start(lane);
    return known.state;
  }

  /// To be called when arrays or other arguments of the launches have been replaced.
  void forget() { known_.clear(); }

private:
  static constexpr std::size_t most_known = 4;
  struct Known {
    Key key;
    std::unique_ptr<LaunchGraph> graph; ///< null until the launches are recorded
    State state;
  };

  DeviceMemory const* memory_;
  std::unique_ptr<Lane> lane_; ///< where launches are recorded, which nothing else uses
  std::vector<Known> known_;   ///< the key used last is the last one
};

} // namespace varve
