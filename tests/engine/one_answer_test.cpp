#include "engine/draw.hpp"
#include "engine/places.hpp"
#include "engine/random_case.hpp"

#include "network/sample_set.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::Place;

/// Runs a network in one way and expects the reference's answer.
void expect_answer(SampleSet const& expected, NetworkSource const& network, SampleSet const& samples,
                   InferenceOptions const& options) {
  SCOPED_TRACE(test::describe(options));
  auto const outcome = test::run_all(network, samples, options);
  EXPECT_EQ(outcome.result.activation_hash, hash(expected, options.precision));
  EXPECT_EQ(outcome.result.live_samples, categories(expected));
  EXPECT_EQ(outcome.num_batches, (samples.num_samples() + *options.batch - 1) / *options.batch);
}

/// The same hash in every way: any batch where the plan chooses, small and large batches where choices are forced.
void expect_one_answer(NetworkSource const& network, SampleSet const& samples, Precision precision) {
  auto const expected = test::reference_of(network, samples, precision);
  test::Draw draw;
  for (Backend const backend : compiled_backends()) {
    for (auto options : test::all_choices({backend, precision})) {
      std::vector<std::size_t> batches = {33, samples.num_samples()};
      if (options.formats.empty()) batches.insert(batches.end(), {1, 7, 64});
      for (std::size_t const batch : batches) {
        if (!draw.next()) continue;
        options.batch = batch;
        options.repeat = batch == 33 ? 3 : 1;
        options.reductions.saturation = options.reductions.equal_samples = batch != 33; // change no bit
        expect_answer(expected, network, samples, options);
      }
    }
  }
}

class OneAnswer : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, OneAnswer,
                         testing::Values(Precision::single_precision, Precision::double_precision),
                         test::name_of_precision);

TEST_P(OneAnswer, OfARadixNet) {
  RadixNet const network(256, 12, 3, -0.15);
  auto const samples = digit_images(256, 70, 5);
  auto const alive = categories(infer(network, samples)).size();
  ASSERT_GT(alive, 0U);
  ASSERT_LT(alive, 70U);
  expect_one_answer(network, samples, GetParam());
}

TEST_P(OneAnswer, WithSamplesThatSaturateForEver) {
  RadixNet const network(64, 40, 3, -0.15);
  auto const samples = digit_images(64, 50, 6);
  auto const last = infer(network, samples);
  ASSERT_GT(std::ranges::count(last.matrix.values, 32.0), 64) << "a sample or more is saturated";
  ASSERT_LT(categories(last).size(), 40U);
  InferenceOptions options = test::options_at({compiled_backends().front(), GetParam()});
  options.reductions.saturation = true;
  auto const inference = prepare(network, options);
  EXPECT_TRUE(inference->plan({50, 1000}).saturates_from.has_value());
  EXPECT_GT(inference->infer(samples, {}).num_saturated, 0U);
  expect_one_answer(network, samples, GetParam());
}

TEST_P(OneAnswer, OfRandomNetworks) {
  int num_networks = 0;
  for (std::uint64_t seed = 1000; num_networks < 3; ++seed) {
    auto const [network, samples] = test::random_case(seed);
    if (samples.num_samples() < 60) continue;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    expect_one_answer(network, samples, GetParam());
    ++num_networks;
  }
}

/// The teams of a GPU take several tasks of the staged kernel one after the other, and bring the inputs of the next
/// while they compute one: on an H200 at most 528 teams share 1250 tasks or more here.
TEST(ManyTasks, OfATeamAreAllDone) {
  RadixNet const network(1024, 2, 1, -0.15);
  auto const samples = digit_images(1024, 5000, 7);
  auto const expected = test::reference_of(network, samples, Precision::single_precision);
  for (Backend const backend : compiled_backends()) {
    auto options = test::options_at({backend, Precision::single_precision});
    options.kernel = KernelName::staged;
    options.batch = samples.num_samples();
    expect_answer(expected, network, samples, options);
  }
}

/// What the plan says about its first steps.
std::string choice_of(NetworkSource const& network, InferenceOptions const& options) {
  return to_text(prepare(network, options)->plan({10, 100})).front();
}

