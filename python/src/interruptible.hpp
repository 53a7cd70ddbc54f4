#pragma once

#include "process.hpp"

#include "library/crossing.hpp"
#include "network/sample_set.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>

/// What takes long runs Python's signal handlers now and then, so that Ctrl-C need not wait for its end.
namespace varve::python {

/// A network whose reading the user can interrupt: the thread that made this object runs Python's signal handlers
/// between layers.
class InterruptibleNetwork final : public NetworkSource {
public:
  explicit InterruptibleNetwork(v0_3::Network const& network) : source_(network.contents().source) {}

  std::string name() const override { return source_->name(); }
  std::size_t num_layers() const override { return source_->num_layers(); }
  Layer layer(std::size_t number) const override {
    before_layer();
    return source_->layer(number);
  }
  void before_layer() const override {
    if (owner_.load() == std::this_thread::get_id()) run_signal_handlers();
  }

  /// From now on only the calling thread runs signal handlers.
  void belong_to_this_thread() { owner_ = std::this_thread::get_id(); }

private:
  std::shared_ptr<NetworkSource const> source_;
  std::atomic<std::thread::id> owner_{std::this_thread::get_id()};
};

/// The network, read through an InterruptibleNetwork.
inline v0_3::Network interruptible(v0_3::Network const& network) {
  return hold(network, std::make_shared<InterruptibleNetwork const>(network));
}

/// The samples 0 to count - 1, which make(first, last) reads or draws part by part. Call it without the GIL.
template <class Make>
SampleSet in_parts(std::size_t count, std::size_t at_a_time, Make const& make) {
  SampleBatch all = make(std::size_t{0}, std::min(at_a_time, count));
  for (auto first = all.num_samples(); first < count; first = all.num_samples()) {
    run_signal_handlers();
    all.append(make(first, std::min(first + at_a_time, count)));
  }
  return to_set(all);
}

} // namespace varve::python
