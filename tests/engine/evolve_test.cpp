#include "core/error.hpp"
#include "engine/growth_search.hpp"
#include "engine/training.hpp"
#include "engine/training_at.hpp"
#include "engine/training_plan.hpp"
#include "reference/train.hpp"
#include "reference/training_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::training_case;
using test::TrainingCase;

std::vector<Activation> const all = {Activation::relu(), Activation::sigmoid(), Activation::leaky_relu(0.125),
                                     Activation::tanh(), Activation::identity()};

/// A network, its weights, moments and what its changes moved.
struct Evolved {
  std::vector<Layer> layers;
  std::vector<std::vector<std::vector<double>>> moments; ///< [layer][moment][edge]
  PatternCount count;
  bool operator==(Evolved const&) const = default;
};

class EvolvingEngines : public testing::TestWithParam<test::Place> {
protected:
  static constexpr int num_steps = 6;
  static constexpr double rate = 0.05;

  static TrainingOptions options(PatternKind kind, OptimizerKind optimizer = OptimizerKind::adam) {
    auto options = test::training_at(GetParam(), 400);
    options.optimizer.kind = optimizer;
    options.pattern = kind;
    return options;
  }
  static std::size_t leaf() { return test::leaf_at(GetParam()); }

  /// The change before a step: before every second one.
  static PatternEvent event_before(int step, PatternKind kind, double fraction) {
    return {kind, fraction / step, 3, static_cast<std::uint64_t>(step)};
  }

  static void run(Training& training, TrainingCase const& given, PatternKind kind, double fraction, int first, int last,
                  PatternCount& count) {
    auto const rows = test::rows_from(0, given.samples.num_samples());
    for (int step = first; step < last; ++step) {
      if (step % 2 == 1) count += training.evolve(0, rows, event_before(step, kind, fraction));
      training.step(0, rows, rate);
    }
  }

  static Evolved result_of(Training const& training, PatternCount const& count) {
    Evolved evolved{training.network().layers(), {}, count};
    for (auto const& layer : training.state().layers) evolved.moments.push_back(layer.weights);
    return evolved;
  }

  static Evolved evolve(TrainingCase const& given, TrainingOptions const& options, double fraction) {
    auto const training = prepare_training(given.network, options);
    training->add_samples(given.samples, given.labels, "set");
    PatternCount count;
    run(*training, given, options.pattern, fraction, 0, num_steps, count);
    return result_of(*training, count);
  }

  template <class Scalar>
  static Evolved reference_of(TrainingCase const& given, TrainingOptions const& options, double fraction) {
    ReferenceTraining<Scalar> reference(given.network, options.loss, options.optimizer);
    Evolved evolved;
    for (int step = 0; step < num_steps; ++step) {
      if (step % 2 == 1)
        evolved.count += reference.evolve(given.samples, given.labels, event_before(step, options.pattern, fraction));
      reference.step(given.samples, given.labels, rate);
    }
    evolved.layers = to_network(reference.layers()).layers();
    for (auto const& layer : reference.moments()) {
      evolved.moments.emplace_back();
      for (auto const& moment : layer.weights) evolved.moments.back().emplace_back(moment.begin(), moment.end());
    }
    return evolved;
  }
  static Evolved reference_of(TrainingCase const& given, TrainingOptions const& options, double fraction) {
    return options.precision == Precision::double_precision ? reference_of<double>(given, options, fraction)
                                                            : reference_of<float>(given, options, fraction);
  }

