#include "reference/enclosure.hpp"

#include "engine/draw.hpp"
#include "engine/random_case.hpp"
#include "passes/edge_order.hpp"
#include "passes/reduced_network.hpp"
#include "reference/exact_activations.hpp"
#include "reference/infer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {
namespace {

std::vector<double> dense_row(SampleSet const& set, std::size_t row) {
  std::vector<double> values(set.num_neurons());
  auto const& matrix = set.matrix;
  for (auto entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry)
    values[matrix.column_indices[entry]] = matrix.value(entry);
  return values;
}

/// Layers whose rows need not ascend.
class AnyOrder final : public NetworkSource {
public:
  explicit AnyOrder(std::vector<Layer> layers) : layers_(std::move(layers)) {}

  std::string name() const override { return "edges in any order"; }
  std::size_t num_layers() const override { return layers_.size(); }
  Layer layer(std::size_t number) const override { return layers_[number]; }

private:
  std::vector<Layer> layers_;
};

/// What computations of a precision may give: the loops over the network, with edges in two orders, and over the
/// network with equal neurons merged.
template <class Scalar>
std::vector<SampleSet> results_in(Network const& network, SampleSet const& samples) {
  std::vector<SampleSet> results = {infer<Scalar>(network, samples)};
  auto layers = network.layers();
  for (auto& layer : layers) balance_edges(layer.weights);
  results.push_back(infer<Scalar>(AnyOrder(layers), samples));
  ReducedNetwork const reduced(network, {.merge_outputs = false}, std::numeric_limits<std::size_t>::max());
  results.push_back(infer<Scalar>(reduced, samples));
  return results;
}

struct Counts {
  std::size_t certain = 0;
  std::size_t open = 0;
  std::size_t unknown = 0;
  std::size_t nonzeros = 0;
};

template <class Scalar>
void expect_inside(Network const& network, SampleSet const& samples, Counts& counts) {
  constexpr auto precision = std::is_same_v<Scalar, double> ? Precision::double_precision : Precision::single_precision;
  auto const results = results_in<Scalar>(network, samples);
  for (std::size_t row = 0; row < samples.num_samples(); ++row) {
    Enclosure enclosure(samples, row, precision);
    ExactActivations exact(samples, row);
    for (auto const& layer : network.layers()) {
      auto const distinct = distinct_layer(layer);
      enclosure.forward(distinct, false);
      exact.forward(ExactLayer(distinct), false);
    }
    if (enclosure.state() == Enclosure::State::unknown) {
      ++counts.unknown;
      continue;
    }
    bool is_alive = false;
    for (std::size_t neuron = 0; neuron < network.num_outputs(); ++neuron) {
      auto const [centre, radius] = enclosure.activations()[neuron];
      ASSERT_LE(std::abs(exact.value(neuron) - centre), radius) << "neuron " << neuron;
      for (auto const& result : results)
        ASSERT_LE(std::abs(dense_row(result, row)[neuron] - centre), radius) << "neuron " << neuron;
      ASSERT_TRUE(radius > 0.0 || centre != 0.0 || exact.sign(neuron) == 0) << "neuron " << neuron;
      is_alive = is_alive || exact.sign(neuron) != 0;
      counts.nonzeros += exact.sign(neuron) != 0 ? 1 : 0;
    }
    if (enclosure.is_certain()) {
      ASSERT_EQ(enclosure.is_alive(), is_alive);
      for (auto const& result : results)
        ASSERT_EQ(std::ranges::count(categories(result), result.first_sample + row), is_alive);
    }
    ++(enclosure.is_certain() ? counts.certain : counts.open);
  }
}

TEST(Enclosure, HoldsTheExactActivationsAndEveryComputation) {
  Counts in_float;
  Counts in_double;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto random = test::random_case(seed);
    auto const samples = samples_of(random.samples, 0, std::min<std::size_t>(random.samples.num_samples(), 6));
    expect_inside<float>(random.network, samples, in_float);
    expect_inside<double>(random.network, samples, in_double);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(in_double.nonzeros, 2000U);
  EXPECT_GT(in_double.certain, 20 * in_double.open) << "bounds are narrow";
  EXPECT_GT(in_float.certain, 5 * in_float.open);
  EXPECT_EQ(in_double.unknown + in_float.unknown, 0U);
}

/// A network of few neurons whose numbers are so small, or so large, that products underflow, and a sample for it.
/// most: the largest weight.
test::RandomCase tiny_case(std::uint64_t seed, double most) {
  constexpr double denormal = std::numeric_limits<double>::denorm_min();
  test::RandomCases random(seed);
  auto const power = [&](double least) { // 10^-324 ... 10^0, those of float more often
    double const tens = random.below(2) == 0 ? random.real(-46.0, 0.0) : random.real(least, 0.0);
    return (random.below(2) == 0 ? -1.0 : 1.0) * std::max(denormal, std::pow(10.0, tens));
  };
  constexpr std::array slopes = {denormal, 1e-310, 1e-300, 1e-160, 1e-44, 1e-30, 1e-3, 0.01, 0.5, 1.0 - 0x1p-53};
  std::size_t width = 1 + random.below(3);
  SampleSet samples{random.draw_matrix(1, width, width, 1.0), 0};
  for (auto& value : samples.matrix.values) value = power(-324.0);
  std::vector<Layer> layers(1 + random.below(5));
  for (auto& layer : layers) {
    std::size_t const outputs = 1 + random.below(3);
    layer.weights = random.draw_matrix(outputs, width, width, 1.0);
    bool const is_large = random.below(4) == 0; // brings back what nearly vanished
    for (auto& weight : layer.weights.values) weight = is_large ? most * power(-10.0) : power(-324.0);
    if (random.below(2) == 0) std::ranges::fill(layer.weights.values, random.below(2) == 0 ? 1.0 : -1.0);
    layer.bias = {random.below(3) == 0 ? power(-324.0) : 0.0};
    auto const kind = random.below(6);
    layer.activation = kind == 0   ? Activation::relu()
                       : kind == 1 ? Activation::identity()
                       : kind == 2 ? Activation::clipped_relu(std::abs(power(-300.0)))
                                   : Activation::leaky_relu(slopes.at(random.below(slopes.size())));
    width = outputs;
  }
  return {Network(std::move(layers)), std::move(samples)};
}

TEST(Enclosure, HoldsWhatUnderflows) {
  Counts in_float;
  Counts in_double;
  auto const num_seeds = test::Draw::count(4000);
  for (std::uint64_t seed = 0; seed < num_seeds; ++seed) {
    SCOPED_TRACE(seed);
    auto const for_float = tiny_case(seed, 1e30);
    expect_inside<float>(for_float.network, for_float.samples, in_float);
    auto const for_double = tiny_case(seed, 1e300);
    expect_inside<double>(for_double.network, for_double.samples, in_double);
    if (testing::Test::HasFatalFailure()) return;
  }
  for (auto const& counts : {in_float, in_double}) {
    EXPECT_GT(counts.nonzeros, num_seeds / 2);
    EXPECT_GT(counts.certain, num_seeds / 4);
    EXPECT_GT(counts.open, num_seeds / 20);
  }
}

TEST(Enclosure, OfASmallSlopeOverManyLayersIsOpen) {
  constexpr std::size_t num_layers = 170; // 0.01^170 is less than the least double
  Layer layer;
  layer.weights = {1, 1, {0, 1}, {0}, {1.0}};
  layer.activation = Activation::leaky_relu(0.01);
  auto const distinct = distinct_layer(layer);
  Enclosure enclosure({{1, 1, {0, 1}, {0}, {-1.0}}, 0}, 0, Precision::double_precision);
  for (std::size_t number = 0; number < num_layers; ++number) enclosure.forward(distinct, false);
  EXPECT_FALSE(enclosure.is_certain());
  EXPECT_FALSE(enclosure.activations().front().is_zero());
}

template <class Scalar>
void expect_curves_inside(Network const& network, SampleSet const& samples) {
  constexpr auto precision = std::is_same_v<Scalar, double> ? Precision::double_precision : Precision::single_precision;
  auto const results = results_in<Scalar>(network, samples);
  for (std::size_t row = 0; row < samples.num_samples(); ++row) {
    Enclosure enclosure(samples, row, precision);
    for (auto const& layer : network.layers()) enclosure.forward(distinct_layer(layer), false);
    ASSERT_EQ(enclosure.state(), Enclosure::State::open);
    for (std::size_t neuron = 0; neuron < network.num_outputs(); ++neuron) {
      auto const [centre, radius] = enclosure.activations()[neuron];
      for (auto const& result : results)
        ASSERT_LE(std::abs(dense_row(result, row)[neuron] - centre), radius) << "neuron " << neuron;
    }
  }
}

TEST(Enclosure, HoldsEveryComputationOfCurves) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    auto random = test::random_case(seed);
    auto const samples = samples_of(random.samples, 0, std::min<std::size_t>(random.samples.num_samples(), 6));
    auto const network = test::with_curves(random.network, seed);
    expect_curves_inside<float>(network, samples);
    expect_curves_inside<double>(network, samples);
    if (testing::Test::HasFatalFailure()) return;
  }
}

