#include "engine/places.hpp"
#include "engine/random_case.hpp"

#include "network/activations.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace varve {
namespace {

using test::Place;
using test::random_case;
using test::RandomCase;

constexpr std::uint64_t kNumSeeds = 300;

class RandomNetworks : public testing::TestWithParam<Place> {};
INSTANTIATE_TEST_SUITE_P(Everywhere, RandomNetworks, testing::ValuesIn(test::all_places()), test::name_of);

/// Choices of the plan are forced now and then, so that every format, kernel and tile meets every kind of layer.
InferenceOptions options_for(std::uint64_t seed, std::vector<InferenceOptions> const& choices) {
  auto options = choices.at(seed % choices.size());
  if (seed % 5 == 4) options.batch = 1 + seed % 40;
  options.reductions.saturation = seed % 3 == 0;
  return options;
}

TEST_P(RandomNetworks, EqualTheReferenceBitForBit) {
  auto const choices = test::all_choices(GetParam());
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    auto const options = options_for(seed, choices);
    SCOPED_TRACE(testing::Message() << "seed " << seed << " on " << test::describe(options));
    auto const [network, samples] = random_case(seed);
    auto const expected = test::reference_of(network, samples, GetParam().precision);
    auto const [plan, result, num_batches] = test::run_all(network, samples, options);
    ASSERT_EQ(result.activations, expected);
    ASSERT_EQ(result.live_samples, categories(expected));
    ASSERT_EQ(result.predictions, largest(expected.matrix));
    ASSERT_EQ(result.activation_hash, hash(expected, GetParam().precision));
  }
}

TEST_P(RandomNetworks, LiveEdgesAreAtMostAllEdges) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto const [network, samples] = random_case(seed);
    auto const outcome = test::run_all(network, samples, test::options_at(GetParam()));
    EXPECT_LE(outcome.result.live_edges,
              static_cast<double>(network.num_edges()) * static_cast<double>(samples.num_samples()));
  }
}

TEST(RandomCases, HoldEveryKindOfEnding) {
  int none_alive = 0;
  int some_alive = 0;
  int all_alive = 0;
  int capped = 0;
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    auto const [network, samples] = random_case(seed);
    if (samples.num_samples() == 0) continue;
    auto const last = test::reference_of(network, samples, Precision::double_precision);
    auto const alive = categories(last).size();
    (alive == 0 ? none_alive : alive == samples.num_samples() ? all_alive : some_alive) += 1;
    double const cap = network.layers().back().activation.cap;
    capped += std::ranges::count(last.matrix.values, cap) > 0 ? 1 : 0;
  }
  EXPECT_GE(none_alive, 15);
  EXPECT_GE(some_alive, 15);
  EXPECT_GE(all_alive, 15);
  EXPECT_GE(capped, 15);
}

} // namespace
} // namespace varve
