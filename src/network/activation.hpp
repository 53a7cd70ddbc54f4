#pragma once

#include <limits>

namespace varve {

enum class ActivationKind { identity, relu, clipped_relu };

/// Function applied to every output of a layer: identity, max(x, 0), or min(max(x, 0), cap).
struct Activation {
  ActivationKind kind = ActivationKind::relu;
  double cap = std::numeric_limits<double>::infinity(); ///< positive; used by clipped_relu only

  static Activation identity() { return {ActivationKind::identity, std::numeric_limits<double>::infinity()}; }
  static Activation relu() { return {ActivationKind::relu, std::numeric_limits<double>::infinity()}; }
  static Activation clipped_relu(double cap) { return {ActivationKind::clipped_relu, cap}; }

  bool operator==(Activation const&) const = default;
};

} // namespace varve