/// x at a neuron goes through weight 1 and this bias.
Enclosure through(double x, double bias, Activation activation, Precision precision, double weight = 1.0) {
  Layer layer;
  layer.weights = {1, 1, {0, 1}, {0}, {weight}};
  layer.bias = {bias};
  layer.activation = activation;
  SampleSet const samples{{1, 1, {0, 1}, {0}, {x}}, 0};
  Enclosure enclosure(samples, 0, precision);
  enclosure.forward(distinct_layer(layer), true);
  return enclosure;
}

TEST(Enclosure, IsOpenWithinRoundingErrorsOnly) {
  double const in_double = std::ldexp(1.0, -50);
  double const in_float = std::ldexp(1.0, -21);
  auto const relu = Activation::relu();
  for (double const sign : {-1.0, 1.0}) {
    EXPECT_FALSE(through(1.0, -1.0 + sign * in_double / 4, relu, Precision::double_precision).is_certain());
    EXPECT_TRUE(through(1.0, -1.0 + sign * in_double * 16, relu, Precision::double_precision).is_certain());
    EXPECT_FALSE(through(1.0, -1.0 + sign * in_double * 16, relu, Precision::single_precision).is_certain());
    EXPECT_FALSE(through(1.0, -1.0 + sign * in_float / 4, relu, Precision::single_precision).is_certain());
    EXPECT_TRUE(through(1.0, -1.0 + sign * in_float * 16, relu, Precision::single_precision).is_certain());
  }
  EXPECT_TRUE(through(1.0, -0.5, relu, Precision::single_precision).is_alive());
  EXPECT_TRUE(through(1.0, -1.5, relu, Precision::single_precision).is_dead());
  EXPECT_EQ(through(1.0, -0.5, relu, Precision::single_precision).margin(), 0.5);
  EXPECT_EQ(through(1.0, -1.5, relu, Precision::single_precision).margin(), 0.5);
  EXPECT_EQ(through(1.0, 0.5, relu, Precision::single_precision, -1.0).margin(), 0.5);
}

