#pragma once

#include "core/types.hpp"
#include "network/network.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// The scope in which the number of kept edges is fixed.
enum class PruneScope {
  layer,  ///< each layer keeps its own share
  network ///< the largest weights of all layers are kept, wherever they are
};

/// Number of edges that a density allows: floor(density * places + 1/2), where a layer has outputs * inputs places.
EdgeOffset edges_at(double density, EdgeOffset places);

/// A network without its smallest weights ("magnitude pruning": Han, Pool, Tran and Dally, "Learning both weights and
/// connections for efficient neural networks", 2015).
///
/// Keeps edges_at(density, places) edges, with the places of each layer or of all layers together, or all edges if
/// there are fewer. Those with the largest absolute weights are kept; of equal ones those with the lowest number, which
/// counts the edges output by output within a layer, layer by layer. Biases and activations stay, also those of outputs
/// that lose all their edges.
class PrunedNetwork final : public NetworkSource {
public:
  /// `density` is above 0 and at most 1. With PruneScope::network, reads all layers here, several times. The source
  /// must outlive this object. Throws what the source throws.
  PrunedNetwork(NetworkSource const& source, double density, PruneScope scope);

  std::string name() const override { return source_.name(); }
  std::size_t num_layers() const override { return source_.num_layers(); }
  Layer layer(std::size_t number) const override;

  /// Those of the layers read so far that have lost all their edges.
  std::vector<std::size_t> emptied_layers() const;

private:
  /// A layer keeps the edges above a magnitude and the first num_equal edges of that magnitude.
  struct Limit {
    std::uint64_t magnitude = 0; ///< bits of an absolute weight
    EdgeOffset num_equal = 0;
  };

  /// The limit that keeps `count` of the edges of all layers that for_each_layer passes to its argument.
  template <class ForEachLayer>
  static Limit limit_of(EdgeOffset count, ForEachLayer const& for_each_layer);

  void find_network_limits();

  NetworkSource const& source_;
  double density_;
  std::optional<std::vector<Limit>> limits_;          ///< one per layer, if all layers share one number of edges
  mutable std::vector<std::atomic<bool>> is_emptied_; ///< several threads read layers
};

} // namespace varve
