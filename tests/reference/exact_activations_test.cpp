#include "reference/exact_activations.hpp"

#include "engine/random_case.hpp"
#include "reference/infer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace varve {
namespace {

/// Numbers modulo the prime 2^61 - 1, an arithmetic that shares nothing with the one under test.
class Residue {
public:
  static constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61U) - 1;

  explicit Residue(std::uint64_t number) : number_(number % kPrime) {}
  static Residue of(std::int64_t mantissa, std::int64_t exponent) {
    Residue const size = Residue(static_cast<std::uint64_t>(std::abs(mantissa))) * power_of_two(exponent);
    return mantissa < 0 ? Residue(0) - size : size;
  }
  static Residue of(double value) {
    int exponent = 0;
    auto const mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
    return of(mantissa, std::int64_t{exponent} - 53);
  }
  /// 2^61 is 1.
  static Residue power_of_two(std::int64_t exponent) {
    return Residue(std::uint64_t{1} << static_cast<unsigned>(((exponent % 61) + 61) % 61));
  }

  friend Residue operator+(Residue one, Residue other) { return Residue(one.number_ + other.number_); }
  friend Residue operator-(Residue one, Residue other) { return Residue(one.number_ + kPrime - other.number_); }
  friend Residue operator*(Residue one, Residue other) {
    Residue product(0);
    for (std::uint64_t rest = other.number_; rest != 0; rest >>= 1U) {
      if (rest % 2 == 1) product = product + one;
      one = one + one;
    }
    return product;
  }
  bool operator==(Residue const&) const = default;

private:
  std::uint64_t number_;
};

Residue residue_of(ExactActivations const& activations, std::size_t neuron) {
  Residue size(0);
  auto const words = activations.magnitude(neuron);
  for (std::size_t i = 0; i < words.size(); ++i)
    size = size + Residue(words[i]) * Residue::power_of_two(64 * static_cast<std::int64_t>(i));
  size = size * Residue::power_of_two(activations.exponent());
  return activations.sign(neuron) < 0 ? Residue(0) - size : size;
}

/// All layers of a network, and whether all behind one keep dead samples dead is not asked.
ExactActivations run(Network const& network, SampleSet const& samples, std::size_t row) {
  ExactActivations activations(samples, row);
  for (auto const& layer : network.layers()) {
    auto const distinct = distinct_layer(layer);
    activations.forward(ExactLayer(distinct), false);
  }
  return activations;
}

Layer one_output(std::vector<double> const& weights, double bias, Activation activation) {
  Layer layer;
  layer.weights.num_rows = 1;
  layer.weights.num_columns = weights.size();
  for (std::size_t i = 0; i < weights.size(); ++i) layer.weights.column_indices.push_back(static_cast<NeuronIndex>(i));
  layer.weights.values = weights;
  layer.weights.row_pointers.push_back(weights.size());
  layer.bias = {bias};
  layer.activation = activation;
  return layer;
}

SampleSet one_sample(std::vector<double> const& values) {
  SampleSet samples;
  samples.matrix = one_output(values, 0.0, Activation::relu()).weights;
  return samples;
}

TEST(Dyadic, IsTheDoubleItself) {
  using Limits = std::numeric_limits<double>;
  for (double const value : {1.0, -0.3, 32.0, 1.0 / 16.0, -1.0 / 3.0, Limits::max(), Limits::min(),
                             Limits::denorm_min(), -7.0 * Limits::denorm_min(), 0x1.fffffffffffffp-1}) {
    auto const [mantissa, exponent] = dyadic_of(value);
    EXPECT_EQ(std::ldexp(static_cast<double>(mantissa), exponent), value);
    EXPECT_EQ(std::abs(mantissa) % 2, 1) << value;
  }
  EXPECT_EQ(dyadic_of(0.0).mantissa, 0);
  EXPECT_EQ(dyadic_of(-0.0).mantissa, 0);
}

