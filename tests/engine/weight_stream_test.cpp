#include "engine/places.hpp"
#include "engine/random_case.hpp"

#include "network/sample_set.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Place;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t mebibyte = std::size_t(1) << 20U;
constexpr std::size_t kNumLayers = 40;

/// Many layers of similar size, of one kind of pattern: rows of up to a quarter of the inputs (which become CSR), or
/// rows that share their inputs (which become blocks). Samples die, revive and saturate.
test::RandomCase deep_case(std::uint64_t seed) {
  test::RandomCases random(seed);
  constexpr std::array<std::size_t, 5> widths = {97, 128, 64, 129, 100};
  std::vector<Layer> layers(kNumLayers);
  for (std::size_t number = 0; number < kNumLayers; ++number) {
    std::size_t const inputs = widths.at(number % 5);
    std::size_t const outputs = widths.at((number + 1) % 5);
    auto& layer = layers[number];
    layer.weights = random.draw_matrix(outputs, inputs, 24, 1.2);
    if (layer.weights.values.size() == 1) layer.weights.values = {0.2}; // a negative weight would kill all samples
    layer.bias.assign(number % 3 == 0 ? 1 : outputs, 0.0);
    for (auto& bias : layer.bias) bias = random.real(-0.9, seed % 2 == 0 ? 0.0 : 0.1);
    layer.activation = number % 7 == 6 ? Activation::relu() : Activation::clipped_relu(1.5);
  }
  SampleSet samples{random.draw_matrix(130, widths[0], 60, 2.0), 1000};
  return {Network(std::move(layers), "deep network"), std::move(samples)};
}

/// A network that counts how often its layers are asked for, and fails from some time on.
class Watched final : public NetworkSource {
public:
  explicit Watched(NetworkSource const& network) : network_(network) {}
  std::string name() const override { return network_.name(); }
  std::size_t num_layers() const override { return network_.num_layers(); }
  Layer layer(std::size_t number) const override {
    if (is_gone) throw InputError("the file is gone");
    ++num_asked;
    return network_.layer(number);
  }

  mutable std::atomic<std::size_t> num_asked{0};
  std::atomic<bool> is_gone{false};

private:
  NetworkSource const& network_;
};

class WeightStreams : public testing::TestWithParam<Place> {
protected:
  /// Room for the panel in any case, this much for weights on the device and that much on the host.
  static InferenceOptions limited(InferenceOptions options, std::size_t device_weights, std::size_t host_weights) {
    options.device_memory_limit = 64 * mebibyte;
    options.device_weight_limit = device_weights;
    bool const shares_memory = !has_own_memory(options.backend);
    options.memory_limit = host_weights + (shares_memory ? 64 * mebibyte : 0);
    return options;
  }

