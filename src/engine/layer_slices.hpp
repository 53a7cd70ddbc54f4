#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace varve {

/// Divides a layer's outputs into contiguous parts of about equal work, where an output costs as much as an edge.
/// Returns bounds: part r computes the outputs [bounds[r], bounds[r + 1]). Parts may be empty.
std::vector<std::size_t> cut_outputs(SparseMatrix const& weights, int num_parts);

/// One rank's part of a network whose neurons are split across ranks: some outputs of every layer, with all their
/// inputs. The source must outlive this object.
class LayerSlices final : public NetworkSource {
public:
  LayerSlices(NetworkSource const& network, int rank, int num_ranks);

  std::string name() const override { return network_.name(); }
  std::size_t num_layers() const override { return wholes_.size(); }

  /// This rank's outputs of a layer. Throws InputError if the whole layer has more than 2^31 - 1 outputs.
  Layer layer(std::size_t number) const override;

  /// Properties of a whole layer, of which this rank holds a part.
  struct WholeLayer {
    std::vector<std::size_t> bounds; ///< outputs of rank r: [bounds[r], bounds[r + 1])
    EdgeOffset num_edges = 0;
    bool keeps_zero = false;

    std::size_t num_outputs() const { return bounds.back(); }
  };

  /// The whole layer of this number; valid after layer(number).
  WholeLayer const& whole(std::size_t number) const { return wholes_[number]; }

  /// Edges on all ranks of the layers that have been read so far.
  EdgeOffset num_edges() const;

private:
  NetworkSource const& network_;
  int rank_;
  int num_ranks_;
  mutable std::mutex mutex_; ///< guards wholes_
  mutable std::vector<WholeLayer> wholes_;
};

} // namespace varve
