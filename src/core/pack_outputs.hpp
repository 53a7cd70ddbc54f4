#pragma once

#include "core/pack_sums.hpp"

namespace varve {

/// finish() of a pack whose lanes hold outputs of one sample: each lane has a bias of its own.
template <class Scalar, int Width>
KOKKOS_FORCEINLINE_FUNCTION void finish_outputs(Pack<Scalar, Width>& sum, double const (&bias)[Width],
                                                Bounds<Scalar> const& bounds) {
  Curve const curve = bounds.curve();
  double const slope = curve == Curve::none ? bounds.slope : 1.0;
  for (int i = 0; i < Width; ++i) {
    double z = static_cast<double>(sum.lane[i]) + bias[i];
    if (z < 0.0) z *= slope;
    auto const y = static_cast<Scalar>(z);
    Scalar const above = y > bounds.lower ? y : bounds.lower;
    sum.lane[i] = (above < bounds.upper ? above : bounds.upper) + Scalar(0);
  }
  if (curve == Curve::none) return;
  for (int i = 0; i < Width; ++i) sum.lane[i] = curved(curve, sum.lane[i]) + Scalar(0);
}

} // namespace varve
