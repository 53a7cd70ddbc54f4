#pragma once

#include "core/types.hpp"
#include "network/network.hpp"

#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <thread>

namespace varve::python {

/// A network that Python holds, with what is asked of it often. It is never changed; all methods are thread-safe.
class HeldNetwork {
public:
  explicit HeldNetwork(std::shared_ptr<NetworkSource const> source);

  NetworkSource const& source() const { return *source_; }
  std::shared_ptr<NetworkSource const> const& shared() const { return source_; }
  std::size_t num_layers() const { return source_->num_layers(); }
  std::size_t num_inputs() const { return num_inputs_; }
  std::size_t num_outputs() const { return num_outputs_; }
  /// Both read all layers on the first call of either.
  EdgeOffset num_edges() const;
  /// Products of outputs and inputs of all layers: the edges that there could be.
  EdgeOffset num_places() const;

private:
  std::shared_ptr<NetworkSource const> source_;
  std::size_t num_inputs_ = 0, num_outputs_ = 0;
  static constexpr EdgeOffset unknown = std::numeric_limits<EdgeOffset>::max();
  mutable std::atomic<EdgeOffset> num_places_ = 0; ///< known as soon as num_edges_ is
  mutable std::atomic<EdgeOffset> num_edges_ = unknown;
};

/// A network whose reading the user can interrupt: the thread that made this object runs Python's signal handlers
/// between layers.
class InterruptibleNetwork final : public NetworkSource {
public:
  explicit InterruptibleNetwork(std::shared_ptr<NetworkSource const> source) : source_(std::move(source)) {}

  std::string name() const override { return source_->name(); }
  std::size_t num_layers() const override { return source_->num_layers(); }
  Layer layer(std::size_t number) const override;
  void before_layer() const override;

  /// From now on only the calling thread runs signal handlers.
  void belong_to_this_thread() { owner_ = std::this_thread::get_id(); }

private:
  std::shared_ptr<NetworkSource const> source_;
  std::atomic<std::thread::id> owner_{std::this_thread::get_id()};
};

/// A source that Python holds.
std::unique_ptr<HeldNetwork> hold(std::shared_ptr<NetworkSource const> source);

/// A copy of a source, whose own source need not live on.
std::unique_ptr<HeldNetwork> hold_copy(NetworkSource const& source);

} // namespace varve::python
