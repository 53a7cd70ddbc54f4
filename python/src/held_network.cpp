#include "held_network.hpp"

#include "process.hpp"

#include <utility>

namespace varve::python {

HeldNetwork::HeldNetwork(std::shared_ptr<NetworkSource const> source) : source_(std::move(source)) {
  num_inputs_ = source_->layer(0).num_inputs();
  num_outputs_ = source_->layer(source_->num_layers() - 1).num_outputs();
}

EdgeOffset HeldNetwork::num_edges() const {
  std::lock_guard const lock(guard_);
  if (!num_edges_) {
    EdgeOffset sum = 0;
    for (std::size_t number = 0; number < source_->num_layers(); ++number) sum += source_->layer(number).num_edges();
    num_edges_ = sum;
  }
  return *num_edges_;
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
