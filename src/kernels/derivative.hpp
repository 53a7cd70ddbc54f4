#pragma once

#include "core/pack.hpp"
#include "network/activation.hpp"

namespace varve {

/// Backpropagation through an activation function: the error times the derivative, computed from the activation x
/// alone.
///   piecewise linear: 1 where 0 < x < upper, else `outside` (0 for ReLU, the slope of leaky ReLU, 1 for identity)
///   curves: curve_derivative (core/elementary.hpp)
template <class Scalar>
struct Derivative {
  Curve curve = Curve::none;
  Scalar upper = 0;   ///< the cap; infinite if there is none
  Scalar outside = 0; ///< the derivative unless 0 < x < upper

  Derivative() = default;
  explicit Derivative(Activation const& activation)
      : curve(activation.curve()),
        upper(activation.has_cap() ? finite_cap<Scalar>(activation) : std::numeric_limits<Scalar>::infinity()),
        outside(static_cast<Scalar>(activation.slope)) {}

  /// error * derivative at x
  KOKKOS_FORCEINLINE_FUNCTION Scalar operator()(Scalar error, Scalar x) const {
    if (curve != Curve::none) return error * curve_derivative(curve, x);
    bool const is_inside = x > Scalar(0) && x < upper;
    if (outside == Scalar(0)) return is_inside ? error : Scalar(0); // 0 times an infinite error would be NaN
    return is_inside ? error : error * outside;
  }

  /// error * derivative at x in every lane.
  template <int Width>
  KOKKOS_FORCEINLINE_FUNCTION void apply(Pack<Scalar, Width>& error, Pack<Scalar, Width> const& x) const {
    if (curve == Curve::none && outside == Scalar(1)) return;
    // clang-format off
    KOKKOS_IF_ON_DEVICE((
      for (int i = 0; i < Width; ++i) error.lane[i] = (*this)(error.lane[i], x.lane[i]);
    ))
    KOKKOS_IF_ON_HOST((apply_on_host(error, x);))
    // clang-format on
  }

private:
  /// Explicit vectors: from a loop of selects g++ makes one branch per sample.
  template <int Width>
  void apply_on_host(Pack<Scalar, Width>& error, Pack<Scalar, Width> const& x) const {
    if (curve != Curve::none) {
      with_curve(curve, [&](auto constant) {
        for (int i = 0; i < Width; ++i) error.lane[i] *= curve_derivative(Curve(constant), x.lane[i]);
      });
      return;
    }
    constexpr int piece = host::kPieceLanes<Scalar, Width>;
    using Vector = typename host::Vectors<Scalar, piece>::Vector;
    Vector const zero = {};
    host::for_pieces<Scalar, Width>([&](auto i) __attribute__((always_inline)) {
      auto const value = host::load<Vector>(x.lane + i);
      auto const given = host::load<Vector>(error.lane + i);
      auto const is_inside = (value > zero) & (value < upper - zero);
      Vector const elsewhere = outside == Scalar(0) ? zero : given * outside; // 0 times an infinite error would be NaN
      host::store(error.lane + i, is_inside ? given : elsewhere);
    });
  }
};

} // namespace varve
