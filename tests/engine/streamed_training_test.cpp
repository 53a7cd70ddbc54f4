#include "core/error.hpp"
#include "core/runtime.hpp"
#include "engine/draw.hpp"
#include "engine/training.hpp"
#include "engine/training_outcome.hpp"
#include "network/network.hpp"
#include "reference/training_case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Place;
using test::training_case;
using test::TrainingCase;
using test::TrainingOutcome;

constexpr std::size_t samples_of_stream = 300;

/// Weights that are streamed must give the bits of weights that stay on the device.
class StreamedTraining : public testing::TestWithParam<Place> {
protected:
  /// Layers of different shapes; streaming needs much less memory than all of them.
  static TrainingCase const& given() {
    static TrainingCase const made = training_case(
        {{60, 90, 70, 80, 90, 60, 85, 90, 75, 90, 80, 70, 90, 12},
         samples_of_stream,
         0.6,
         {Activation::relu(), Activation::tanh(), Activation::leaky_relu(0.125), Activation::identity()}});
    return made;
  }

  static TrainingOptions options(OptimizerKind optimizer = OptimizerKind::adam) {
    auto options = test::training_at(GetParam(), samples_of_stream, optimizer);
    options.growth_bytes = 400000;
    return options;
  }
  static std::size_t leaf() { return test::leaf_at(GetParam()); }

  /// The same training on a device that cannot hold the weights beside the activations.
  static TrainingOptions streamed(TrainingOptions options) {
    auto const plan = prepare_training(given().network, options)->plan();
    EXPECT_FALSE(plan.streams_weights);
    bool const is_fixed = options.micro_batch && options.keep_every;
    options.device_memory_limit = plan.weight_bytes + (is_fixed ? plan.activation_bytes - 1 : 0);
    EXPECT_TRUE(prepare_training(given().network, options)->plan().streams_weights);
    return options;
  }

  static std::unique_ptr<Training> begin(TrainingOptions const& options, Network const& network = given().network) {
    auto training = prepare_training(network, options);
    training->add_samples(given().samples, given().labels, "set");
    return training;
  }

  static void run(Training& training, PatternKind kind, int first, int last, TrainingOutcome& outcome) {
    test::run_steps(training, kind, first, last, samples_of_stream, 31, outcome); // ever fewer leaves
  }

