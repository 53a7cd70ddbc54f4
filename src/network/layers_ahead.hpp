#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <deque>
#include <future>
#include <mutex>
#include <string>

namespace varve {

/// Reads a network ahead: while the caller works on a layer, other threads read the next ones, as long as the layers
/// are asked for in ascending order from layer 0. That happens once, up to the last layer; a layer that is asked for
/// out of turn is read by the thread that asks. The source must outlive this object.
class LayersAhead final : public NetworkSource {
public:
  /// As many layers are read ahead as fit into `most_bytes`, judged by the last one that was taken: at least one, and
  /// at most one per host thread. With one host thread, none is.
  LayersAhead(NetworkSource const& source, std::size_t most_bytes);

  std::string name() const override { return source_.name(); }
  std::size_t num_layers() const override { return source_.num_layers(); }
  Layer layer(std::size_t number) const override;
  void before_layer() const override { source_.before_layer(); }

private:
  /// Starts to read layers until as many are ahead as shall be.
  void read_ahead(Layer const& taken) const;

  NetworkSource const& source_;
  std::size_t most_bytes_;
  std::size_t num_threads_;
  mutable std::mutex guard_;
  mutable std::size_t turn_ = 0;                 ///< the layer whose turn it is
  mutable std::size_t begun_ = 0;                ///< the layers before this one are or were read in turn
  mutable std::deque<std::future<Layer>> ahead_; ///< the layers turn_ to begun_ - 1
};

} // namespace varve
