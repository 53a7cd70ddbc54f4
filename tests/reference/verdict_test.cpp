#include "reference/verdict.hpp"

#include "core/error.hpp"
#include "engine/hand_made.hpp"
#include "engine/random_case.hpp"
#include "passes/reduced_network.hpp"
#include "reference/infer.hpp"
#include "reference/tie_network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace varve {
namespace {

using test::diagonal_layer;
using test::kTies;
using test::ramp_samples;
using test::Tie;

Verdict verdict_on(Network const& network, SampleSet const& samples, Arithmetic arithmetic = Arithmetic::exact) {
  return judge(network, samples, arithmetic, false).of_samples.at(0);
}

TEST(Ties, FallAsExactArithmeticSays) {
  for (Tie const& tie : kTies) {
    SCOPED_TRACE(tie.bias);
    auto const network = test::network_of(tie);
    auto const sample = test::sample_of(tie);
    auto const verdict = verdict_on(network, sample);
    EXPECT_EQ(verdict.is_alive, tie.is_alive);
    EXPECT_FALSE(verdict.is_certain_in_double);
    EXPECT_FALSE(verdict.is_certain_in_float);
    EXPECT_GT(verdict.margin, 0.0);
    EXPECT_LT(verdict.margin, 1e-15);
    EXPECT_EQ(verdict_on(network, sample, Arithmetic::double_precision).is_alive, tie.is_alive_in_double);
  }
}

TEST(Ties, MayFallTheOtherWayInAMergedNetwork) {
  // The promise of ReducedNetwork: the same categories in double, but where a threshold is met to rounding.
  for (Tie const& tie : kTies) {
    SCOPED_TRACE(tie.bias);
    auto const network = test::network_of(tie);
    ReducedNetwork const reduced(network, {}, std::numeric_limits<std::size_t>::max());
    EXPECT_EQ(reduced.report().merged_neurons, 2U);
    EXPECT_EQ(categories(infer<double>(network, test::sample_of(tie))).size(), tie.is_alive_in_double ? 1U : 0U);
    EXPECT_EQ(categories(infer<double>(reduced, test::sample_of(tie))).size(), tie.is_alive_merged ? 1U : 0U);
  }
}

TEST(Verdicts, OfAThresholdThatIsMetExactly) {
  Network const network({diagonal_layer(1, 1.0, {-0.5}, Activation::relu())});
  auto const samples = ramp_samples(6, 1); // the last has 0.5
  auto const verdict = judge(network, samples, Arithmetic::exact, false).of_samples[5];
  EXPECT_FALSE(verdict.is_alive);
  EXPECT_FALSE(verdict.is_certain_in_double);
  EXPECT_EQ(verdict.margin, 0.0);
}

TEST(Verdicts, MarginsAreThoseOfTheDecisiveLayer) {
  // 0.1 * s comes in; layer by layer 0.25 goes: sample 4 has 0.4, 0.15, -0.1, ...
  Network const network(std::vector<Layer>(3, diagonal_layer(3, 1.0, {-0.25}, Activation::relu())));
  for (auto const arithmetic : {Arithmetic::exact, Arithmetic::double_precision}) {
    auto const verdicts = judge(network, ramp_samples(12, 3), arithmetic, false).of_samples;
    EXPECT_TRUE(std::isinf(verdicts[0].margin)) << "never alive";
    EXPECT_FALSE(verdicts[0].is_alive);
    EXPECT_TRUE(verdicts[0].is_certain_in_float);
    for (std::size_t sample = 1; sample < 12; ++sample) {
      double const x = 0.1 * static_cast<double>(sample);
      EXPECT_EQ(verdicts[sample].is_alive, x > 0.75);
      EXPECT_TRUE(verdicts[sample].is_certain_in_float);
      EXPECT_TRUE(verdicts[sample].is_certain_in_double);
      double const margin = x < 0.25 ? 0.25 - x : x < 0.5 ? 0.5 - x : std::abs(0.75 - x);
      EXPECT_NEAR(verdicts[sample].margin, margin, 1e-12) << sample;
    }
  }
}

TEST(Verdicts, LayersThatReviveDoNotCountForTheMargin) {
  std::vector<Layer> const layers = {diagonal_layer(1, 1.0, {-0.5 - 1e-9}, Activation::relu()),
                                     diagonal_layer(1, 1.0, {0.125}, Activation::relu()),
                                     diagonal_layer(1, 1.0, {-0.1}, Activation::relu())};
  auto const verdicts = judge(Network(layers), ramp_samples(8, 1), Arithmetic::exact, false).of_samples;
  for (auto const& verdict : verdicts) EXPECT_TRUE(verdict.is_alive);
  EXPECT_NEAR(verdicts[0].margin, 0.025, 1e-12) << "an empty sample, too, after it was revived";
  EXPECT_NEAR(verdicts[5].margin, 0.025, 1e-12);
  EXPECT_NEAR(verdicts[7].margin, 0.225 - 1e-9, 1e-12);
}

TEST(Verdicts, WithIdentityAreAboutAnyValueButZero) {
  Network const network(
      {diagonal_layer(2, -1.0, {0.0}, Activation::identity()), diagonal_layer(2, 1.0, {0.35}, Activation::identity())});
  auto const verdicts = judge(network, ramp_samples(5, 2), Arithmetic::exact, true);
  for (auto const& verdict : verdicts.of_samples) EXPECT_TRUE(verdict.is_alive);
  // 0.3 - 3 / 10.0: both are the double nearest to three tenths.
  Network const cancels({diagonal_layer(2, -1.0, {0.3}, Activation::identity())});
  auto const cancelled = judge(cancels, ramp_samples(5, 2), Arithmetic::exact, true);
  EXPECT_FALSE(cancelled.of_samples[3].is_alive);
  EXPECT_EQ(cancelled.of_samples[3].margin, 0.0);
  EXPECT_TRUE(cancelled.of_samples[4].is_alive);
  EXPECT_EQ(cancelled.activations.matrix.row_size(3), 0U);
  EXPECT_EQ(cancelled.activations.matrix.row_size(4), 2U);
}

TEST(Verdicts, OfRandomNetworksAreTheReferenceUpToRounding) {
  std::size_t num_near = 0;
  std::size_t num_samples = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    auto const [network, samples] = test::random_case(seed);
    auto const expected = infer<double>(network, samples);
    auto const in_double = judge(network, samples, Arithmetic::double_precision, true);
    ASSERT_EQ(in_double.activations, expected);
    auto const alive = categories(expected);
    auto const exact = judge(network, samples, Arithmetic::exact, true);
    ASSERT_EQ(exact.activations.num_samples(), samples.num_samples());
    ASSERT_EQ(exact.activations.first_sample, samples.first_sample);
    for (std::size_t sample = 0; sample < samples.num_samples(); ++sample) {
      bool const is_alive = std::ranges::binary_search(alive, samples.first_sample + sample);
      ASSERT_EQ(in_double.of_samples[sample].is_alive, is_alive);
      ASSERT_EQ(exact.activations.matrix.row_size(sample) > 0, exact.of_samples[sample].is_alive);
      ++num_samples;
      if (exact.of_samples[sample].is_certain_in_double) {
        ASSERT_EQ(exact.of_samples[sample].is_alive, is_alive);
      } else {
        ++num_near;
      }
    }
  }
  EXPECT_GT(num_samples, 2000U);
  EXPECT_LT(num_near, num_samples / 10);
}

TEST(Verdicts, OfCurvesAreInDoubleOnly) {
  auto const network = test::with_curves(test::random_case(3).network, 3);
  auto const samples = test::random_case(3).samples;
  auto const in_double = judge(network, samples, Arithmetic::double_precision, true);
  EXPECT_EQ(in_double.activations, infer<double>(network, samples));
  try {
    judge(network, samples, Arithmetic::exact, false);
    FAIL() << "no complaint";
  } catch (InputError const& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("which cannot be computed without rounding; verify without --exact"));
  }
}

TEST(Verdicts, RefuseWhatDoesNotFit) {
  Network const network({diagonal_layer(3, 1.0, {0.0}, Activation::relu())}, "small");
  try {
    judge(network, ramp_samples(2, 4), Arithmetic::exact, false);
    FAIL() << "no complaint";
  } catch (InputError const& error) {
    EXPECT_STREQ(error.what(), "the samples have 4 neurons, but layer 0 of small takes 3 inputs");
  }
  EXPECT_TRUE(judge(network, ramp_samples(0, 3), Arithmetic::exact, true).of_samples.empty());
}

} // namespace
} // namespace varve
