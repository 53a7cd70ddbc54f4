#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// The cap of a layer that maps the vector of caps to itself, evaluated in Scalar exactly as the layer loop computes
/// it: a sample all of whose activations equal the cap still is such a sample after this layer. 0 if the layer does
/// not, or has no cap, or no inputs or outputs.
template <class Scalar>
double kept_cap(Layer const& layer);

extern template double kept_cap<float>(Layer const&);
extern template double kept_cap<double>(Layer const&);

/// What saturation is about in one layer.
struct LayerCaps {
  double cap = 0.0;      ///< 0: none
  double kept_cap = 0.0; ///< see kept_cap()
};

/// The smallest number of layers, from 1, after which a sample all of whose activations equal the cap of the last layer
/// is such a sample at the end, so that its last activations are known without computing them: the layer before has
/// this cap, and so have all layers to come, which keep it. The number of layers if there is none.
std::size_t find_saturation(std::vector<LayerCaps> const& layers);

} // namespace varve
