#include "core/elementary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace varve {
namespace {

/// |value - exact| in units of the last place of Scalar at the exact value. long double has 11 bits more than double.
template <class Scalar>
double error_in_ulp(Scalar value, long double exact) {
  long double const magnitude = std::max(std::abs(exact), static_cast<long double>(std::numeric_limits<Scalar>::min()));
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  long double const ulp = std::ldexp(1.0L, exponent - std::numeric_limits<Scalar>::digits);
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact) / ulp);
}

/// The largest error of `function` over arguments spread evenly over [low, high], with the ends.
template <class Scalar, class Function, class Exact>
double largest_error(double low, double high, Function const& function, Exact const& exact) {
  constexpr int steps = 400000;
  double largest = 0.0;
  for (int step = 0; step <= steps; ++step) {
    auto const x = static_cast<Scalar>(low + (high - low) * step / steps);
    largest = std::max(largest, error_in_ulp(function(x), exact(static_cast<long double>(x))));
  }
  return largest;
}

long double exact_sigmoid(long double x) { return 1.0L / (1.0L + std::exp(-x)); }

template <class Scalar>
class Elementary : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(Elementary, Scalars);

TYPED_TEST(Elementary, ExponentialIsOffByLessThanTheBound) {
  auto const exact = [](long double x) { return std::exp(x); };
  auto const function = [](TypeParam x) { return exponential(x); };
  bool const is_float = sizeof(TypeParam) == 4;
  EXPECT_LT(largest_error<TypeParam>(-1.0, 1.0, function, exact), 1.1);
  EXPECT_LT(largest_error<TypeParam>(is_float ? -87.0 : -708.0, is_float ? 88.7 : 709.7, function, exact), 1.1);
  EXPECT_LT(largest_error<TypeParam>(is_float ? -103.0 : -745.0, is_float ? -87.0 : -708.0, function, exact), 1.1);
}

TYPED_TEST(Elementary, ExponentialHasItsValuesAtTheEnds) {
  using Limits = std::numeric_limits<TypeParam>;
  EXPECT_EQ(exponential(TypeParam(0)), TypeParam(1));
  EXPECT_EQ(exponential(-Limits::infinity()), TypeParam(0));
  EXPECT_EQ(exponential(Limits::lowest()), TypeParam(0));
  EXPECT_EQ(exponential(Limits::infinity()), Limits::infinity());
  EXPECT_EQ(exponential(Limits::max()), Limits::infinity());
  EXPECT_TRUE(std::isnan(exponential(Limits::quiet_NaN())));
}

TYPED_TEST(Elementary, SigmoidIsOffByLessThanTheBound) {
  auto const function = [](TypeParam x) { return sigmoid(x); };
  EXPECT_LT(largest_error<TypeParam>(-80.0, 80.0, function, exact_sigmoid), 2.5);
  EXPECT_LT(largest_error<TypeParam>(-2.0, 2.0, function, exact_sigmoid), 2.5);
  EXPECT_EQ(sigmoid(TypeParam(0)), TypeParam(0.5));
  EXPECT_EQ(sigmoid(TypeParam(1e4)), TypeParam(1));
  EXPECT_EQ(sigmoid(TypeParam(-1e4)), TypeParam(0));
}

TYPED_TEST(Elementary, HyperbolicTangentIsOffByLessThanTheBound) {
  auto const exact = [](long double x) { return std::tanh(x); };
  auto const function = [](TypeParam x) { return hyperbolic_tangent(x); };
  EXPECT_LT(largest_error<TypeParam>(-25.0, 25.0, function, exact), 3.0);
  EXPECT_LT(largest_error<TypeParam>(-1.0, 1.0, function, exact), 3.0);
  EXPECT_LT(largest_error<TypeParam>(-1e-5, 1e-5, function, exact), 3.0);
  EXPECT_EQ(hyperbolic_tangent(TypeParam(0)), TypeParam(0));
  EXPECT_EQ(hyperbolic_tangent(TypeParam(1e9)), TypeParam(1));
  EXPECT_EQ(hyperbolic_tangent(TypeParam(-1e9)), TypeParam(-1));
  auto const least = std::numeric_limits<TypeParam>::denorm_min();
  EXPECT_EQ(hyperbolic_tangent(least), least);
}

