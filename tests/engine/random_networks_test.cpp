#include "engine/places.hpp"
#include "engine/random_case.hpp"
#include "engine/refused_limit.hpp"

#include "network/sample_set.hpp"
#include "plan/cuts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
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

/// Choices of the plan are forced now and then, so that every format, kernel and tile meets every kind of layer. GPUs
/// record launches that are repeated, and the third time start what they have recorded.
InferenceOptions options_for(std::uint64_t seed, std::vector<InferenceOptions> const& choices) {
  auto options = choices.at(seed % choices.size());
  if (seed % 5 == 4) options.batch = 1 + seed % 40;
  options.reductions.saturation = seed % 4 != 0;
  if (has_own_memory(options.backend) && seed % 2 == 0) options.repeat = 3;
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

TEST_P(RandomNetworks, InStripsEqualTheReferenceBitForBit) {
  constexpr std::size_t enough = std::size_t(64) << 20U; // for activations, and for images on the host
  auto const choices = test::all_choices(GetParam());
  std::size_t num_cut = 0;
  for (std::uint64_t seed = 0; seed < 2 * choices.size(); ++seed) {
    auto options = options_for(seed, choices);
    SCOPED_TRACE(testing::Message() << "seed " << seed << " on " << test::describe(options));
    auto const [network, samples] = random_case(seed);
    options.device_memory_limit = enough;
    options.memory_limit = seed % 3 == 0 ? enough : 2 * enough; // hosts keep images, or not
    options.device_weight_limit = 1;
    auto const least = test::refused_limit(network, options);
    options.device_weight_limit = has_own_memory(options.backend) ? least : (2 + seed % 3) * least;
    auto const [plan, result, num_batches] = test::run_all(network, samples, options);
    auto const expected = test::reference_of(network, samples, GetParam().precision);
    ASSERT_EQ(result.activations, expected);
    ASSERT_EQ(result.activation_hash, hash(expected, GetParam().precision));
    num_cut += std::ranges::any_of(plan.steps, [](Step const& step) { return step.num_strips > 1; }) ? 1 : 0;
  }
  EXPECT_GE(num_cut, choices.size());
}

TEST_P(RandomNetworks, WithCurvesEqualTheReferenceBitForBit) {
  auto const choices = test::all_choices(GetParam());
  for (std::uint64_t seed = 0; seed < 2 * choices.size(); ++seed) {
    auto const options = options_for(seed, choices);
    SCOPED_TRACE(testing::Message() << "seed " << seed << " on " << test::describe(options));
    auto const [given, samples] = random_case(seed);
    auto const network = test::with_curves(given, seed);
    auto const outcome = test::run_all(network, samples, options);
    ASSERT_EQ(outcome.result.activations, test::reference_of(network, samples, GetParam().precision));
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

/// After how many layers samples are saturated for ever in this precision, if they are.
template <class Scalar>
std::size_t saturates_from(Network const& network) {
  std::vector<PlannedLayer> caps;
  for (auto const& layer : network.layers()) {
    bool const is_capped = layer.activation.kind == ActivationKind::clipped_relu;
    auto& planned = caps.emplace_back();
    planned.cap = is_capped ? layer.activation.cap : 0.0;
    planned.kept_cap = kept_cap<Scalar>(layer);
  }
  return find_saturation(caps);
}

TEST(RandomCases, HoldNetworksThatSaturateAndSomeThatBarelyDoNot) {
  int num_saturating = 0;
  int num_late = 0;        // networks that saturate after some layers only
  int num_in_one_only = 0; // networks that saturate in one precision only
  int num_saturated_samples = 0;
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    auto const [network, samples] = random_case(seed);
    auto const in_float = saturates_from<float>(network);
    auto const in_double = saturates_from<double>(network);
    num_in_one_only += in_float != in_double ? 1 : 0;
    if (in_double == network.num_layers()) continue;
    ++num_saturating;
    num_late += in_double > 1 ? 1 : 0;
    auto const last = test::reference_of(network, samples, Precision::double_precision);
    double const cap = network.layers().back().activation.cap;
    num_saturated_samples +=
        std::ranges::count(last.matrix.values, cap) >= static_cast<std::ptrdiff_t>(network.num_outputs()) ? 1 : 0;
  }
  EXPECT_GE(num_saturating, 25);
  EXPECT_GE(num_late, 5);
  EXPECT_GE(num_in_one_only, 5);
  EXPECT_GE(num_saturated_samples, 20);
}

} // namespace
} // namespace varve