TEST(Enclosure, KnowsThatCapsAreRounded) {
  auto const in_float = through(5.0, 0.0, Activation::clipped_relu(0.3), Precision::single_precision);
  EXPECT_LE(std::abs(in_float.activations()[0].centre - static_cast<double>(0.3F)), in_float.activations()[0].radius);
  EXPECT_LE(std::abs(in_float.activations()[0].centre - 0.3), in_float.activations()[0].radius);
  auto const in_double = through(5.0, 0.0, Activation::clipped_relu(0.3), Precision::double_precision);
  EXPECT_EQ(in_double.activations()[0].centre, 0.3);
  EXPECT_EQ(in_double.activations()[0].radius, 0.0);
}

TEST(Enclosure, OfACurveIsNarrow) {
  auto const curved = through(1.0, 0.0, Activation::sigmoid(), Precision::double_precision);
  EXPECT_NEAR(curved.activations()[0].centre, 0.7310585786300049, 1e-15);
  EXPECT_LT(curved.activations()[0].radius, 1e-14);
  EXPECT_TRUE(curved.is_alive());
}

TEST(Enclosure, OfASampleThatDiedStaysSo) {
  auto const dead = through(1.0, -1.5, Activation::relu(), Precision::double_precision);
  EXPECT_EQ(dead.state(), Enclosure::State::dead);
  EXPECT_TRUE(dead.activations().empty());
  auto const empty = through(0.0, -0.5, Activation::relu(), Precision::double_precision);
  EXPECT_EQ(empty.state(), Enclosure::State::dead);
  EXPECT_TRUE(std::isinf(empty.margin())) << "it never lived";
  auto const unread = through(0.0, 0.0, Activation::relu(), Precision::single_precision);
  EXPECT_TRUE(unread.is_dead());
}

TEST(Enclosure, SaysNothingBeyondTheRangeOfNumbers) {
  EXPECT_TRUE(through(1.0, 0.0, Activation::relu(), Precision::single_precision, 1e37).is_alive());
  auto const beyond = through(1e5, 0.0, Activation::relu(), Precision::single_precision, 1e37);
  EXPECT_EQ(beyond.state(), Enclosure::State::unknown);
  EXPECT_FALSE(beyond.is_certain());
  EXPECT_TRUE(through(1e5, 0.0, Activation::relu(), Precision::double_precision, 1e37).is_alive());
  EXPECT_FALSE(through(1e200, 0.0, Activation::relu(), Precision::double_precision, 1e200).is_certain());
}

TEST(Enclosure, KnowsThatSmallNumbersVanish) {
  EXPECT_FALSE(through(1e-30, 0.0, Activation::relu(), Precision::single_precision, 1e-30).is_certain());
  EXPECT_FALSE(through(0.0, 1e-50, Activation::relu(), Precision::single_precision).is_certain());
  EXPECT_TRUE(through(1e-30, 0.0, Activation::relu(), Precision::double_precision, 1e-30).is_alive());
  EXPECT_FALSE(through(1e-200, 0.0, Activation::relu(), Precision::double_precision, 1e-200).is_certain());
}

} // namespace
} // namespace varve
