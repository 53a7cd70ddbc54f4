#include "radixnet/images.hpp"

#include "core/error.hpp"
#include "radixnet/network.hpp"
#include "reference/infer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// Number of pixels that are set, over all samples and pixels.
double density_of(SampleSet const& samples) {
  return static_cast<double>(samples.matrix.num_entries()) /
         (static_cast<double>(samples.num_samples()) * static_cast<double>(samples.num_neurons()));
}

std::uint64_t fingerprint_of(SampleSet const& samples) {
  std::uint64_t fingerprint = 0;
  for (auto const neuron : samples.matrix.column_indices) fingerprint = fingerprint * 1000003U + neuron;
  for (auto const pointer : samples.matrix.row_pointers) fingerprint = fingerprint * 1000003U + pointer;
  return fingerprint;
}

TEST(DigitImages, AreASetOfOnes) {
  auto const images = digit_images(1024, 100, 1);
  require_valid(images.matrix, "images");
  EXPECT_EQ(images.num_samples(), 100U);
  EXPECT_EQ(images.num_neurons(), 1024U);
  EXPECT_EQ(images.first_sample, 0U);
  EXPECT_EQ(images.matrix.values, std::vector{1.0});
}

TEST(DigitImages, HaveTheOfficialDensity) {
  // Entries of the official files of 60000 images, by width.
  std::vector<std::pair<std::size_t, double>> const official = {
      {1024, 6374505.0}, {4096, 25019051.0}, {16384, 98858913.0}, {65536, 392191985.0}};
  for (auto const& [neurons, entries] : official) {
    double const expected = entries / 60000.0 / static_cast<double>(neurons);
    EXPECT_NEAR(density_of(digit_images(neurons, 3000, 1)), expected, 0.03 * expected) << neurons << " neurons";
  }
}

TEST(DigitImages, AreSpreadOutLikeTheOfficialOnes) {
  // The number of pixels in the first 600 official images: mean 101.4, standard deviation 37.05, skewness 0.61.
  auto const images = digit_images(1024, 6000, 2);
  double const mean = static_cast<double>(images.matrix.num_entries()) / 6000.0;
  double squares = 0.0;
  double cubes = 0.0;
  for (std::size_t sample = 0; sample < 6000; ++sample) {
    double const difference = static_cast<double>(images.matrix.row_size(sample)) - mean;
    squares += difference * difference;
    cubes += difference * difference * difference;
  }
  double const deviation = std::sqrt(squares / 6000.0);
  EXPECT_NEAR(deviation / mean, 37.05 / 101.4, 0.02);
  EXPECT_NEAR(cubes / 6000.0 / std::pow(deviation, 3), 0.61, 0.15);
}

TEST(DigitImages, SurviveLikeTheOfficialOnes) {
  // Officially 1812 of 60000, 3.0 %, of which the deviation by chance for 3000 samples is 0.3 %.
  for (std::uint64_t const seed : {1U, 2U}) {
    auto const last = infer(RadixNet(1024, 120, seed), digit_images(1024, 3000, seed));
    auto const survivors = static_cast<double>(categories(last).size());
    EXPECT_GE(survivors, 0.02 * 3000.0);
    EXPECT_LE(survivors, 0.04 * 3000.0);
  }
}

TEST(DigitImages, OfOfficialSurvivorsAreThinnerWhereTheNetworkIsWider) {
  auto const drawn = [](std::size_t neurons, Strokes strokes) { return digit_images(neurons, 10, 210, 3, strokes); };
  EXPECT_EQ(drawn(1024, Strokes::official_survivors), drawn(1024, Strokes::official_density));
  double before = 1.0;
  for (std::size_t const neurons : {4096U, 16384U, 65536U}) {
    auto const thin = drawn(neurons, Strokes::official_survivors);
    auto const usual = drawn(neurons, Strokes::official_density);
    auto const ratio = density_of(thin) / density_of(usual);
    EXPECT_LT(ratio, before) << neurons << " neurons";
    EXPECT_GT(ratio, 0.8) << neurons << " neurons";
    before = ratio;
    // the digits, their places and their sizes stay
    for (std::size_t sample = 0; sample < thin.num_samples(); ++sample) {
      auto const pixels = usual.matrix.row_columns(sample);
      std::set<NeuronIndex> const is_set(pixels.begin(), pixels.end());
      for (auto const pixel : thin.matrix.row_columns(sample))
        ASSERT_TRUE(is_set.contains(pixel)) << "sample " << sample;
    }
  }
}

TEST(DigitImages, OfOfficialSurvivorsDieMoreOften) {
  RadixNet const network(4096, 120, 1);
  auto const survivors = [&](Strokes strokes) {
    return categories(infer(network, digit_images(4096, 0, 1000, 1, strokes))).size();
  };
  auto const official = survivors(Strokes::official_survivors);
  EXPECT_LT(official, survivors(Strokes::official_density));
  // Officially 1801 of 60000, 30.0 of 1000, of which the deviation by chance is 5.4.
  EXPECT_NEAR(static_cast<double>(official), 30.0, 11.0);
}

TEST(DigitImages, OfOfficialSurvivorsHaveOneOfTheOfficialWidths) {
  for (std::size_t const neurons : {32U, 2048U, 32768U, 262144U})
    EXPECT_THROW(digit_images(neurons, 0, 1, 1, Strokes::official_survivors), UsageError) << neurons;
}

TEST(DigitImages, DifferFromSampleToSampleAndFromSeedToSeed) {
  std::set<std::vector<NeuronIndex>> distinct;
  for (std::uint64_t const seed : {1U, 2U}) {
    auto const images = digit_images(4096, 1000, seed);
    for (std::size_t sample = 0; sample < 1000; ++sample) {
      auto const pixels = images.matrix.row_columns(sample);
      distinct.emplace(pixels.begin(), pixels.end());
    }
  }
  EXPECT_EQ(distinct.size(), 2000U);
}

TEST(DigitImages, AnyRangeGivesTheSameSamples) {
  auto const whole = digit_images(1024, 500, 3);
  for (auto const& [first, last] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, 500}, {0, 1}, {63, 65}, {64, 128}, {17, 499}, {499, 500}, {250, 250}}) {
    auto const part = digit_images(1024, first, last, 3);
    EXPECT_EQ(part, samples_of(whole, first, last)) << first << " to " << last;
  }
  auto const far = digit_images(1024, 1000000000000U, 1000000000003U, 3);
  EXPECT_EQ(far.first_sample, 1000000000000U);
  EXPECT_EQ(far.num_samples(), 3U);
}

TEST(DigitImages, AreTheSameOnEveryPlatform) {
  EXPECT_EQ(fingerprint_of(digit_images(1024, 200, 1)), 7850887022167116377U);
  EXPECT_EQ(fingerprint_of(digit_images(8192, 200, 1)), 17023805077844227712U);
}

TEST(DigitImages, HaveAnyPowerOfTwo) {
  for (std::size_t neurons = 32; neurons <= 32768; neurons *= 2) {
    auto const images = digit_images(neurons, 300, 1);
    require_valid(images.matrix, "images");
    EXPECT_NEAR(density_of(images), 0.105, 0.03) << neurons << " neurons";
  }
}

TEST(DigitImages, RefuseWhatCannotBeDrawn) {
  EXPECT_THROW(digit_images(16, 1, 1), UsageError);
  EXPECT_THROW(digit_images(1000, 1, 1), UsageError);
  EXPECT_THROW(digit_images(std::size_t{1} << 32U, 1, 1), UsageError);
  EXPECT_THROW(digit_images(1024, 3, 2, 1), UsageError);
}

} // namespace
} // namespace varve
