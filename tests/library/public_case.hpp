#pragma once

#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <varve/network.hpp>
#include <varve/samples.hpp>

#include <cstddef>
#include <vector>

/// Private networks and samples as the public headers take them.
namespace varve::test {

namespace face = varve::v0_3;

inline face::CsrView view_of(SparseMatrix const& matrix) {
  return {matrix.num_rows, matrix.num_columns, matrix.row_pointers, matrix.column_indices, matrix.values};
}

inline face::Activation to_public(Activation const& activation) {
  return {static_cast<face::ActivationKind>(activation.kind), parameter_of(activation)};
}

inline face::Network to_public(Network const& network) {
  face::NetworkBuilder builder;
  for (auto const& layer : network.layers())
    builder.add_layer(view_of(layer.weights), layer.bias, to_public(layer.activation));
  return builder.build(network.name());
}

/// The samples, numbered from 0.
inline face::Samples to_public(SampleSet const& samples) { return face::Samples(view_of(samples.matrix)); }

} // namespace varve::test