TYPED_TEST(Elementary, SoftplusIsOffByLessThanTheBound) {
  auto const function = [](TypeParam x) { return softplus(x); };
  auto const exact = [](long double x) { return std::max(x, 0.0L) + std::log1p(std::exp(-std::abs(x))); };
  EXPECT_LT(largest_error<TypeParam>(-80.0, 80.0, function, exact), 2.0);
  EXPECT_LT(largest_error<TypeParam>(-2.0, 2.0, function, exact), 2.0);
  EXPECT_LT(largest_error<TypeParam>(-750.0, -80.0, function, exact), 2.0) << "where it underflows";
}

TYPED_TEST(Elementary, SoftplusIsItsArgumentOrTheExponentialAtTheEnds) {
  using Limits = std::numeric_limits<TypeParam>;
  bool const is_float = sizeof(TypeParam) == 4;
  for (auto x = static_cast<TypeParam>(is_float ? 14.6 : 33.3); x < Limits::max() / 4; x *= TypeParam(1.25))
    EXPECT_EQ(softplus(x), x);
  for (auto x = static_cast<TypeParam>(is_float ? -16.7 : -36.8); x > Limits::lowest() / 4; x *= TypeParam(1.01))
    EXPECT_EQ(softplus(x), exponential(x)) << x;
  EXPECT_EQ(softplus(Limits::max()), Limits::max());
  EXPECT_EQ(softplus(Limits::lowest()), TypeParam(0));
  EXPECT_FALSE(std::signbit(softplus(Limits::lowest()))) << "the bits tell whether an activation is zero";
  EXPECT_TRUE(std::isnan(softplus(Limits::quiet_NaN())));
}

/// By its value y it is 1 - exp(-y), which is sigmoid(x) where y = log(1 + exp(x)).
TYPED_TEST(Elementary, SoftplusDerivativeIsOffByLessThanTheBound) {
  auto const function = [](TypeParam y) { return softplus_derivative(y); };
  auto const exact = [](long double y) { return -std::expm1(-y); };
  EXPECT_LT(largest_error<TypeParam>(0.0, 60.0, function, exact), 2.0);
  EXPECT_LT(largest_error<TypeParam>(0.0, 1.0, function, exact), 2.0);
  EXPECT_LT(largest_error<TypeParam>(0.0, 1e-5, function, exact), 2.0);
  using Limits = std::numeric_limits<TypeParam>;
  EXPECT_EQ(softplus_derivative(TypeParam(0)), TypeParam(0));
  EXPECT_EQ(softplus_derivative(Limits::denorm_min()), Limits::denorm_min());
  EXPECT_EQ(softplus_derivative(Limits::max()), TypeParam(1));
  for (TypeParam x = -80; x < 30; x += TypeParam(0.37)) {
    TypeParam const slope = softplus_derivative(softplus(x));
    EXPECT_NEAR(slope, static_cast<double>(exact_sigmoid(x)), 8 * Limits::epsilon() * slope) << x;
  }
}

TEST(Logarithm, IsOffByLessThanTheBound) {
  auto const exact = [](long double x) { return std::log(x); };
  EXPECT_LT(largest_error<double>(0.5, 2.0, logarithm, exact), 1.0);
  EXPECT_LT(largest_error<double>(1.0 - 1e-9, 1.0 + 1e-9, logarithm, exact), 1.0);
  EXPECT_LT(largest_error<double>(1.0, 1e6, logarithm, exact), 1.0);
  auto const of_power = [&](double x) { return logarithm(std::exp2(x)); };
  double largest = 0.0;
  for (int step = 0; step <= 100000; ++step) {
    double const x = std::exp2(-1074.0 + step * (2097.9 / 100000));
    largest = std::max(largest, error_in_ulp(logarithm(x), std::log(static_cast<long double>(x))));
  }
  EXPECT_LT(largest, 1.0);
  EXPECT_EQ(of_power(0.0), 0.0);
}

} // namespace
} // namespace varve
