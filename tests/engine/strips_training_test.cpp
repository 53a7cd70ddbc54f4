#include "core/runtime.hpp"
#include "engine/draw.hpp"
#include "engine/places.hpp"
#include "engine/strip_limit.hpp"
#include "engine/training_outcome.hpp"
#include "network/network.hpp"
#include "reference/training_case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Place;
using test::training_case;
using test::TrainingCase;
using test::TrainingOutcome;
using test::with_least_memory;

constexpr std::size_t samples_of_strips = 150;

/// Layers that pass through the device strip by strip must give the bits of weights that stay on the device.
class StripsTraining : public testing::TestWithParam<Place> {
protected:
  /// Layers of different shapes, so that strips end in the middle of groups of rows; some rows have no edges.
  static TrainingCase const& sparse() {
    static TrainingCase const made = training_case(
        {{60, 90, 70, 85, 12},
         samples_of_strips,
         0.6,
         {Activation::relu(), Activation::tanh(), Activation::leaky_relu(0.125), Activation::identity()}});
    return made;
  }

  static TrainingOptions options(OptimizerKind optimizer = OptimizerKind::adam) {
    TrainingOptions options;
    options.backend = GetParam().backend;
    options.precision = GetParam().precision;
    options.optimizer.kind = optimizer;
    options.optimizer.l2 = 1e-3;
    options.batch = samples_of_strips;
    options.growth_bytes = 20000;
    options.micro_batch = 2 * leaf();
    options.keep_every = 1;
    return options;
  }
  static std::size_t leaf() { return GetParam().precision == Precision::double_precision ? 32 : 64; }

  /// The same training with strips as small as they can be on one thread; four times that where each launch for a strip
  /// wakes threads or waits for copies.
  static TrainingOptions in_strips(TrainingOptions const& options) {
    auto tight = with_least_memory(sparse().network, options);
    bool const is_serial = options.backend == Backend::serial;
    auto plan = prepare_training(sparse().network, tight)->plan();
    auto const least = plan.strip_size;
    while (!is_serial && plan.strip_size < 4 * least) {
      *tight.device_memory_limit += *tight.device_memory_limit / 10;
      plan = prepare_training(sparse().network, tight)->plan();
    }
    EXPECT_TRUE(plan.streams_weights);
    EXPECT_GE(plan.num_cut_layers, is_serial ? 4U : 3U);
    EXPECT_LT(plan.strip_size, is_serial ? 200U : 800U);
    return tight;
  }

  static std::unique_ptr<Training> begin(TrainingOptions const& options, TrainingCase const& given) {
    auto training = prepare_training(given.network, options);
    training->add_samples(given.samples, given.labels, "set");
    return training;
  }

  static void run(Training& training, PatternKind kind, int first, int last, TrainingOutcome& outcome) {
    test::run_steps(training, kind, first, last, samples_of_strips, 17, outcome); // ever fewer leaves
  }