TEST(ExactActivations, AreTheSumsModuloAPrime) {
  // Identity everywhere: what comes out is a polynomial in the numbers of the files. Numbers of very different sizes.
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    test::RandomCases random(seed);
    std::size_t const width = 1 + random.below(12);
    auto const spread = [&](double value) {
      return std::ldexp(value, static_cast<int>(random.below(seed % 3 == 0 ? 600 : 9)) - 200);
    };
    SampleSet samples{random.draw_matrix(3, width, width, 1.0), 0};
    for (auto& value : samples.matrix.values) value = spread(value);
    std::vector<Layer> layers(1 + random.below(25));
    for (auto& layer : layers) {
      layer.weights = random.draw_matrix(width, width, width, 1.0);
      for (auto& weight : layer.weights.values) weight = spread(weight);
      layer.bias.assign(width, 0.0);
      for (auto& bias : layer.bias) bias = spread(random.real(-1.0, 1.0));
      layer.activation = Activation::identity();
    }
    Network const network(layers);
    for (std::size_t row = 0; row < 3; ++row) {
      std::vector<Residue> expected(width, Residue(0));
      for (auto entry = samples.matrix.row_pointers[row]; entry < samples.matrix.row_pointers[row + 1]; ++entry)
        expected[samples.matrix.column_indices[entry]] = Residue::of(samples.matrix.value(entry));
      for (auto const& layer : layers) {
        std::vector<Residue> next;
        for (std::size_t output = 0; output < width; ++output) {
          Residue sum = Residue::of(layer.bias_of(output));
          for (auto edge = layer.weights.row_pointers[output]; edge < layer.weights.row_pointers[output + 1]; ++edge)
            sum = sum + Residue::of(layer.weights.value(edge)) * expected[layer.weights.column_indices[edge]];
          next.push_back(sum);
        }
        expected = next;
      }
      auto const found = run(network, samples, row);
      for (std::size_t neuron = 0; neuron < width; ++neuron)
        ASSERT_EQ(residue_of(found, neuron), expected[neuron]) << "seed " << seed << ", sample " << row;
    }
  }
}

