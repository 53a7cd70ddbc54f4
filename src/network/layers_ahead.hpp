#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <vector>

namespace varve {

/// Reads the layers of a network in order, and ahead: while the caller works on one, other threads read the next ones
/// and study them. The source must outlive this object.
class LayersAhead {
public:
  /// What a study finds in a layer: a number for each of its outputs.
  using Findings = std::vector<NeuronIndex>;
  struct StudiedLayer {
    Layer layer;
    Findings findings;
  };

  /// As many layers are read ahead as fit into `most_bytes`, judged by the last one that was taken: at least one, and
  /// at most one per host thread. With one host thread, none is.
  LayersAhead(NetworkSource const& source, std::size_t most_bytes, std::function<Findings(Layer const&)> study);

  /// The next layer, from 0 on. Calls source.before_layer() first, on this thread. Throws what reading it throws.
  StudiedLayer next();

private:
  StudiedLayer read(std::size_t number) const;
  void read_ahead(Layer const& taken);

  NetworkSource const& source_;
  std::size_t most_bytes_;
  std::function<Findings(Layer const&)> study_;
  std::size_t num_threads_;
  std::size_t num_taken_ = 0;
  std::deque<std::future<StudiedLayer>> ahead_; ///< the layers from num_taken_ on
};

} // namespace varve