  static TrainingOutcome train(TrainingOptions const& options) {
    auto const training = begin(options, sparse());
    TrainingOutcome outcome;
    run(*training, options.pattern, 0, 5, outcome);
    return outcome;
  }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, StripsTraining, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(StripsTraining, GivesTheSameBitsForEveryOptimizer) {
  for (auto const& entry : all_optimizers) {
    auto const kind = entry.kind;
    SCOPED_TRACE(to_string(kind));
    EXPECT_EQ(train(in_strips(options(kind))), train(options(kind)));
  }
}

TEST_P(StripsTraining, GivesTheSameBitsHoweverItIsDone) {
  auto const expected = train(options());
  test::Draw draw;
  for (std::size_t const micro_leaves : {1U, 8U}) {
    for (std::size_t const keep_every : {1U, 3U}) {
      for (std::size_t const min_bundle : {1U, 10000U}) {
        if (!draw.next()) continue;
        SCOPED_TRACE(testing::Message() << micro_leaves << " leaves at a time, kept every " << keep_every
                                        << ", bundles of " << min_bundle);
        auto way = options();
        way.micro_batch = micro_leaves * leaf();
        way.keep_every = keep_every;
        way.min_bundle = min_bundle;
        EXPECT_EQ(train(in_strips(way)), expected);
      }
    }
  }
}

TEST_P(StripsTraining, GivesTheSameBitsInEveryFormatAndPattern) {
  for (auto const pattern : {PatternKind::keep, PatternKind::set, PatternKind::rigl}) {
    auto way = options();
    way.pattern = pattern;
    auto const expected = train(way);
    EXPECT_EQ(expected.moved.dropped > expected.moved.returned, pattern != PatternKind::keep);
    for (auto const format : {FormatName::csr, FormatName::dense}) {
      way.format = format;
      EXPECT_EQ(train(in_strips(way)), expected) << to_string(pattern) << " " << to_string(format);
    }
  }
}

TEST_P(StripsTraining, GoesOnFromAStateOfEitherKind) {
  auto const expected = train(options());
  for (bool const begins_in_strips : {false, true}) {
    TrainingOutcome outcome;
    auto const first = begin(begins_in_strips ? in_strips(options()) : options(), sparse());
    run(*first, PatternKind::keep, 0, 3, outcome);
    auto rest = sparse();
    rest.network = first->network();
    auto const second = begin(begins_in_strips ? options() : in_strips(options()), rest);
    second->restore(first->state());
    run(*second, PatternKind::keep, 3, 5, outcome);
    EXPECT_EQ(outcome, expected) << begins_in_strips;
  }
}

/// A dense network of three layers, of which the device may hold a tenth, with everything else that training needs.
TEST_P(StripsTraining, TrainsDenseLayersOnADeviceForATenthOfTheWeights) {
  RandomStream random(3, 7);
  std::vector<std::size_t> const widths = {2000, 2000, 2000, 10};
  std::vector<Layer> layers;
  for (std::size_t number = 0; number < 3; ++number) {
    Layer layer;
    layer.weights.num_rows = widths[number + 1];
    layer.weights.num_columns = widths[number];
    for (std::size_t output = 0; output < widths[number + 1]; ++output) {
      for (std::size_t input = 0; input < widths[number]; ++input) {
        layer.weights.column_indices.push_back(static_cast<NeuronIndex>(input));
        layer.weights.values.push_back(test::draw_real(random, -0.05, 0.05));
      }
      layer.weights.row_pointers.push_back(layer.weights.num_entries());
    }
    layer.bias = {0.0};
    layer.activation = number < 2 ? Activation::relu() : Activation::identity();
    layers.push_back(std::move(layer));
  }
  auto given = training_case({{2000, 10}, leaf(), 0.4});
  given.network = Network(std::move(layers));
  std::size_t const scalar_bytes = leaf() == 32 ? 8 : 4;
  auto way = options(OptimizerKind::sgd);
  way.batch = leaf();
  way.micro_batch.reset();
  for (auto const format : {FormatName::dense, FormatName::csr}) {
    way.format = format;
    way.device_memory_limit.reset();
    std::vector<std::uint64_t> hashes;
    for (bool const is_limited : {false, true}) {
      if (is_limited) way.device_memory_limit = given.network.num_edges() * scalar_bytes / 10;
      auto const training = begin(way, given);
      EXPECT_EQ(training->plan().num_cut_layers >= 2, is_limited);
      std::vector<std::uint64_t> rows(leaf() - 5);
      std::iota(rows.begin(), rows.end(), std::uint64_t{0});
      for (int step = 0; step < 3; ++step) training->step(0, rows, 0.01);
      hashes.push_back(weights_hash(training->network()));
    }
    EXPECT_EQ(hashes[0], hashes[1]) << to_string(format);
    EXPECT_NE(hashes[0], weights_hash(given.network));
  }
}

} // namespace
} // namespace varve
