#pragma once

#include "engine/training.hpp"
#include "network/network.hpp"
#include "network/sparse_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve {

/// How a layer in training is stored: as its edges, or as dense matrices with weights 0 where there is no edge. This
/// changes no bit of any weight.
struct TrainedFormat {
  bool has_dense_forward = false;  ///< by output, for the forward pass
  bool has_dense_backward = false; ///< by input, for errors and gradients

  bool operator==(TrainedFormat const&) const = default;
};

/// The format of each layer: what options.format asks for, else dense where, by measured rates of the backend, the
/// dense kernels take less time than those of edges. Layers without edges or with more than 2^32 - 1 places are never
/// dense. Throws UsageError if options.format is neither dense nor csr.
std::vector<TrainedFormat> choose_trained_formats(Network const& network, TrainingOptions const& options);

/// Where the weight of each edge stands among the weights by output: at its own number, or in a dense [output][input].
std::vector<std::uint32_t> places_by_output(SparseMatrix const& matrix, bool is_dense);

/// Where the weight of each edge in training order (by input) stands in a dense [input][output].
std::vector<std::uint32_t> places_by_input(SparseMatrix const& matrix, TransposedEdges const& turned);

} // namespace varve