  static void expect_equal(Evolved const& found, Evolved const& expected) {
    EXPECT_EQ(found.count, expected.count);
    EXPECT_EQ(found.layers, expected.layers);
    EXPECT_EQ(found.moments, expected.moments);
  }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, EvolvingEngines, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(EvolvingEngines, EqualTheReference) {
  auto const given = training_case({{37, 50, 20, 33, 10}, 200, 0.2, all});
  for (auto const kind : {PatternKind::set, PatternKind::rigl}) {
    for (auto const optimizer : {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adam}) {
      SCOPED_TRACE(to_string(kind) + " " + to_string(optimizer));
      auto const options = EvolvingEngines::options(kind, optimizer);
      auto const expected = reference_of(given, options, 0.6);
      EXPECT_GT(expected.count.dropped, 300U);
      expect_equal(evolve(given, options, 0.6), expected);
    }
  }
}

TEST_P(EvolvingEngines, DoNotDependOnMicroBatchesBlocksOrOnWhatIsComputedAgain) {
  auto const given = training_case({{30, 40, 35, 20, 8}, 330, 0.3, all});
  for (auto const kind : {PatternKind::set, PatternKind::rigl}) {
    auto options = EvolvingEngines::options(kind);
    auto const expected = reference_of(given, options, 0.9);
    for (std::size_t const micro_leaves : {0U, 1U, 2U}) {
      for (std::size_t const growth_bytes : {std::size_t{1}, std::size_t{20000}, std::size_t{1} << 26U}) {
        for (std::size_t const keep_every : {1U, 3U}) {
          SCOPED_TRACE(testing::Message() << to_string(kind) << ", " << micro_leaves << " leaves at a time, kept every "
                                          << keep_every << ", " << growth_bytes << " bytes");
          options.micro_batch.reset();
          if (micro_leaves > 0) options.micro_batch = micro_leaves * leaf();
          options.growth_bytes = growth_bytes;
          options.keep_every = keep_every;
          expect_equal(evolve(given, options, 0.9), expected);
        }
      }
    }
  }
}

TEST_P(EvolvingEngines, BreakTiesAsTheReferenceDoes) {
  auto given = training_case({{20, 24, 24, 8}, 60, 0.3, {Activation::relu()}});
  auto layers = given.network.layers();
  for (auto& layer : layers) // weights of few absolute values; the last layers have no gradient and only ties
    for (auto& weight : layer.weights.values) weight = weight > 0 ? 0.5 : -0.5;
  for (auto& bias : layers[1].bias) bias = -100.0;
  given.network = Network(layers);
  for (auto const kind : {PatternKind::set, PatternKind::rigl}) {
    auto const options = EvolvingEngines::options(kind, OptimizerKind::sgd);
    expect_equal(evolve(given, options, 1.0), reference_of(given, options, 1.0));
  }
}

TEST_P(EvolvingEngines, LeaveFullLayersAndLayersWithoutEdgesAlone) {
  for (double const density : {1.1, 0.0}) {
    auto const given = training_case({{5, 3, 7}, 70, density, all});
    for (auto const kind : {PatternKind::set, PatternKind::rigl}) {
      SCOPED_TRACE(testing::Message() << to_string(kind) << " " << density);
      auto const options = EvolvingEngines::options(kind);
      auto const found = evolve(given, options, 1.0);
      expect_equal(found, reference_of(given, options, 1.0));
      EXPECT_EQ(found.count, PatternCount{});
    }
  }
  // few edges: a fraction of them is none
  auto const given = training_case({{12, 3, 2}, 40, 0.05, all});
  auto const options = EvolvingEngines::options(PatternKind::rigl);
  expect_equal(evolve(given, options, 0.4), reference_of(given, options, 0.4));
}

TEST_P(EvolvingEngines, TakeNearlyFullLayers) {
  auto given = training_case({{9, 3, 20}, 70, 1.1, all});
  auto layers = given.network.layers();
  for (auto& layer : layers) { // one place of each layer is free
    auto& weights = layer.weights;
    weights.column_indices.pop_back();
    weights.values.pop_back();
    for (auto& pointer : weights.row_pointers) pointer = std::min(pointer, weights.num_entries());
  }
  given.network = Network(layers);
  for (auto const kind : {PatternKind::set, PatternKind::rigl}) {
    auto const options = EvolvingEngines::options(kind);
    auto const found = evolve(given, options, 0.5);
    EXPECT_GT(found.count.returned, 0U);
    expect_equal(found, reference_of(given, options, 0.5));
  }
}

TEST_P(EvolvingEngines, GoOnFromAStateAsIfNothingHadHappened) {
  auto const given = training_case({{20, 30, 8}, 200, 0.3, all});
  for (auto const kind : {PatternKind::set, PatternKind::rigl}) {
    auto const options = EvolvingEngines::options(kind);
    auto const expected = evolve(given, options, 0.6);
    for (int stop = 1; stop < num_steps; ++stop) {
      PatternCount count;
      auto const first = prepare_training(given.network, options);
      first->add_samples(given.samples, given.labels, "set");
      run(*first, given, kind, 0.6, 0, stop, count);
      auto const second = prepare_training(first->network(), options);
      second->add_samples(given.samples, given.labels, "set");
      second->restore(first->state());
      run(*second, given, kind, 0.6, stop, num_steps, count);
      expect_equal(result_of(*second, count), expected);
    }
  }
}

TEST_P(EvolvingEngines, RefuseAnotherChangeThanPlanned) {
  auto const given = training_case({{20, 30, 8}, 20, 0.3, all});
  auto const training = prepare_training(given.network, options(PatternKind::set));
  training->add_samples(given.samples, given.labels, "set");
  std::vector<std::uint64_t> const rows = {0, 1, 2};
  EXPECT_THROW(training->evolve(0, rows, {PatternKind::rigl, 0.3}), std::logic_error);
  EXPECT_THROW(training->evolve(0, {}, {PatternKind::set, 0.3}), std::logic_error);
}

using Blocks = std::vector<GrowthBlock>;

/// Layers of 10 x 4, 3 x 10 and 5 x 3 places (outputs x inputs).
Network three_layers() { return training_case({{4, 10, 3, 5}, 1}).network; }

TEST(GrowthBlocks, FitInMemoryAndAscend) {
  auto const network = three_layers();
  EXPECT_EQ(growth_passes(network, {true, true, true}, 1000, true),
            (std::vector<Blocks>{{{0, 0, 10, 0}, {1, 0, 3, 0}, {2, 0, 5, 0}}}));
  EXPECT_EQ(growth_passes(network, {true, true, true}, 21, true),
            (std::vector<Blocks>{{{0, 0, 5, 0}, {0, 5, 5, 0}, {1, 0, 2, 0}, {1, 2, 1, 0}, {2, 0, 5, 0}}}));
  EXPECT_EQ(growth_passes(network, {true, false, true}, 21, false),
            (std::vector<Blocks>{{{0, 0, 5, 0}}, {{0, 5, 5, 0}}, {{2, 0, 5, 0}}}));
  EXPECT_EQ(growth_passes(network, {true, true, true}, 1000, false),
            (std::vector<Blocks>{{{0, 0, 10, 0}, {1, 0, 3, 40}, {2, 0, 5, 70}}}));
  EXPECT_EQ(growth_passes(network, {true, true, false}, 50, false),
            (std::vector<Blocks>{{{0, 0, 10, 0}, {1, 0, 1, 40}}, {{1, 1, 2, 0}}}));
  EXPECT_EQ(growth_passes(network, {false, true, false}, 3, false),
            (std::vector<Blocks>{{{1, 0, 1, 0}}, {{1, 1, 1, 0}}, {{1, 2, 1, 0}}}))
      << "at least one output at a time";
  EXPECT_EQ(growth_passes(network, {false, false, false}, 3, true), std::vector<Blocks>{{}});
}

TEST(GrowthBlocks, GrowWithTheNumberOfPlacesBefore) {
  auto const network = training_case({{1000, 100}, 1, 0.01}).network;
  EXPECT_EQ(growth_passes(network, {true}, 1000000, true),
            (std::vector<Blocks>{{{0, 0, 16, 0}, {0, 16, 16, 0}, {0, 32, 32, 0}, {0, 64, 36, 0}}}));
  EXPECT_EQ(growth_passes(network, {true}, 60000, false),
            (std::vector<Blocks>{{{0, 0, 16, 0}, {0, 16, 16, 16000}, {0, 32, 28, 32000}}, {{0, 60, 40, 0}}}));
}

TEST(GrowthBlocks, AreLimitedByMemory) {
  auto const limits = growth_limits(three_layers(), 8, 4, 2000);
  EXPECT_EQ(limits.bytes_per_sum, (16 + 4 + 1) * 4 + 8U);
  EXPECT_EQ(limits.max_sums, 2000U / 92U);
  EXPECT_EQ(growth_limits(three_layers(), 8, 4, 0).max_sums, 10U) << "one output of the widest layer";
  EXPECT_EQ(growth_limits(three_layers(), 8, 4, 1U << 30U).max_sums, 85U) << "all places";
}

} // namespace
} // namespace varve
