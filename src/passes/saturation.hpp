#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// The cap of a layer that maps a saturated sample, whose activations all equal the cap, to a saturated sample;
/// evaluated in Scalar exactly as the layer loop computes it. 0 if the layer does not, or if it has no cap, no inputs
/// or no outputs.
template <class Scalar>
double kept_cap(Layer const& layer);

extern template double kept_cap<float>(Layer const&);
extern template double kept_cap<double>(Layer const&);

/// The properties of one layer that find_saturation() needs.
struct LayerCaps {
  double cap = 0.0;      ///< cap of the layer; 0 if it has none
  double kept_cap = 0.0; ///< result of kept_cap() for the layer
};

/// The smallest number of layers, from 1, after which a saturated sample, whose activations all equal the cap of the
/// last layer, stays saturated to the end, so that its last activations are known without computing them: the layer
/// before has this cap, and all later layers have and keep it. The number of layers if there is no earlier one.
std::size_t find_saturation(std::vector<LayerCaps> const& layers);

} // namespace varve