  static void expect_equal(BatchResult const& result, SampleSet const& expected) {
    EXPECT_EQ(result.activations, expected);
    EXPECT_EQ(result.live_samples, categories(expected));
    EXPECT_EQ(result.predictions, largest(expected.matrix));
    EXPECT_EQ(result.activation_hash, hash(expected, GetParam().precision));
  }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, WeightStreams, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(WeightStreams, EqualTheReferenceInEveryFormatAndKernel) {
  auto const [network, samples] = deep_case(2);
  auto const expected = test::reference_of(network, samples, GetParam().precision);
  ASSERT_GT(categories(expected).size(), 10U);
  ASSERT_LT(categories(expected).size(), 130U);
  constexpr std::array<std::size_t, 4> parts = {1, 2, 4, 8}; // the device has room for 1 / part of the weights
  std::size_t next_part = 0;
  for (auto options : test::all_choices(GetParam())) {
    std::size_t const weights = prepare(network, options)->plan(shape_of(samples)).weight_bytes;
    options.batch = 70;
    options.repeat = 2;
    std::array<std::size_t, 3> const hosts = {16 * mebibyte, weights / 2, 0};
    for (int i = 0; i < 2; ++i) { // each choice gets the next two of the twelve combinations
      std::size_t const host = hosts.at(next_part % hosts.size());
      auto const part = parts.at(next_part++ % parts.size());
      // `weights` includes the second form of layer 0, which streaming leaves out; so part 1 gets less room than that.
      auto const room = part == 1 ? weights - weights / 3 : weights / part;
      SCOPED_TRACE(testing::Message() << test::describe(options) << ", " << weights << " bytes, " << room
                                      << " on the device, " << host << " on the host");
      auto const [plan, result, num_batches] = test::run_all(network, samples, limited(options, room, host));
      ASSERT_TRUE(plan.stream.has_value());
      EXPECT_GE(plan.stream->num_segments, std::max<std::size_t>(2, part));
      EXPECT_LE(plan.weight_bytes, room);
      EXPECT_EQ(plan.stream->num_remade == 0, host > weights);
      EXPECT_EQ(num_batches, 2U);
      expect_equal(result, expected);
    }
  }
}

TEST_P(WeightStreams, EqualTheReferenceForOtherNetworks) {
  for (std::uint64_t seed = 3; seed < 9; ++seed) {
    SCOPED_TRACE(seed);
    auto const [network, samples] = deep_case(seed);
    auto options = test::options_at(GetParam());
    options.reductions.saturation = options.reductions.equal_samples = true; // change no bit
    std::size_t const weights = test::run_all(network, samples, options).plan.weight_bytes;
    options.batch = 64;
    auto const outcome = test::run_all(network, samples, limited(options, weights / 5, weights / 3));
    EXPECT_TRUE(outcome.plan.stream.has_value());
    expect_equal(outcome.result, test::reference_of(network, samples, GetParam().precision));
  }
}

TEST_P(WeightStreams, ALimitForEverythingTogetherStreamsAsWell) {
  RadixNet const network(256, 60, 1, -0.2);
  auto const samples = digit_images(256, 1500, 1);
  auto const whole = test::run_all(network, samples, test::options_at(GetParam()));
  ASSERT_FALSE(whole.plan.stream.has_value());
  auto tight = test::options_at(GetParam());
  tight.device_memory_limit = whole.plan.weight_bytes / 2;
  auto const outcome = test::run_all(network, samples, tight);
  ASSERT_TRUE(outcome.plan.stream.has_value());
  EXPECT_EQ(outcome.plan.stream->num_resident, 0U);
  auto const& plan = outcome.plan;
  EXPECT_LE(plan.weight_bytes + plan.panel_bytes + plan.sample_bytes, *tight.device_memory_limit);
  EXPECT_GE(outcome.num_batches, 2U);
  EXPECT_EQ(outcome.result.activations, whole.result.activations);
  EXPECT_EQ(outcome.result.activation_hash, whole.result.activation_hash);
}

TEST_P(WeightStreams, ReducedNetworksAreStreamedToo) {
  auto const [network, samples] = deep_case(9);
  auto options = test::options_at(GetParam());
  options.reductions = parse_reductions("auto");
  auto const whole = test::run_all(network, samples, options);
  for (std::size_t const host : {16 * mebibyte, std::size_t(0)}) {
    auto const outcome = test::run_all(network, samples, limited(options, whole.plan.weight_bytes / 4, host));
    EXPECT_TRUE(outcome.plan.stream.has_value());
    EXPECT_EQ(outcome.result.activations, whole.result.activations);
  }
}

TEST_P(WeightStreams, SomeSegmentsStayWhereThereIsRoom) {
  auto const [network, samples] = deep_case(3);
  auto const whole = test::run_all(network, samples, test::options_at(GetParam()));
  auto const options = limited(test::options_at(GetParam()), whole.plan.weight_bytes / 10 * 9, 16 * mebibyte);
  auto const inference = prepare(network, options);
  auto const plan = inference->plan(shape_of(samples));
  ASSERT_TRUE(plan.stream.has_value());
  EXPECT_GT(plan.stream->num_resident, 0U);
  auto const result = inference->infer(samples, {true, true});
  expect_equal(result, test::reference_of(network, samples, GetParam().precision));
}

TEST_P(WeightStreams, LayersAreAskedForAgainOnlyIfTheHostCannotKeepThem) {
  auto const [network, samples] = deep_case(4);
  std::size_t const weights = test::run_all(network, samples, test::options_at(GetParam())).plan.weight_bytes;
  for (bool const fits : {true, false}) {
    Watched const watched(network);
    auto const options = limited(test::options_at(GetParam()), weights / 4, fits ? 16 * mebibyte : 0);
    auto const inference = prepare(watched, options);
    inference->plan(shape_of(samples));
    for (int batch = 0; batch < 3; ++batch) {
      auto const result = inference->infer(samples, {true, true});
      expect_equal(result, test::reference_of(network, samples, GetParam().precision));
      EXPECT_EQ(result.weights.make_seconds > 0.0, !fits);
      bool const is_copied = fits || has_own_memory(GetParam().backend); // else images are made in the buffer itself
      EXPECT_EQ(result.weights.copied_bytes > weights / 2, is_copied);
    }
    if (fits) {
      EXPECT_EQ(watched.num_asked, kNumLayers);
    } else {
      EXPECT_GT(watched.num_asked, 3 * kNumLayers); // once for the plan; then, in each batch, all but what buffers hold
    }
  }
}

TEST_P(WeightStreams, WhatReadingThrowsEndsTheRun) {
  auto const [network, samples] = deep_case(4);
  std::size_t const weights = test::run_all(network, samples, test::options_at(GetParam())).plan.weight_bytes;
  Watched watched(network);
  auto const inference = prepare(watched, limited(test::options_at(GetParam()), weights / 8, 0));
  inference->plan(shape_of(samples));
  inference->infer(samples, {});
  watched.is_gone = true;
  EXPECT_THROW(inference->infer(samples, {}), InputError);
}

TEST_P(WeightStreams, ARunThatEndsEarlyBeginsAgainAtTheFirstLayer) {
  RadixNet const network(64, 200, 1, -0.1);
  auto const samples = digit_images(64, 100, 1);
  auto options = test::options_at(GetParam());
  options.reductions.saturation = true;
  auto const whole = test::run_all(network, samples, options);
  auto const limits = limited(options, whole.plan.weight_bytes / 20, 16 * mebibyte);
  auto const inference = prepare(network, limits);
  auto const plan = inference->plan(shape_of(samples));
  ASSERT_TRUE(plan.stream.has_value());
  ASSERT_TRUE(plan.saturates_from.has_value());
  for (int batch = 0; batch < 3; ++batch) {
    auto const result = inference->infer(samples, {true, true});
    EXPECT_EQ(result.activations, whole.result.activations);
    EXPECT_LT(result.weights.copied_bytes, 9 * whole.plan.weight_bytes / 10) << "the rest was not needed";
  }
}

TEST_P(WeightStreams, TooLittleRoomForTwoOutputsIsASentence) {
  auto const [network, samples] = deep_case(5);
  try {
    prepare(network, limited(test::options_at(GetParam()), 2048, 0));
    FAIL();
  } catch (ResourceError const& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("the weights of layer"), HasSubstr("GiB"), HasSubstr("--memory device"),
                                    HasSubstr("weights=")));
  }
}

TEST(StreamSummaries, AreDescribed) {
  StreamSummary stream;
  stream.num_segments = 24;
  stream.num_buffers = 2;
  stream.buffer_bytes = 64 * mebibyte;
  EXPECT_EQ(to_text(stream), "weights streamed: 24 segments through 2 buffers of 64.0 MiB");
  stream.num_resident = 5;
  stream.num_remade = 7;
  EXPECT_EQ(to_text(stream),
            "weights streamed: 24 segments through 2 buffers of 64.0 MiB; 5 of them stay on the device; "
            "7 are read and encoded again each time, for the host cannot keep them");
}

} // namespace
} // namespace varve