class Repeats : public testing::TestWithParam<Place> {};
INSTANTIATE_TEST_SUITE_P(Everywhere, Repeats, testing::ValuesIn(test::all_places()), test::name_of);

/// What the plan must say where a choice is forced, for a network of 256 neurons with equal input lists.
std::string kernel_for(FormatName format, KernelName kernel, Backend backend) {
  if (format == FormatName::staged_blocks) return "staged kernel, staged blocks";
  if (kernel == KernelName::small_batch && !has_own_memory(backend))
    return std::string("small_batch kernel, ") + (format == FormatName::dense ? "dense blocks" : "sliced ELL");
  if (format == FormatName::dense) {
    bool const fuses = kernel == KernelName::fused;
    return (has_own_memory(backend) ? "dense" : fuses ? "fused" : "direct") + std::string(" kernel, dense blocks");
  }
  if (format == FormatName::csr) return "direct kernel, CSR";
  if (format == FormatName::sliced_ell)
    return (kernel == KernelName::fused ? "fused" : "direct") + std::string(" kernel, sliced ELL");
  bool const can_run = kernel != KernelName::stationary || has_own_memory(backend);
  return (can_run ? to_string(kernel) : "direct") + " kernel, pattern blocks";
}

TEST_P(Repeats, ForcedChoicesAreTaken) {
  RadixNet const network(256, 6, 1);
  for (auto const& options : test::all_choices(GetParam())) {
    if (options.formats.empty()) continue;
    EXPECT_THAT(choice_of(network, options),
                testing::HasSubstr(kernel_for(options.formats.front(), *options.kernel, options.backend)));
  }
  auto staged = test::options_at(GetParam());
  staged.kernel = KernelName::staged;
  EXPECT_THAT(choice_of(network, staged), testing::HasSubstr("staged kernel, staged blocks"));
}

TEST_P(Repeats, AndFurtherBatchesLeaveNothingBehind) {
  RadixNet const network(64, 9, 1, -0.3);
  auto const samples = digit_images(64, 100, 2);
  auto const inference = prepare(network, test::options_at(GetParam()));
  inference->plan({100, samples.matrix.num_entries()});
  auto const whole = inference->infer(samples, {true, true});
  auto const part = samples_of(samples, 90, 100);
  auto const expected = test::reference_of(network, part, GetParam().precision);
  EXPECT_EQ(inference->infer(part, {true, true}).activations, expected);
  EXPECT_EQ(inference->infer(samples_of(samples, 0, 0), {true, true}).live_samples, std::vector<SampleIndex>());
  auto const again = inference->infer(samples, {true, true});
  EXPECT_EQ(again.activations, whole.activations);
  EXPECT_EQ(again.activation_hash, whole.activation_hash);
  EXPECT_EQ(again.live_edges, whole.live_edges);
}

TEST_P(Repeats, AndANewPlanGivesTheSame) {
  RadixNet const network(64, 9, 1, -0.3);
  auto const samples = digit_images(64, 100, 2);
  auto const inference = prepare(network, test::options_at(GetParam()));
  inference->plan({3, 3});
  auto const first = inference->infer(samples_of(samples, 0, 3), {true, true});
  inference->plan({100, samples.matrix.num_entries()});
  auto const whole = inference->infer(samples, {true, true});
  EXPECT_EQ(whole.activations, test::reference_of(network, samples, GetParam().precision));
  EXPECT_EQ(first.activations, test::reference_of(network, samples_of(samples, 0, 3), GetParam().precision));
}

TEST_P(Repeats, WhatIsNotWantedIsNotGiven) {
  RadixNet const network(64, 9, 1, -0.3);
  auto const samples = digit_images(64, 20, 2);
  auto const inference = prepare(network, test::options_at(GetParam()));
  inference->plan({20, samples.matrix.num_entries()});
  auto const bare = inference->infer(samples, {});
  EXPECT_EQ(bare.activations, SampleSet());
  EXPECT_TRUE(bare.predictions.empty());
  EXPECT_EQ(bare.activation_hash, inference->infer(samples, {true, false}).activation_hash);
  EXPECT_EQ(inference->infer(samples, {false, true}).predictions.size(), 20U);
}

} // namespace
} // namespace varve
