#include "engine/places.hpp"

#include "radixnet/random_network.hpp"
#include "radixnet/random_samples.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Place;

class FewSamples : public testing::TestWithParam<Place> {};
INSTANTIATE_TEST_SUITE_P(Everywhere, FewSamples, testing::ValuesIn(test::all_places()), test::name_of);

/// Layers of widths and densities that the spread kernel can and cannot run.
RandomNetwork network_of(std::vector<std::size_t> widths, double density) {
  RandomNetworkRecipe recipe;
  recipe.widths = std::move(widths);
  recipe.density = density;
  recipe.cap = 2.0;
  recipe.seed = 21;
  return RandomNetwork(recipe);
}

TEST_P(FewSamples, GetTheSameAnswerSpreadOrNot) {
  for (auto const& network :
       {network_of({64, 64, 64}, 1.0), network_of({100, 33, 257, 1}, 0.3), network_of({2000, 60, 2000}, 0.05)}) {
    for (std::size_t const num_samples : {1U, 7U, 8U, 64U, 130U}) {
      auto const samples = random_samples(network.layer(0).num_inputs(), num_samples, 0.5, 3);
      auto const expected = test::reference_of(network, samples, GetParam().precision);
      for (bool const is_forced : {false, true}) {
        auto options = test::options_at(GetParam());
        options.expected_samples = num_samples;
        if (is_forced) options.kernel = KernelName::spread;
        SCOPED_TRACE(testing::Message() << num_samples << " samples, " << network.layer(0).num_inputs()
                                        << " inputs, forced " << is_forced);
        EXPECT_EQ(test::run_all(network, samples, options).result.activations, expected);
      }
    }
  }
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
  options.kernel = KernelName::spread;
  EXPECT_EQ(kernels(), std::set<KernelName>{KernelName::spread});
  options.kernel.reset();
  options.expected_samples = 1;
  EXPECT_FALSE(kernels().contains(KernelName::fused)) << "a tile of many samples for one";
}

} // namespace
} // namespace varve
