#pragma once

#include "engine/training.hpp"
#include "network/network.hpp"
#include "network/sparse_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve {

/// Storage of a layer in training: its edges, or dense matrices with weights 0 where there is no edge. The choice
/// changes no bit of any weight.
struct TrainedFormat {
  bool has_dense_forward = false;  ///< by output, for the forward pass
  bool has_dense_backward = false; ///< by input, for errors and gradients

  bool operator==(TrainedFormat const&) const = default;
};

/// The format of each layer: options.format if given, else dense where measured rates of the backend make the dense
/// kernels faster than those of edges. Layers without edges or with more than 2^32 - 1 places are never dense. Throws
/// UsageError if options.format is neither dense nor csr.
std::vector<TrainedFormat> choose_trained_formats(Network const& network, TrainingOptions const& options);

/// Index of each edge's weight among the weights by output: its own number, or its place in a dense [output][input].
std::vector<std::uint32_t> places_by_output(SparseMatrix const& matrix, bool is_dense);

/// Index of the weight of each edge in training order (by input) in a dense [input][output].
std::vector<std::uint32_t> places_by_input(SparseMatrix const& matrix, TransposedEdges const& by_input);

} // namespace varve
