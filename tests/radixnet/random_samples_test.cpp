#include "radixnet/images.hpp"

#include "core/error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace varve {
namespace {

TEST(RandomSamples, HoldValuesFromZeroToOneAtTheDensity) {
  auto const samples = random_samples(200, 500, 0.3, 1);
  EXPECT_NO_THROW(require_valid(samples.matrix, "samples"));
  EXPECT_EQ(samples.num_samples(), 500U);
  EXPECT_EQ(samples.num_neurons(), 200U);
  EXPECT_NEAR(static_cast<double>(samples.matrix.num_entries()) / 100000.0, 0.3, 0.01);
  EXPECT_GT(std::ranges::min(samples.matrix.values), 0.0);
  EXPECT_LT(std::ranges::min(samples.matrix.values), 0.01);
  EXPECT_LE(std::ranges::max(samples.matrix.values), 1.0);
  EXPECT_GT(std::ranges::max(samples.matrix.values), 0.99);
  EXPECT_EQ(random_samples(200, 5, 1.0, 1).matrix.num_entries(), 1000U);
}

TEST(RandomSamples, DependOnTheirNumberAndTheSeedAlone) {
  auto const few = random_samples(64, 10, 0.5, 7);
  EXPECT_EQ(samples_of(random_samples(64, 30, 0.5, 7), 0, 10), few);
  EXPECT_NE(random_samples(64, 10, 0.5, 8), few);
  EXPECT_NE(samples_of(few, 1, 2).matrix, samples_of(few, 2, 3).matrix);
  EXPECT_EQ(random_samples(64, 0, 0.5, 7).num_samples(), 0U);
}

TEST(RandomSamples, RefuseWhatMakesNoSamples) {
  EXPECT_THROW(random_samples(0, 1, 0.5, 1), UsageError);
  for (double const density : {0.0, -0.1, 1.1, std::nan("")})
    EXPECT_THROW(random_samples(8, 1, density, 1), UsageError);
}

} // namespace
} // namespace varve
