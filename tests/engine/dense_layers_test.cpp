#include "engine/places.hpp"

#include "engine/draw.hpp"
#include "network/sample_set.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::Place;

/// Widths around those of blocks, tiles and, at density 0.5 on some hosts, ranges of inputs.
RandomNetwork network_of(double density) {
  RandomNetworkRecipe recipe;
  recipe.widths = {97, 130, 129, 290, 150, 143, 6};
  recipe.density = density;
  recipe.seed = 9;
  return RandomNetwork(recipe);
}

class DenseNetworks : public testing::TestWithParam<Place> {};
INSTANTIATE_TEST_SUITE_P(Everywhere, DenseNetworks, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(DenseNetworks, EqualTheReferenceBitForBit) {
  test::Draw draw;
  for (double const density : {1.0, 0.98, 0.5}) {
    auto const network = network_of(density);
    auto const samples = random_samples(97, 70, 0.6, 4);
    auto const expected = test::reference_of(network, samples, GetParam().precision);
    ASSERT_GT(categories(expected).size(), 20U);
    for (auto options : test::all_choices(GetParam())) {
      for (std::size_t const batch : {1U, 33U, 70U}) {
        if (!draw.next()) continue;
        options.batch = batch;
        SCOPED_TRACE(testing::Message() << "density " << density << ", " << test::describe(options));
        auto const result = test::run_all(network, samples, options).result;
        ASSERT_EQ(result.activations, expected);
        ASSERT_EQ(result.activation_hash, hash(expected, GetParam().precision));
      }
    }
  }
}

TEST_P(DenseNetworks, AreDenseInThePlanUnlessTheirEdgesAreReordered) {
  auto options = test::options_at(GetParam());
  options.edge_order = EdgeOrder::ascending;
  auto const plan_of = [](NetworkSource const& network, InferenceOptions const& some) {
    return to_text(prepare(network, some)->plan({10000, 1000000}));
  };
  RandomNetworkRecipe recipe;
  recipe.widths = {300, 300, 300};
  recipe.density = 0.8;
  EXPECT_THAT(plan_of(RandomNetwork(recipe), options).front(), testing::HasSubstr("dense blocks"));
  options.edge_order = EdgeOrder::forced;
  options.formats = {FormatName::dense};
  EXPECT_THAT(plan_of(network_of(0.3), options).front(), testing::HasSubstr("sliced ELL")) << "sums have another order";
  options.edge_order = EdgeOrder::ascending;
  EXPECT_THAT(plan_of(network_of(0.3), options).front(), testing::HasSubstr("dense blocks"));
}

TEST_P(DenseNetworks, StreamTheirWeights) {
  RandomNetworkRecipe recipe;
  recipe.widths = {256, 256, 256, 256, 256, 256};
  recipe.density = 1.0;
  RandomNetwork const network(recipe);
  auto const samples = random_samples(256, 40, 0.6, 4);
  auto options = test::options_at(GetParam());
  options.formats = {FormatName::dense};
  std::size_t const bytes = GetParam().precision == Precision::double_precision ? 8 : 4;
  constexpr std::size_t mebibyte = std::size_t(1) << 20U;
  options.device_memory_limit = 64 * mebibyte;
  options.memory_limit = 128 * mebibyte;
  options.device_weight_limit = 150000 * bytes; // two layers of 65536 weights and their biases, but not all
  auto const outcome = test::run_all(network, samples, options);
  EXPECT_TRUE(outcome.plan.stream.has_value());
  EXPECT_EQ(outcome.result.activations, test::reference_of(network, samples, GetParam().precision));
}

} // namespace
} // namespace varve
