#pragma once

#include "core/pack.hpp"
#include "network/activation.hpp"

namespace varve {

/// Backpropagation through an activation function: the error times the derivative, computed from the activation x
/// alone.
///   lines:   1 where 0 < x < upper, else `outside` (0 for ReLU, the slope of leaky ReLU, 1 for identity)
///   sigmoid: x (1 - x);  tanh: fma(-x, x, 1)
template <class Scalar>
struct Derivative {
  Curve curve = Curve::none;
  Scalar upper = 0;   ///< the cap; infinite without one
  Scalar outside = 0; ///< the derivative unless 0 < x < upper

  Derivative() = default;
  explicit Derivative(Activation const& activation)
      : curve(activation.curve()),
        upper(activation.has_cap() ? finite_cap<Scalar>(activation) : std::numeric_limits<Scalar>::infinity()),
        outside(static_cast<Scalar>(activation.slope)) {}

  /// error * derivative at x
  KOKKOS_FORCEINLINE_FUNCTION Scalar operator()(Scalar error, Scalar x) const {
    if (curve == Curve::sigmoid) return error * (x * (Scalar(1) - x));
    if (curve == Curve::hyperbolic_tangent) return error * multiply_add(-x, x, Scalar(1));
    bool const is_inside = x > Scalar(0) && x < upper;
    if (outside == Scalar(0)) return is_inside ? error : Scalar(0); // infinite errors times 0 would be NaN
    return is_inside ? error : error * outside;
  }

  /// error * derivative at x in every lane. (One loop per kind of activation, which compilers can vectorize.)
  template <int Width>
  KOKKOS_FORCEINLINE_FUNCTION void apply(Pack<Scalar, Width>& error, Pack<Scalar, Width> const& x) const {
    if (curve == Curve::sigmoid) {
      for (int i = 0; i < Width; ++i) error.lane[i] = error.lane[i] * (x.lane[i] * (Scalar(1) - x.lane[i]));
    } else if (curve == Curve::hyperbolic_tangent) {
      for (int i = 0; i < Width; ++i) error.lane[i] = error.lane[i] * multiply_add(-x.lane[i], x.lane[i], Scalar(1));
    } else if (outside == Scalar(0)) {
      for (int i = 0; i < Width; ++i)
        error.lane[i] = (x.lane[i] > Scalar(0)) & (x.lane[i] < upper) ? error.lane[i] : Scalar(0);
    } else if (outside != Scalar(1)) {
      for (int i = 0; i < Width; ++i) error.lane[i] = x.lane[i] > Scalar(0) ? error.lane[i] : error.lane[i] * outside;
    }
  }
};

} // namespace varve
