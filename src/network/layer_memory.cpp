#include "network/layer_memory.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"

#include <system_error>

namespace varve {

KeptNetwork::KeptNetwork(NetworkSource const& source, std::size_t bytes)
    : source_(source), bytes_left_(bytes), layers_(source.num_layers()) {}

Layer KeptNetwork::layer(std::size_t number) const {
  {
    std::lock_guard const lock(guard_);
    if (layers_.at(number)) return *layers_[number];
  }
  Layer layer = source_.layer(number);
  std::lock_guard const lock(guard_);
  std::size_t const bytes = bytes_of(layer);
  if (!layers_[number] && bytes <= bytes_left_) {
    bytes_left_ -= bytes;
    layers_[number] = layer;
  }
  return layer;
}

LayersAhead::LayersAhead(NetworkSource const& source, std::size_t max_bytes,
                         std::function<Findings(Layer const&)> study)
    : source_(source), max_bytes_(max_bytes), study_(std::move(study)), num_threads_(num_host_threads()) {}

LayersAhead::StudiedLayer LayersAhead::read(std::size_t number) const {
  StudiedLayer studied{source_.layer(number), {}};
  studied.findings = study_(studied.layer);
  return studied;
}

LayersAhead::StudiedLayer LayersAhead::next() {
  VARVE_REQUIRE(num_taken_ < source_.num_layers(), "more layers are read than there are");
  source_.before_layer();
  std::future<StudiedLayer> reading;
  if (!ahead_.empty()) {
    reading = std::move(ahead_.front());
    ahead_.pop_front();
  }
  auto const number = num_taken_++;
  auto studied = reading.valid() ? reading.get() : read(number);
  if (num_threads_ > 1) read_ahead(studied.layer);
  return studied;
}

/// Starts to read layers until as many are ahead as shall be.
void LayersAhead::read_ahead(Layer const& taken) {
  constexpr std::size_t enough_bytes = std::size_t{1} << 28U; // more would only take more memory
  auto const fit = std::min(max_bytes_, enough_bytes) / std::max<std::size_t>(bytes_of(taken), 1);
  auto const wanted = std::clamp<std::size_t>(fit, 1, num_threads_);
  bool const are_enough = 2 * wanted > num_threads_; // to keep all threads busy, each with a layer of its own
  try {
    while (ahead_.size() < wanted && num_taken_ + ahead_.size() < source_.num_layers()) {
      ahead_.push_back(std::async(std::launch::async, [this, are_enough, number = num_taken_ + ahead_.size()] {
        use_allowed_processors();
        if (are_enough) work_without_helpers();
        return read(number);
      }));
    }
  } catch (std::system_error const&) { // the system grants no more threads
  }
}

} // namespace varve
