#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace varve {

/// First outputs of the parts into which a layer's outputs are cut, and the number of outputs: part r computes those of
/// [bounds[r], bounds[r + 1]), its share of edges and outputs, counted alike. Parts may be empty.
std::vector<std::size_t> cut_outputs(SparseMatrix const& weights, int num_parts);

/// One rank's part of a network whose neurons are split across ranks: of every layer, some outputs with all their
/// inputs. The source must live as long as layers or its name are asked for.
class LayerSlices final : public NetworkSource {
public:
  LayerSlices(NetworkSource const& network, int rank, int num_ranks);

  std::string name() const override { return network_.name(); }
  std::size_t num_layers() const override { return wholes_.size(); }

  /// This rank's outputs of a layer. Throws InputError if the whole layer has more than 2^31 - 1 outputs.
  Layer layer(std::size_t number) const override;

  /// What a rank must know of a layer that it has a part of.
  struct WholeLayer {
    std::vector<std::size_t> bounds; ///< outputs of rank r: [bounds[r], bounds[r + 1])
    EdgeOffset num_edges = 0;
    bool keeps_zero = false;

    std::size_t num_outputs() const { return bounds.back(); }
  };

  /// Of a layer that has been asked for.
  WholeLayer const& whole(std::size_t number) const { return wholes_[number]; }

  /// Of all layers together.
  EdgeOffset num_edges() const;

private:
  NetworkSource const& network_;
  int rank_;
  int num_ranks_;
  mutable std::mutex mutex_; ///< of the next
  mutable std::vector<WholeLayer> wholes_;
};

} // namespace varve
