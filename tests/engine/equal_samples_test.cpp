#include "engine/places.hpp"
#include "network/sample_set.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace varve {
namespace {

/// Every sample of a set several times, mixed.
SampleSet repeated(SampleSet const& samples, std::size_t times) {
  SampleSet all;
  all.matrix.num_columns = samples.num_neurons();
  for (std::size_t i = 0; i < times * samples.num_samples(); ++i) {
    std::size_t const row = i * 7 % samples.num_samples();
    append_rows(all, samples_of(samples, row, row + 1));
  }
  all.matrix.values.resize(1);
  return all;
}

class SamplesOfABatch : public testing::TestWithParam<test::Place> {};
INSTANTIATE_TEST_SUITE_P(Everywhere, SamplesOfABatch, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(SamplesOfABatch, ThatAreEqualAreComputedOnce) {
  for (std::size_t const neurons : {64U, 256U}) {
    RadixNet const network(neurons, 40, 3, -0.15);
    auto const samples = repeated(digit_images(neurons, 53, 6), 4);
    auto const expected = test::reference_of(network, samples, GetParam().precision);
    ASSERT_GT(categories(expected).size(), 4U);
    for (bool const saturation : {false, true}) {
      for (auto const kernel : {std::optional<KernelName>(), std::optional(KernelName::direct),
                                std::optional(KernelName::stationary), std::optional(KernelName::fused)}) {
        auto options = test::options_at(GetParam());
        options.reductions.equal_samples = true;
        options.reductions.saturation = saturation;
        options.kernel = kernel;
        auto const outcome = test::run_all(network, samples, options);
        EXPECT_EQ(outcome.result.activations, expected) << test::describe(options);
        EXPECT_EQ(outcome.result.activation_hash, hash(expected, GetParam().precision));
        EXPECT_EQ(outcome.result.live_samples, categories(expected));
        EXPECT_EQ(outcome.result.num_represented > 0, !saturation) << test::describe(options);
      }
    }
  }
}

/// Samples of several values, which the plan did not expect: the bits give way to numbers.
TEST_P(SamplesOfABatch, OfOtherValuesThanPlanned) {
  RadixNet const network(64, 9, 1, -0.3);
  auto const inference = prepare(network, test::options_at(GetParam()));
  auto const ones = digit_images(64, 100, 2);
  auto others = ones;
  others.matrix.values.assign(others.matrix.num_entries(), 1.0);
  for (std::size_t i = 0; i < others.matrix.values.size(); i += 3) others.matrix.values[i] = 1.25;
  inference->plan(shape_of(ones));
  for (SampleSet const* const samples : {&ones, static_cast<SampleSet const*>(&others), &ones}) {
    EXPECT_EQ(inference->infer(*samples, {true, true}).activations,
              test::reference_of(network, *samples, GetParam().precision));
  }
}

} // namespace
} // namespace varve
