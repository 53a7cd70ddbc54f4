#pragma once

#include "core/elementary.hpp"
#include "core/types.hpp"

#include <varve/network.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

using v0_3::ActivationKind;

/// The function that is applied to x, the sum of an output's products and its bias:
///   f(x) = min(x, cap) for x > 0, slope * x for x <= 0.
/// Identity has slope 1 and no cap, ReLU slope 0 and no cap, clipped ReLU slope 0 and a cap, leaky ReLU a slope between
/// 0 and 1 and no cap. Results beyond the largest finite number of the precision become that number, with their sign.
/// Sigmoid, tanh and softplus, log(1 + exp(x)), are curves: x is rounded and clipped as by identity, then f is the
/// curve's value there (core/elementary.hpp).
struct Activation {
  ActivationKind kind = ActivationKind::relu;
  double cap = std::numeric_limits<double>::infinity(); ///< positive
  double slope = 0.0;                                   ///< 0 <= slope <= 1

  static Activation identity() { return {ActivationKind::identity, no_cap, 1.0}; }
  static Activation relu() { return {ActivationKind::relu, no_cap, 0.0}; }
  static Activation clipped_relu(double cap) { return {ActivationKind::clipped_relu, cap, 0.0}; }
  static Activation leaky_relu(double slope) { return {ActivationKind::leaky_relu, no_cap, slope}; }

  static Activation sigmoid() { return {ActivationKind::sigmoid, no_cap, 1.0}; }
  static Activation tanh() { return {ActivationKind::tanh, no_cap, 1.0}; }
  static Activation softplus() { return {ActivationKind::softplus, no_cap, 1.0}; }

  /// True if an output with this bias is zero whenever all its inputs are.
  bool keeps_zero(double bias) const;
  /// The smooth function; Curve::none for the others.
  Curve curve() const;
  bool has_cap() const { return kind == ActivationKind::clipped_relu; }
  /// True if sums below zero are multiplied by a slope other than 0 and 1.
  bool scales_below_zero() const { return slope > 0.0 && slope < 1.0; }

  bool operator==(Activation const&) const = default;

  static constexpr double no_cap = std::numeric_limits<double>::infinity();
};

/// A member of an activation that a network file may set.
using ActivationParameter = double Activation::*;

/// The name of an activation in network files, and its parameter, if it has one.
struct ActivationEntry {
  ActivationKind kind;
  char const* name;
  double slope; ///< below zero; replaced by the parameter of leaky ReLU
  Curve curve = Curve::none;
  char const* parameter = nullptr;     ///< name of the parameter's attribute; null: no parameter
  ActivationParameter value = nullptr; ///< the member that holds the parameter
  double least = 0.0, most = 0.0;      ///< the parameter lies strictly between these limits
};
/// The entries of all activation functions, in the order of their kinds.
inline constexpr std::array all_activations = {
    ActivationEntry{ActivationKind::identity, "identity", 1.0},
    ActivationEntry{ActivationKind::relu, "relu", 0.0},
    ActivationEntry{ActivationKind::clipped_relu, "clipped_relu", 0.0, Curve::none, "cap", &Activation::cap, 0.0,
                    Activation::no_cap},
    ActivationEntry{ActivationKind::leaky_relu, "leaky_relu", 1.0, Curve::none, "slope", &Activation::slope, 0.0, 1.0},
    ActivationEntry{ActivationKind::sigmoid, "sigmoid", 1.0, Curve::sigmoid},
    ActivationEntry{ActivationKind::tanh, "tanh", 1.0, Curve::hyperbolic_tangent},
    ActivationEntry{ActivationKind::softplus, "softplus", 1.0, Curve::softplus},
};

/// The entry of an activation function.
constexpr ActivationEntry const& entry_of(ActivationKind kind) {
  return all_activations[static_cast<std::size_t>(kind)];
}
static_assert(std::ranges::all_of(all_activations, [](auto const& entry) { return &entry_of(entry.kind) == &entry; }));

/// The entry with this name; null if there is none.
inline ActivationEntry const* find_activation(std::string_view name) {
  auto const found = std::ranges::find(all_activations, name, &ActivationEntry::name);
  return found == all_activations.end() ? nullptr : &*found;
}

/// The names of the entries of a table, such as all_activations, that users can ask for.
template <class Entries>
std::vector<std::string> names_of(Entries const& entries) {
  std::vector<std::string> names;
  for (auto const& entry : entries) {
    if constexpr (requires { entry.can_be_asked_for; })
      if (!entry.can_be_asked_for) continue;
    names.emplace_back(entry.name);
  }
  return names;
}

/// The activation function of an entry; parameter: its cap or slope, which others ignore.
inline Activation make_activation(ActivationEntry const& entry, double parameter) {
  Activation activation{entry.kind, Activation::no_cap, entry.slope};
  if (entry.value != nullptr) activation.*entry.value = parameter;
  return activation;
}

/// The parameter of an activation function; 0 if it has none.
inline double parameter_of(Activation const& activation) {
  auto const value = entry_of(activation.kind).value;
  return value == nullptr ? 0.0 : activation.*value;
}

inline Curve Activation::curve() const { return entry_of(kind).curve; }

/// The cap in Scalar; the largest finite number if the cap is greater or there is none.
template <class Scalar>
Scalar finite_cap(Activation const& activation) {
  constexpr Scalar largest = std::numeric_limits<Scalar>::max();
  return activation.cap < static_cast<double>(largest) ? std::min(static_cast<Scalar>(activation.cap), largest)
                                                       : largest;
}

/// f(x) as every kernel computes it: the slope is applied in double, the result is rounded once to Scalar and clipped,
/// and a curve is computed in Scalar from the clipped number. Never -0.
template <class Scalar>
Scalar activated(Activation const& activation, double x) {
  if (activation.scales_below_zero() && x < 0.0) x *= activation.slope;
  Scalar const lowest = activation.slope > 0.0 ? std::numeric_limits<Scalar>::lowest() : Scalar{0};
  auto const y = static_cast<Scalar>(x);
  return curved(activation.curve(), std::min(y > lowest ? y : lowest, finite_cap<Scalar>(activation))) + Scalar{0};
}

} // namespace varve