  static TrainingOutcome train(TrainingOptions const& options) {
    auto const training = begin(options);
    TrainingOutcome outcome;
    run(*training, options.pattern, 0, 5, outcome);
    return outcome;
  }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, StreamedTraining, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(StreamedTraining, IsChosenWhereWeightsDoNotFit) {
  auto const resident = begin(options())->plan();
  auto const plan = begin(streamed(options()))->plan();
  EXPECT_TRUE(plan.streams_weights);
  EXPECT_LE(plan.weight_bytes + plan.activation_bytes, resident.weight_bytes);
  EXPECT_LT(plan.weight_bytes, resident.weight_bytes / 2);
  EXPECT_GT(plan.host_bytes, resident.weight_bytes / 2);
  EXPECT_EQ(resident.host_bytes, 0U);
}

TEST_P(StreamedTraining, GivesTheSameBitsForEveryOptimizer) {
  for (auto const& entry : all_optimizers) {
    auto const kind = entry.kind;
    SCOPED_TRACE(to_string(kind));
    EXPECT_EQ(train(streamed(options(kind))), train(options(kind)));
  }
}

TEST_P(StreamedTraining, GivesTheSameBitsHoweverItIsDone) {
  auto const expected = train(options());
  test::Draw draw;
  for (std::size_t const micro_leaves : {0U, 1U, 4U}) {
    for (std::size_t const keep_every : {0U, 1U, 5U}) {
      for (std::size_t const min_bundle : {1U, 10000U}) {
        if (!draw.next()) continue;
        SCOPED_TRACE(testing::Message() << micro_leaves << " leaves at a time, kept every " << keep_every
                                        << ", bundles of " << min_bundle);
        auto way = options();
        if (micro_leaves > 0) way.micro_batch = micro_leaves * leaf();
        if (keep_every > 0) way.keep_every = keep_every;
        way.min_bundle = min_bundle;
        EXPECT_EQ(train(streamed(way)), expected);
      }
    }
  }
}

TEST_P(StreamedTraining, GivesTheSameBitsInEveryFormat) {
  auto way = options();
  for (auto const pattern : {PatternKind::keep, PatternKind::rigl}) {
    way.pattern = pattern;
    way.format = FormatName::csr;
    auto const expected = train(way);
    way.format = FormatName::dense;
    EXPECT_EQ(train(way), expected) << to_string(pattern);
    EXPECT_EQ(train(streamed(way)), expected) << to_string(pattern) << ", streamed";
  }
}

TEST_P(StreamedTraining, ChangesThePatternToTheSameOne) {
  for (auto const pattern : {PatternKind::set, PatternKind::rigl}) {
    auto with_pattern = options();
    with_pattern.pattern = pattern;
    auto const expected = train(with_pattern);
    EXPECT_GT(expected.moved.dropped, expected.moved.returned);
    for (std::size_t const micro_leaves : {0U, 2U}) {
      for (std::size_t const keep_every : {1U, 4U}) {
        SCOPED_TRACE(testing::Message() << to_string(pattern) << ", " << micro_leaves
                                        << " leaves at a time, kept every " << keep_every);
        auto way = with_pattern;
        if (micro_leaves > 0) way.micro_batch = micro_leaves * leaf();
        way.keep_every = keep_every;
        EXPECT_EQ(train(streamed(way)), expected);
      }
    }
  }
}

TEST_P(StreamedTraining, GoesOnFromAStateOfEitherKind) {
  auto const expected = train(options());
  for (bool const begins_streamed : {false, true}) {
    TrainingOutcome outcome;
    auto const first = begin(begins_streamed ? streamed(options()) : options());
    run(*first, PatternKind::keep, 0, 3, outcome);
    auto const second = begin(begins_streamed ? options() : streamed(options()), first->network());
    second->restore(first->state());
    run(*second, PatternKind::keep, 3, 5, outcome);
    EXPECT_EQ(outcome, expected) << begins_streamed;
  }
}

TEST_P(StreamedTraining, TrainsASingleLayer) {
  auto const one = training_case({{200, 150}, 40, 0.6, {Activation::identity()}});
  auto way = options();
  way.batch = 40;
  way.micro_batch = leaf();
  way.keep_every = 1;
  auto const train_one = [&] {
    auto const training = prepare_training(one.network, way);
    training->add_samples(one.samples, one.labels, "set");
    auto const rows = test::rows_from(0, 40);
    for (int step = 0; step < 4; ++step) training->step(0, rows, 0.1);
    return std::pair(weights_hash(training->network()), training->plan());
  };
  auto const [hash, resident] = train_one();
  way.micro_batch = resident.micro_batch; // in double a smaller one would fit
  way.device_memory_limit = resident.weight_bytes + resident.activation_bytes - 1;
  auto const [streamed_hash, plan] = train_one();
  EXPECT_TRUE(plan.streams_weights);
  EXPECT_EQ(streamed_hash, hash);
}

TEST_P(StreamedTraining, SaysWhichLayerIsNoNumberAnyMore) {
  auto const training = begin(streamed(options(OptimizerKind::sgd)));
  auto const rows = test::rows_from(0, samples_of_stream);
  std::string complaint = "none";
  try {
    for (int step = 0; step < 50; ++step) training->step(0, rows, 1e30);
  } catch (InputError const& error) {
    complaint = error.what();
  }
  EXPECT_THAT(complaint, testing::MatchesRegex("training diverges: after step [0-9]+, layer [0-9]+ has a weight or "
                                               "bias that is no finite number; take a lower rate"));
}

TEST_P(StreamedTraining, SaysHowMuchMemoryItNeeds) {
  auto const complaint = [](TrainingOptions const& options) -> std::string {
    try {
      prepare_training(given().network, options);
    } catch (ResourceError const& error) {
      return error.what();
    }
    return "none";
  };
  auto tight = options();
  tight.device_memory_limit = 1000;
  EXPECT_THAT(complaint(tight), testing::MatchesRegex("training needs [0-9]+ bytes for weights that are streamed and "
                                                      "[0-9]+ bytes for the activations of [0-9]+ samples, but 1000 "
                                                      "bytes may be used; take a device with more memory"));
  tight = streamed(options());
  tight.memory_limit = has_own_memory(tight.backend) ? 5000 : *tight.device_memory_limit + 5000;
  EXPECT_THAT(complaint(tight), testing::HasSubstr("but 5000 bytes may be used; take a device or a host with"));
}

} // namespace
} // namespace varve
