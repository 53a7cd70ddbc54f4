#pragma once

#include "network/network.hpp"
#include "passes/edge_order.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// In which order the products of an output are added up.
enum class EdgeOrder {
  ascending, ///< by input
  automatic, ///< in layers that gain from it, so that bank conflicts are few; else ascending
  balanced   ///< the same in all layers that are narrow enough, whether they gain or not
};

/// "ascending", "auto" or "balanced".
std::string to_string(EdgeOrder order);

/// The order of this name. Throws UsageError naming what there is.
EdgeOrder parse_edge_order(std::string const& name);

/// What another order of edges gains, in all layers together that have one.
struct EdgeOrderReport {
  std::size_t num_layers = 0; ///< that have one
  BankUse ascending;          ///< as it would be
  BankUse chosen;
  double seconds = 0.0; ///< that it took, of all threads together
};

/// A network whose layers have their edges in another order, which is a property of the network: it depends on nothing
/// but the layer, so that every backend, format and number of ranks computes the same bits. Rows of such a layer do not
/// ascend; everything else is the source's. Layers are ordered whenever they are asked for, in time about proportional
/// to their edges.
class OrderedNetwork final : public NetworkSource {
public:
  OrderedNetwork(std::shared_ptr<NetworkSource const> source, EdgeOrder order);

  std::string name() const override { return source_->name(); }
  std::size_t num_layers() const override { return source_->num_layers(); }
  Layer layer(std::size_t number) const override;

  /// On the layers that were asked for until now.
  EdgeOrderReport report() const;

private:
  bool changes(Layer const& layer) const;

  std::shared_ptr<NetworkSource const> source_;
  EdgeOrder order_;
  mutable std::mutex guard_;
  mutable std::vector<std::optional<EdgeOrderReport>> reports_; ///< by layer
};

} // namespace varve
