#pragma once

#include "core/types.hpp"

#include <cmath>
#include <cstdint>
#include <type_traits>

/// Elementary functions that give the same bits on every processor, compiler and GPU. The math libraries of C and CUDA
/// differ in last bits; these functions use only correctly rounded operations: sum, product, quotient and explicit fma.
/// Methods: argument reduction by multiples of log 2 in two parts (Cody and Waite, "Software manual for the elementary
/// functions", 1980), then Taylor polynomials. Compilers vectorize loops over them.
namespace varve {

/// a * b + c, rounded once.
VARVE_HOST_DEVICE inline float multiply_add(float a, float b, float c) { return ::fmaf(a, b, c); }
VARVE_HOST_DEVICE inline double multiply_add(double a, double b, double c) { return ::fma(a, b, c); }

namespace detail {

/// Constants of the functions below for one precision.
template <class Scalar>
struct Elementary;

template <>
struct Elementary<float> {
  using Bits = std::int32_t;
  static constexpr int mantissa_bits = 23;
  static constexpr Bits exponent_bias = 127;
  static constexpr float rounder = 0x1.8p23F;      ///< adding it rounds a number to an integer
  static constexpr float min_exponent = -104.0F;   ///< exp of this number rounds to 0
  static constexpr float max_exponent = 89.0F;     ///< exp of this number is infinite
  static constexpr float log2_high = 0x1.62e4p-1F; ///< log 2 with 9 zero bits at the end: products up to 2^9 are exact
  static constexpr float log2_low = 0x1.7f7d1cp-20F; ///< log 2 - log2_high
  static constexpr int exponential_terms = 7;        ///< degree of the Taylor polynomial of exp
  static constexpr float one_from = 20.0F;           ///< 1 - exp(-x) and tanh(x / 2) round to 1 from here on
  static constexpr int logarithm_terms = 15;         ///< degree of the odd polynomial of log((1 + s) / (1 - s))
};

template <>
struct Elementary<double> {
  using Bits = std::int64_t;
  static constexpr int mantissa_bits = 52;
  static constexpr Bits exponent_bias = 1023;
  static constexpr double rounder = 0x1.8p52;
  static constexpr double min_exponent = -746.0;
  static constexpr double max_exponent = 710.0;
  static constexpr double log2_high = 0x1.62e42fefa3800p-1; ///< log 2 with 11 zero bits at the end
  static constexpr double log2_low = 0x1.ef35793c76730p-45;
  static constexpr int exponential_terms = 13;
  static constexpr double one_from = 44.0;
  static constexpr int logarithm_terms = 33;
};

VARVE_HOST_DEVICE constexpr double factorial(int n) { return n < 2 ? 1.0 : n * factorial(n - 1); }

/// The sum of x^(k - First) / k! for k from First to Last. (A recursion, because inner loops prevent the vectorization
/// of a loop over samples.)
template <int First, int Last, class Scalar>
VARVE_HOST_DEVICE inline Scalar exponential_series(Scalar x) {
  constexpr auto coefficient = static_cast<Scalar>(1.0 / factorial(First));
  if constexpr (First == Last) {
    return coefficient;
  } else {
    return multiply_add(exponential_series<First + 1, Last>(x), x, coefficient);
  }
}

/// The sum of 2 / k * x^((k - First) / 2) over the odd numbers k from First to Last.
template <int First, int Last, class Scalar>
VARVE_HOST_DEVICE inline Scalar logarithm_series(Scalar x) {
  constexpr auto coefficient = static_cast<Scalar>(2.0 / First);
  if constexpr (First == Last) {
    return coefficient;
  } else {
    return multiply_add(logarithm_series<First + 2, Last>(x), x, coefficient);
  }
}

/// f - log(1 + f) = s * rest, by the series of log((1 + s) / (1 - s)), where s = f / (2 + f).
template <class Scalar>
struct LogarithmRest {
  Scalar s, rest;
};

/// Last: degree of the polynomial.
template <int Last, class Scalar>
VARVE_HOST_DEVICE inline LogarithmRest<Scalar> logarithm_rest(Scalar f) {
  Scalar const s = f / (Scalar(2) + f);
  Scalar const square = s * s;
  return {s, multiply_add(-logarithm_series<3, Last>(square), square, f)};
}

/// Argument reduction: x = multiple * log 2 + rest with |rest| <= log(2) / 2; less_one = exp(rest) - 1.
template <class Scalar>
struct ReducedExponent {
  typename Elementary<Scalar>::Bits multiple;
  Scalar less_one;
};

/// The argument reduction of x, which must be between min_exponent and max_exponent.
template <class Scalar>
VARVE_HOST_DEVICE inline ReducedExponent<Scalar> reduce_exponent(Scalar x) {
  using Constants = Elementary<Scalar>;
  using Bits = typename Constants::Bits;
  constexpr Scalar rounder = Constants::rounder;
  constexpr auto per_log2 = static_cast<Scalar>(1.44269504088896340736);
  Scalar const shifted = multiply_add(x, per_log2, rounder);
  Scalar const multiple = shifted - rounder;
  Scalar rest = multiply_add(multiple, -Constants::log2_high, x);
  rest = multiply_add(multiple, -Constants::log2_low, rest);
  Scalar const tail = exponential_series<2, Constants::exponential_terms>(rest);
  return {__builtin_bit_cast(Bits, shifted) - __builtin_bit_cast(Bits, rounder), multiply_add(rest * rest, tail, rest)};
}

/// 2^exponent, which must be a normal number.
template <class Scalar>
VARVE_HOST_DEVICE inline Scalar power_of_two(typename Elementary<Scalar>::Bits exponent) {
  using Bits = typename Elementary<Scalar>::Bits;
  return __builtin_bit_cast(
      Scalar, static_cast<Bits>((exponent + Elementary<Scalar>::exponent_bias) << Elementary<Scalar>::mantissa_bits));
}

} // namespace detail

/// exp(x), off by less than 1.1 units in the last place. NaN stays NaN.
template <class Scalar>
VARVE_HOST_DEVICE inline Scalar exponential(Scalar x) {
  using Constants = detail::Elementary<Scalar>;
  x = x < Constants::min_exponent ? Constants::min_exponent : x;
  x = x > Constants::max_exponent ? Constants::max_exponent : x;
  auto const reduced = detail::reduce_exponent(x);
  auto const half = reduced.multiple >> 1; // two factors, because 2^multiple may be subnormal or infinite
  return (reduced.less_one + Scalar(1)) * detail::power_of_two<Scalar>(half) *
         detail::power_of_two<Scalar>(reduced.multiple - half);
}

/// exp(x) - 1 for |x| up to 44, off by less than 2 units in the last place.
template <class Scalar>
VARVE_HOST_DEVICE inline Scalar exponential_less_one(Scalar x) {
  auto const reduced = detail::reduce_exponent(x);
  Scalar const power = detail::power_of_two<Scalar>(reduced.multiple);
  return multiply_add(power, reduced.less_one, power - Scalar(1));
}

/// log(x) = k * log 2 + log(1 + f) of a positive finite double x = 2^k * (1 + f), off by less than 1 unit in the last
/// place.
VARVE_HOST_DEVICE inline double logarithm(double x) {
  using Constants = detail::Elementary<double>;
  bool const is_subnormal = x < 0x1p-1022;
  if (is_subnormal) x *= 0x1p54;
  auto const bits = __builtin_bit_cast(std::int64_t, x);
  std::int64_t exponent = (bits >> 52) - Constants::exponent_bias;
  double mantissa = __builtin_bit_cast(double, (bits & 0xfffffffffffff) | (Constants::exponent_bias << 52));
  if (mantissa > 1.41421356237309504880) { // above sqrt(2): half of it is closer to 1, so |f| is smaller
    mantissa *= 0.5;
    ++exponent;
  }
  auto const multiple = static_cast<double>(is_subnormal ? exponent - 54 : exponent);
  double const f = mantissa - 1.0;
  auto const [s, rest] = detail::logarithm_rest<23>(f);
  double const low = multiply_add(multiple, Constants::log2_low, -(s * rest));
  return multiply_add(multiple, Constants::log2_high, f + low);
}

/// 1 / (1 + exp(-x)), off by less than 2.5 units in the last place; 0 where exp(-x) is too large for Scalar.
template <class Scalar>
VARVE_HOST_DEVICE inline Scalar sigmoid(Scalar x) {
  return Scalar(1) / (Scalar(1) + exponential(-x));
}

/// tanh(x) = t / (t + 2) with t = exp(2 |x|) - 1 and the sign of x; off by less than 3 units in the last place.
template <class Scalar>
VARVE_HOST_DEVICE inline Scalar hyperbolic_tangent(Scalar x) {
  constexpr Scalar largest = detail::Elementary<Scalar>::one_from;
  Scalar const magnitude = x < Scalar(0) ? -x : x;
  Scalar const twice = magnitude + magnitude;
  Scalar const t = exponential_less_one(twice > largest ? largest : twice);
  Scalar const result = t / (t + Scalar(2));
  return x < Scalar(0) ? -result : result;
}

/// log(1 + e) for e from 0 to 1, off by less than 2 units in the last place.
template <class Scalar>
VARVE_HOST_DEVICE inline Scalar logarithm_of_one_plus(Scalar e) {
  auto const [s, rest] = detail::logarithm_rest<detail::Elementary<Scalar>::logarithm_terms>(e);
  return multiply_add(-s, rest, e);
}

/// log(1 + exp(x)) = max(x, 0) + log(1 + e), where e = exp(-|x|); off by less than 2 units in the last place. Equals x
/// if x is so large that e is lost, and exp(x) if x is so small that the square of exp(x) is lost.
template <class Scalar>
VARVE_HOST_DEVICE inline Scalar softplus(Scalar x) {
  Scalar const e = exponential(x < Scalar(0) ? x : -x);
  return (x > Scalar(0) ? x : Scalar(0)) + logarithm_of_one_plus(e);
}

/// The derivative of softplus where its value is y >= 0: 1 - exp(-y), off by less than 2 units in the last place.
template <class Scalar>
VARVE_HOST_DEVICE inline Scalar softplus_derivative(Scalar y) {
  constexpr Scalar largest = detail::Elementary<Scalar>::one_from;
  return -exponential_less_one(y > largest ? -largest : -y);
}

/// The smooth activation functions. `none`: the activation function is piecewise linear.
enum class Curve : int { none, sigmoid, hyperbolic_tangent, softplus };

/// A curve's value at x; x itself for Curve::none.
template <class Scalar>
VARVE_HOST_DEVICE inline Scalar curved(Curve curve, Scalar x) {
  if (curve == Curve::sigmoid) return sigmoid(x);
  if (curve == Curve::hyperbolic_tangent) return hyperbolic_tangent(x);
  if (curve == Curve::softplus) return softplus(x);
  return x;
}

/// The derivative of a curve where its value is y: y (1 - y) of sigmoid, 1 - y^2 of tanh, 1 - exp(-y) of softplus.
template <class Scalar>
VARVE_HOST_DEVICE inline Scalar curve_derivative(Curve curve, Scalar y) {
  if (curve == Curve::sigmoid) return y * (Scalar(1) - y);
  if (curve == Curve::hyperbolic_tangent) return multiply_add(-y, y, Scalar(1));
  return softplus_derivative(y);
}

/// Host only: calls body with the curve as a constant, because compilers vectorize a loop over a curve only then.
template <class Body>
void with_curve(Curve curve, Body const& body) {
  switch (curve) {
  case Curve::none:
    return;
  case Curve::sigmoid:
    return body(std::integral_constant<Curve, Curve::sigmoid>());
  case Curve::hyperbolic_tangent:
    return body(std::integral_constant<Curve, Curve::hyperbolic_tangent>());
  case Curve::softplus:
    return body(std::integral_constant<Curve, Curve::softplus>());
  }
}

} // namespace varve
