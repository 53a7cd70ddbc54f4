#include "engine/places.hpp"
#include "engine/random_case.hpp"

#include "kernels/split_output_forward.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Place;

class FewSamples : public testing::TestWithParam<Place> {};
INSTANTIATE_TEST_SUITE_P(Everywhere, FewSamples, testing::ValuesIn(test::all_places()), test::name_of);

/// Layers of widths and densities that the spread and the small-batch kernel can and cannot run.
RandomNetwork network_of(std::vector<std::size_t> widths, double density) {
  RandomNetworkRecipe recipe;
  recipe.widths = std::move(widths);
  recipe.density = density;
  recipe.cap = 2.0;
  recipe.seed = 21;
  return RandomNetwork(recipe);
}

TEST_P(FewSamples, GetTheSameAnswerSpreadOrNot) {
  for (auto const& network : {network_of({64, 64, 64}, 1.0), network_of({100, 33, 257, 1}, 0.3),
                              network_of({2000, 60, 2000}, 0.05), network_of({700, 90, 700}, 0.9)}) {
    for (std::size_t const num_samples : {1U, 2U, 7U, 8U, 17U, 64U, 130U}) {
      auto const samples = random_samples(network.layer(0).num_inputs(), num_samples, 0.5, 3);
      auto const expected = test::reference_of(network, samples, GetParam().precision);
      for (auto const kernel : {std::optional<KernelName>(), std::optional(KernelName::split_output),
                                std::optional(KernelName::small_batch)}) {
        auto options = test::options_at(GetParam());
        options.expected_samples = num_samples;
        options.kernel = kernel;
        SCOPED_TRACE(testing::Message() << num_samples << " samples, " << network.layer(0).num_inputs()
                                        << " inputs, kernel " << (kernel ? to_string(*kernel) : "of the plan"));
        EXPECT_EQ(test::run_all(network, samples, options).result.activations, expected);
      }
    }
  }
}

/// Layers of every activation, dense and sparse ones in turn, and one whose outputs have 0 to 150 edges.
Network mixed_network() {
  auto const dense = network_of({150, 90, 70}, 0.8);
  auto const sparse = network_of({90, 150, 70}, 0.1);
  Layer uneven = sparse.layer(0);
  uneven.weights = test::RandomCases(5).draw_matrix(150, 90, 90, 1.0);
  std::vector<Layer> layers = {dense.layer(0),
                               std::move(uneven),
                               network_of({150, 90}, 0.1).layer(0),
                               dense.layer(1),
                               network_of({70, 90}, 0.1).layer(0),
                               sparse.layer(0),
                               dense.layer(0)};
  std::vector<Activation> const activations = {
      Activation::clipped_relu(1.0), Activation::sigmoid(), Activation::leaky_relu(0.1),  Activation::tanh(),
      Activation::identity(),        Activation::relu(),    Activation::clipped_relu(2.0)};
  for (std::size_t number = 0; number < layers.size(); ++number) layers[number].activation = activations[number];
  return Network(std::move(layers));
}

TEST_P(FewSamples, GetTheSameAnswerFromEveryActivation) {
  auto const network = mixed_network();
  for (std::size_t const expected_samples : {1U, 3U, 16U}) {
    auto options = test::options_at(GetParam());
    options.expected_samples = expected_samples;
    for (std::size_t const num_samples : {0U, 1U, 3U, 5U, 16U, 33U}) { // also more than expected
      auto const samples = random_samples(150, num_samples, 0.5, 3);
      SCOPED_TRACE(testing::Message() << num_samples << " samples, expected " << expected_samples);
      EXPECT_EQ(test::run_all(network, samples, options).result.activations,
                test::reference_of(network, samples, GetParam().precision));
    }
  }
}

TEST_P(FewSamples, TakeAllLayersOfAFormatInOneLaunchOnHosts) {
  auto options = test::options_at(GetParam());
  options.expected_samples = 2;
  auto const steps_of = [&](NetworkSource const& network) { return prepare(network, options)->plan({2, 10}).steps; };
  if (has_own_memory(GetParam().backend)) {
    EXPECT_NE(steps_of(network_of({200, 200}, 0.05)).front().kernel, KernelName::small_batch)
        << "that kernel is for hosts";
    return;
  }
  for (double const density : {0.05, 0.7}) {
    auto const steps = steps_of(network_of({200, 200, 100, 200, 50}, density));
    ASSERT_EQ(steps.size(), 1U);
    EXPECT_EQ(steps.front().kernel, KernelName::small_batch);
    EXPECT_EQ(steps.front().num_layers(), 4U);
    EXPECT_EQ(steps.front().choice.format, density < 0.5 ? FormatName::sliced_ell : FormatName::dense);
  }
  EXPECT_GT(steps_of(mixed_network()).size(), 2U) << "formats change";
}

TEST(SpreadShare, DividesTilesAndSlicesAmongTheTeams) {
  constexpr int teams = 132;
  for (int const tiles : {1, 2, 7, 8, 32}) {
    for (int const slices : {1, 8, 64, 65, 1000}) {
      for (double const bytes_of_slice : {0.0, 3e3, 1e5}) {
        SCOPED_TRACE(testing::Message() << tiles << " tiles, " << slices << " slices of " << bytes_of_slice
                                        << " bytes");
        auto const share = spread_share(tiles, slices, teams, 32768.0, bytes_of_slice, 6);
        ASSERT_GE(share.tiles, 1);
        EXPECT_LE(share.tiles, std::min(6, tiles));
        ASSERT_GE(share.slices, 1);
        int const groups = (tiles + share.tiles - 1) / share.tiles;
        int const parts = (slices + share.slices - 1) / share.slices;
        EXPECT_LT(groups * parts, teams + groups) << "all teams run at the same time";
        EXPECT_GE(2 * groups * parts * share.tiles * share.slices, std::min(teams, tiles * slices)) << "few idle teams";
      }
    }
  }
  EXPECT_EQ(spread_share(8, 64, teams, 32768.0, 1e5, 6).tiles, 4) << "weights weigh more: they serve several tiles";
  EXPECT_EQ(spread_share(8, 64, teams, 32768.0, 3e3, 6).tiles, 1)
      << "activations weigh more: they serve several slices";
}

TEST_P(FewSamples, AreSpreadWhereManyWouldBeFused) {
  auto const network = network_of({200, 200, 200, 200}, 0.1);
  auto options = test::options_at(GetParam());
  auto const kernels = [&] {
    std::set<KernelName> all;
    auto const inference = prepare(network, options);
    for (auto const& step : inference->plan({10, 100}).steps) all.insert(step.kernel);
    return all;
  };
  options.expected_samples = 1000000;
  EXPECT_EQ(kernels(), std::set<KernelName>{KernelName::fused});
  options.kernel = KernelName::split_output;
  EXPECT_EQ(kernels(), std::set<KernelName>{KernelName::split_output});
  options.kernel.reset();
  options.expected_samples = 1;
  EXPECT_FALSE(kernels().contains(KernelName::fused)) << "a tile of many samples for one";
}

} // namespace
} // namespace varve
