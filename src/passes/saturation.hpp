#pragma once

#include "network/network.hpp"

namespace varve {

/// The cap of a layer that maps the vector of caps to itself, evaluated in Scalar exactly as the layer loop computes
/// it: a sample all of whose activations equal the cap still is such a sample after this layer. 0 if the layer does
/// not, or has no cap, or no inputs or outputs. If all layers from some layer on have one cap and keep it, a sample
/// that is saturated there is saturated at the end: its last activations are known without computing them.
template <class Scalar>
double kept_cap(Layer const& layer);

extern template double kept_cap<float>(Layer const&);
extern template double kept_cap<double>(Layer const&);

} // namespace varve
