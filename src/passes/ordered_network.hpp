#pragma once

#include "network/network.hpp"
#include "passes/edge_order.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// The order in which the products of an output are added up.
enum class EdgeOrder {
  ascending, ///< by input
  balanced,  ///< balanced in layers of at most 4096 neurons that gain from it by fewer bank conflicts; else ascending
  forced     ///< balanced in all layers of at most 1024 neurons, whether they gain or not: no option, for tests
};

/// The option value of an edge order: "ascending" or "balanced".
std::string to_string(EdgeOrder order);

/// The edge order with this name. Throws UsageError, which lists the valid names, if there is none.
EdgeOrder parse_edge_order(std::string const& name);

/// The gain from reordering edges, summed over all reordered layers.
struct EdgeOrderReport {
  std::size_t num_layers = 0; ///< number of reordered layers
  BankUse ascending;          ///< cost of these layers in ascending order
  BankUse chosen;
  double seconds = 0.0; ///< time for reordering, summed over all threads
};

/// A network that reorders the edges of its layers. The order depends on the layer alone, so that every backend, format
/// and number of ranks computes the same bits. The column indices of a reordered row do not ascend; everything else
/// equals the source. A layer is reordered whenever it is read, in time about linear in its edges.
class OrderedNetwork final : public NetworkSource {
public:
  OrderedNetwork(std::shared_ptr<NetworkSource const> source, EdgeOrder order);

  std::string name() const override { return source_->name(); }
  std::size_t num_layers() const override { return source_->num_layers(); }
  Layer layer(std::size_t number) const override;

  /// The report on the layers read so far.
  EdgeOrderReport report() const;

private:
  bool changes(Layer const& layer) const;

  std::shared_ptr<NetworkSource const> source_;
  EdgeOrder order_;
  mutable std::mutex guard_;
  mutable std::vector<std::optional<EdgeOrderReport>> reports_; ///< one per layer
};

} // namespace varve
