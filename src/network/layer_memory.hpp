#pragma once

#include "core/buffer_pool.hpp"
#include "network/network.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// Memory that the lists of a layer take.
inline std::size_t bytes_of(Layer const& layer) {
  auto const& weights = layer.weights;
  return weights.column_indices.size() * sizeof(NeuronIndex) + weights.values.size() * sizeof(double) +
         weights.row_pointers.size() * sizeof(EdgeOffset) + layer.bias.size() * sizeof(double);
}

/// Gives the vectors of a layer that is done with to those who read the next ones.
inline void recycle(Layer layer) noexcept {
  BufferPool<EdgeOffset>::of_process().recycle(std::move(layer.weights.row_pointers));
  BufferPool<NeuronIndex>::of_process().recycle(std::move(layer.weights.column_indices));
  BufferPool<double>::of_process().recycle(std::move(layer.weights.values));
}

/// A copy of a layer that will be given back, and may have far more memory than it needs until then.
inline Layer passing_copy(Layer const& layer) {
  auto const copy = [](auto const& from) {
    using Vector = std::remove_cvref_t<decltype(from)>;
    auto to = BufferPool<typename Vector::value_type>::of_process().take(from.size());
    std::ranges::copy(from, to.begin());
    return to;
  };
  auto const& weights = layer.weights;
  return {{weights.num_rows, weights.num_columns, copy(weights.row_pointers), copy(weights.column_indices),
           copy(weights.values)},
          layer.bias,
          layer.activation};
}

/// Caches the layers of a network that is read several times: layers are kept in memory up to a limit, the rest are
/// read from the source each time. The source must outlive this object.
class KeptNetwork final : public NetworkSource {
public:
  /// `bytes` is the limit for all kept layers. A layer takes 12 bytes per edge (4 if all its weights are equal) and up
  /// to 16 per output.
  KeptNetwork(NetworkSource const& source, std::size_t bytes);

  std::string name() const override { return source_.name(); }
  std::size_t num_layers() const override { return source_.num_layers(); }
  Layer layer(std::size_t number) const override;

private:
  NetworkSource const& source_;
  mutable std::mutex guard_;
  mutable std::size_t bytes_left_;
  mutable std::vector<std::optional<Layer>> layers_;
};

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

  /// As many layers are read ahead as fit into `max_bytes`, judged by the last one that was taken: at least one, and
  /// at most one per host thread. With one host thread, none is.
  LayersAhead(NetworkSource const& source, std::size_t max_bytes, std::function<Findings(Layer const&)> study);

  /// The next layer, from 0 on. Calls source.before_layer() first, on this thread. Throws what reading it throws.
  StudiedLayer next();

private:
  StudiedLayer read(std::size_t number) const;
  void read_ahead(Layer const& taken);

  NetworkSource const& source_;
  std::size_t max_bytes_;
  std::function<Findings(Layer const&)> study_;
  std::size_t num_threads_;
  std::size_t num_taken_ = 0;
  std::deque<std::future<StudiedLayer>> ahead_; ///< the layers from num_taken_ on
};

} // namespace varve
