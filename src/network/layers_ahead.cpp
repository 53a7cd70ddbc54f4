#include "network/layers_ahead.hpp"

#include "core/host_threads.hpp"
#include "network/layer_bytes.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace varve {

LayersAhead::LayersAhead(NetworkSource const& source, std::size_t most_bytes)
    : source_(source), most_bytes_(most_bytes), num_threads_(num_host_threads()) {}

Layer LayersAhead::layer(std::size_t number) const {
  source_.before_layer();
  std::future<Layer> reading;
  bool is_in_turn = false;
  {
    std::lock_guard const lock(guard_);
    is_in_turn = number == turn_ && num_threads_ > 1;
    if (is_in_turn) begun_ = std::max(begun_, ++turn_);
    if (is_in_turn && !ahead_.empty()) {
      reading = std::move(ahead_.front());
      ahead_.pop_front();
    }
  }
  Layer layer = reading.valid() ? reading.get() : source_.layer(number);
  if (is_in_turn) read_ahead(layer);
  return layer;
}

void LayersAhead::read_ahead(Layer const& taken) const {
  constexpr std::size_t enough_bytes = std::size_t{1} << 26U; // more would only take more memory
  auto const fit = std::min(most_bytes_, enough_bytes) / std::max<std::size_t>(bytes_of(taken), 1);
  auto const wanted = std::clamp<std::size_t>(fit, 1, num_threads_);
  std::lock_guard const lock(guard_);
  try {
    for (; ahead_.size() < wanted && begun_ < source_.num_layers(); ++begun_)
      ahead_.push_back(std::async(std::launch::async, [this, number = begun_] {
        use_allowed_processors();
        return source_.layer(number);
      }));
  } catch (std::system_error const&) { // the system grants no more threads
  }
}

} // namespace varve
