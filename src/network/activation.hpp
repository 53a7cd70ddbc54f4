#pragma once

#include <algorithm>
#include <limits>

namespace varve {

enum class ActivationKind { identity, relu, clipped_relu };

/// Function applied to every output of a layer: identity, max(x, 0), or min(max(x, 0), cap). A result beyond the
/// largest finite number of the precision in use becomes that number, with its sign.
struct Activation {
  ActivationKind kind = ActivationKind::relu;
  double cap = std::numeric_limits<double>::infinity(); ///< positive; only clipped_relu uses it

  static Activation identity() { return {ActivationKind::identity, std::numeric_limits<double>::infinity()}; }
  static Activation relu() { return {ActivationKind::relu, std::numeric_limits<double>::infinity()}; }
  static Activation clipped_relu(double cap) { return {ActivationKind::clipped_relu, cap}; }

  bool operator==(Activation const&) const = default;
};

/// The cap converted to Scalar, at most the largest finite Scalar.
template <class Scalar>
Scalar finite_cap(Activation const& activation) {
  constexpr Scalar largest = std::numeric_limits<Scalar>::max();
  return activation.cap < static_cast<double>(largest) ? std::min(static_cast<Scalar>(activation.cap), largest)
                                                       : largest;
}

} // namespace varve
