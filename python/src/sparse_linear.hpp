#pragma once

#include "core/backend.hpp"

#include <cstddef>
#include <cstdint>

/// One sparse layer by the kernels of training, on arrays of the caller in the memory of a backend.
namespace varve::python {

/// The pattern of a layer. Rows have ascending columns; every index is in range.
struct LayerPattern {
  std::uint32_t const* row_pointers = nullptr;   ///< [outputs + 1]: the first edge of each output
  std::uint32_t const* columns = nullptr;        ///< [edges]: the input of each edge, by output
  std::uint32_t const* input_pointers = nullptr; ///< [inputs + 1]: the first edge of each input, in the order by input
  std::uint32_t const* outputs = nullptr;        ///< [edges]: the output of each edge, by input
  std::uint32_t const* places = nullptr;         ///< [edges]: an edge in the order by input -> in that by output
  std::size_t num_inputs = 0, num_outputs = 0, num_edges = 0;
};

/// Where it runs: a backend and, on a GPU, the stream of the caller, which has the work in order.
struct LayerPlace {
  Backend backend = Backend::serial;
  std::uintptr_t stream = 0;
};

/// Bytes of memory that forward and backward need beside their arguments, at a multiple of 256.
template <class Scalar>
std::size_t scratch_bytes(LayerPlace const& place, LayerPattern const& pattern, std::size_t num_samples);

/// y[s][j] = fma-chain over the edges (j, i), ascending, of weights * x[s][i], plus bias[j]; none if null. A sum
/// that is not a number becomes minus infinity.
/// Hosts: returns when it is done; GPUs: when it has been launched.
template <class Scalar>
void layer_forward(LayerPlace const& place, LayerPattern const& pattern, std::size_t num_samples, Scalar const* x,
                   Scalar const* weights, Scalar const* bias, Scalar* y, void* scratch);

/// From dy, the gradient by y: that by x, unless dx is null; by the weights of the edges, by output; by the bias. Sums
/// over samples are added up as network/leaf.hpp says.
template <class Scalar>
void layer_backward(LayerPlace const& place, LayerPattern const& pattern, std::size_t num_samples, Scalar const* x,
                    Scalar const* dy, Scalar const* weights, Scalar* dx, Scalar* dweights, Scalar* dbias,
                    void* scratch);

} // namespace varve::python
