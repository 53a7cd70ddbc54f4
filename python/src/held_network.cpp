#include "held_network.hpp"

#include "process.hpp"

#include <utility>

namespace varve::python {

HeldNetwork::HeldNetwork(std::shared_ptr<NetworkSource const> source) : source_(std::move(source)) {
  num_inputs_ = source_->layer(0).num_inputs();
  num_outputs_ = source_->layer(source_->num_layers() - 1).num_outputs();
}

EdgeOffset HeldNetwork::num_edges() const {
  auto known = num_edges_.load(); // counted twice if two threads ask at once
  if (known != unknown) return known;
  InterruptibleNetwork const source(source_);
  known = 0;
  EdgeOffset places = 0;
  for (std::size_t number = 0; number < source.num_layers(); ++number) {
    Layer const layer = source.layer(number);
    known += layer.num_edges();
    places += static_cast<EdgeOffset>(layer.num_outputs()) * layer.num_inputs();
  }
  num_places_ = places;
  num_edges_ = known;
  return known;
}

EdgeOffset HeldNetwork::num_places() const {
  num_edges();
  return num_places_;
}

Layer InterruptibleNetwork::layer(std::size_t number) const {
  before_layer();
  return source_->layer(number);
}

void InterruptibleNetwork::before_layer() const {
  if (owner_.load() == std::this_thread::get_id()) run_signal_handlers();
}

std::unique_ptr<HeldNetwork> hold(std::shared_ptr<NetworkSource const> source) {
  return std::make_unique<HeldNetwork>(std::move(source));
}

std::unique_ptr<HeldNetwork> hold_copy(NetworkSource const& source) {
  return hold(std::make_shared<Network const>(load(source)));
}

} // namespace varve::python