TEST(ExactActivations, AreTheReferenceWhereDoubleNeedsNoRounding) {
  std::size_t num_nonzero = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    test::RandomCases random(seed);
    std::size_t const width = 1 + random.below(20);
    auto const in_eighths = [&](double low, double high) { return std::round(8.0 * random.real(low, high)) / 8.0; };
    SampleSet samples{random.draw_matrix(4, width, width, 1.0), 0};
    for (auto& value : samples.matrix.values) value = in_eighths(-1.0, 2.0);
    std::vector<Layer> layers(1 + random.below(8)); // 3 bits each, and sums: 8 * 8 + 8 bits would be too many
    if (layers.size() > 6) layers.resize(6);
    for (auto& layer : layers) {
      layer.weights = random.draw_matrix(width, width, 4, 1.0);
      for (auto& weight : layer.weights.values) weight = in_eighths(-1.0, 1.0);
      layer.bias.assign(random.below(2) == 0 ? 1 : width, 0.0);
      for (auto& bias : layer.bias) bias = in_eighths(-0.5, 0.5);
      auto const kind = random.below(4);
      layer.activation = kind == 0   ? Activation::relu()
                         : kind == 1 ? Activation::identity()
                         : kind == 2 ? Activation::leaky_relu(0.25)
                                     : Activation::clipped_relu(0.125 + std::abs(in_eighths(0.0, 2.0)));
    }
    Network const network(layers);
    auto const expected = infer<double>(network, samples);
    for (std::size_t row = 0; row < samples.num_samples(); ++row) {
      auto const found = run(network, samples, row);
      std::vector<double> values(width);
      for (auto entry = expected.matrix.row_pointers[row]; entry < expected.matrix.row_pointers[row + 1]; ++entry)
        values[expected.matrix.column_indices[entry]] = expected.matrix.value(entry);
      for (std::size_t neuron = 0; neuron < width; ++neuron) {
        ASSERT_EQ(found.value(neuron), values[neuron]) << "seed " << seed;
        num_nonzero += values[neuron] != 0.0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(num_nonzero, 500U);
}

TEST(ExactActivations, KnowWhatDoubleRoundsAway) {
  double const tiny = std::ldexp(1.0, -1000);
  Network const network({one_output({1.0, 1.0}, -1.0, Activation::relu())});
  EXPECT_EQ(run(network, one_sample({1.0, tiny}), 0).value(0), tiny);
  EXPECT_TRUE(run(network, one_sample({1.0, -tiny}), 0).is_dead());
  EXPECT_TRUE(run(network, one_sample({1.0, 0.0}), 0).is_dead());
  Network const tenths({one_output({0.1, 0.2, -0.3}, 0.0, Activation::identity())}); // the doubles add up to 2^-55
  EXPECT_EQ(run(tenths, one_sample({1.0, 1.0, 1.0}), 0).value(0), std::ldexp(1.0, -55));
}

TEST(ExactActivations, AreCappedExactly) {
  double const tiny = std::ldexp(1.0, -200);
  Layer const capped = one_output({1.0, 1.0}, 0.0, Activation::clipped_relu(0.3));
  Network const network({capped, one_output({1.0}, -0.3, Activation::identity())}); // what is left of the cap
  EXPECT_EQ(run(network, one_sample({0.3, -tiny}), 0).value(0), -tiny);
  EXPECT_EQ(run(network, one_sample({0.3, 0.0}), 0).value(0), 0.0);
  EXPECT_EQ(run(network, one_sample({0.3, tiny}), 0).value(0), 0.0);
}

TEST(ExactActivations, GrowWithLayersAndShrinkAtTheCap) {
  SampleSet const samples = one_sample({1.0 / 3.0});
  std::vector<Layer> layers(20, one_output({1.0 / 3.0}, 0.1, Activation::relu()));
  EXPECT_GT(run(Network(layers), samples, 0).magnitude(0).size(), 15U);
  layers.push_back(one_output({1e6}, 0.0, Activation::clipped_relu(32.0)));
  EXPECT_EQ(run(Network(layers), samples, 0).magnitude(0).size(), 1U);
  EXPECT_EQ(run(Network(layers), samples, 0).value(0), 32.0);
}

TEST(ExactActivations, HaveNoOverflowAndNoUnderflow) {
  std::vector<Layer> layers(8, one_output({1e300}, 0.0, Activation::relu()));
  EXPECT_EQ(run(Network(layers), one_sample({1.0}), 0).value(0), std::numeric_limits<double>::max());
  layers.insert(layers.end(), 9, one_output({1e-300}, 0.0, Activation::relu()));
  EXPECT_NEAR(run(Network(layers), one_sample({1e300}), 0).value(0), 1.0, 1e-14);
  layers.insert(layers.end(), 9, one_output({1e-300}, 0.0, Activation::relu()));
  EXPECT_EQ(run(Network(layers), one_sample({1.0}), 0).value(0), std::numeric_limits<double>::denorm_min());
}

TEST(ExactActivations, AreRoundedToTheNearestDouble) {
  double const two_to_53 = std::ldexp(1.0, 53);
  auto const sum = [](std::vector<double> const& values) {
    Network const network({one_output(std::vector<double>(values.size(), 1.0), 0.0, Activation::identity())});
    return run(network, one_sample(values), 0).value(0);
  };
  EXPECT_EQ(sum({two_to_53, 1.0}), two_to_53) << "to even";
  EXPECT_EQ(sum({two_to_53, 1.0, 1e-300}), two_to_53 + 2.0) << "just above the middle";
  EXPECT_EQ(sum({two_to_53, 3.0}), two_to_53 + 4.0) << "to even";
  EXPECT_EQ(sum({two_to_53, 3.0, -1e-300}), two_to_53 + 2.0) << "just below the middle";
  EXPECT_EQ(sum({-two_to_53, -1.0, -1e-300}), -two_to_53 - 2.0);
}

} // namespace
} // namespace varve
