#include "distribute/communicator.hpp"
#include "distribute/ranks.hpp"

#include "core/runtime.hpp"
#include "engine/places.hpp"
#include "engine/strip_limit.hpp"
#include "engine/training.hpp"
#include "engine/training_at.hpp"
#include "network/network.hpp"
#include "reference/training_case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::Place;
using test::training_case;
using test::TrainingCase;

constexpr std::size_t samples_of_case = 1100; // 18 leaves in float, 35 in double, and the last one is not full

/// What a training leaves behind.
struct Outcome {
  std::uint64_t hash = 0; ///< of all weights and biases
  std::vector<double> losses;
  std::vector<std::size_t> num_right;
  OptimizerState state; ///< on rank 0
  PatternCount moved;

  bool operator==(Outcome const&) const = default;
};

/// All ranks train together, and each compares with what it gets alone on the host.
class SharedTraining : public testing::TestWithParam<Place> {
protected:
  static TrainingCase const& given() {
    static TrainingCase const made = training_case(
        {{30, 40, 35, 20, 25, 30, 8}, samples_of_case, 0.4, {Activation::tanh(), Activation::leaky_relu(0.125)}});
    return made;
  }

  static TrainingOptions options_at(Place place) {
    auto options = test::training_at(place, samples_of_case, OptimizerKind::adam);
    options.min_bundle = 500; // several bundles
    return options;
  }
  /// On the host: where ranks share a GPU, one that works for itself keeps the others waiting.
  static TrainingOptions options_alone() { return options_at({Backend::serial, GetParam().precision}); }
  TrainingOptions options_together() const { return with_all_ranks(options_alone()); }

  /// The same training at the place under test.
  TrainingOptions with_all_ranks(TrainingOptions options) const {
    options.backend = GetParam().backend;
    options.exchange = exchange_;
    return options;
  }
  static std::size_t leaf() { return test::leaf_at(GetParam()); }

  /// Collective.
  bool share_a_gpu() const {
    auto const on_rank_0 = first_repeated(ranks_.gather(device_of_this_rank(GetParam().backend).identity));
    return ranks_.sum(std::uint64_t{on_rank_0 ? 1U : 0U}) > 0;
  }

  /// Collective. Ranks that share a GPU take turns there, milliseconds each.
  int num_steps() const { return share_a_gpu() ? 5 : 20; }

  static void run(Training& training, int first, int last, Outcome& outcome, PatternKind kind = PatternKind::keep) {
    for (int step = first; step < last; ++step) {
      auto const first_row = static_cast<std::size_t>(step);
      auto const rows = test::rows_from(first_row, samples_of_case - 53 * first_row); // ever fewer leaves
      if (kind != PatternKind::keep && step % 4 == 2)
        outcome.moved += training.evolve(0, rows, {kind, 0.4, 5, static_cast<std::uint64_t>(step)});
      auto const sum = training.step(0, rows, 0.01);
      outcome.losses.push_back(sum.loss);
      outcome.num_right.push_back(sum.num_right);
    }
  }
  static void finish(Training& training, Outcome& outcome) {
    auto const sum = training.evaluate(0);
    outcome.losses.push_back(sum.loss);
    outcome.num_right.push_back(sum.num_right);
    outcome.hash = weights_hash(training.network());
    outcome.state = training.state();
  }
  Outcome train(TrainingOptions const& options) const {
    auto const training = prepare_training(given().network, options);
    training->add_samples(given().samples, given().labels, "set");
    Outcome outcome;
    run(*training, 0, num_steps(), outcome, options.pattern);
    finish(*training, outcome);
    return outcome;
  }

  void expect_same(Outcome const& together, Outcome const& alone) const {
    EXPECT_EQ(together.hash, alone.hash);
    EXPECT_EQ(together.moved, alone.moved);
    EXPECT_EQ(together.losses, alone.losses);
    EXPECT_EQ(together.num_right, alone.num_right);
    EXPECT_EQ(together.state.num_steps, alone.state.num_steps);
    EXPECT_EQ(together.state.layers.size(), ranks_.is_root() ? alone.state.layers.size() : 0U);
    if (ranks_.is_root()) {
      EXPECT_EQ(together.state, alone.state);
    }
  }

  /// Speeds that give every rank another share.
  std::vector<double> unequal_speeds() const {
    std::vector<double> speeds;
    for (int rank = 0; rank < ranks_.size(); ++rank) speeds.push_back(1.0 + 0.9 * rank);
    return speeds;
  }

  Communicator const ranks_;
  std::shared_ptr<RankExchange> const exchange_ = Communicator().size() > 1 ? exchange_between_ranks() : nullptr;
};
INSTANTIATE_TEST_SUITE_P(Everywhere, SharedTraining, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(SharedTraining, GivesTheSameBitsHoweverItIsDone) {
  auto const alone = train(options_alone());
  for (std::size_t const micro_leaves : {0U, 1U, 4U}) {
    for (std::size_t const keep_every : {1U, 3U}) {
      for (bool const is_unequal : {false, true}) {
        SCOPED_TRACE(testing::Message() << micro_leaves << " leaves at a time, kept every " << keep_every
                                        << (is_unequal ? ", unequal shares" : ""));
        auto options = options_together();
        if (micro_leaves > 0) options.micro_batch = micro_leaves * leaf();
        options.keep_every = keep_every;
        options.format = is_unequal ? FormatName::dense : FormatName::csr;
        if (is_unequal) options.rank_speeds = unequal_speeds();
        expect_same(train(options), alone);
      }
    }
  }
}

TEST_P(SharedTraining, GivesTheSameBitsByMessages) {
  auto const alone = train(options_alone());
  for (std::size_t const micro_leaves : {0U, 1U}) {
    for (bool const is_unequal : {false, true}) {
      SCOPED_TRACE(testing::Message() << micro_leaves << " leaves at a time" << (is_unequal ? ", unequal shares" : ""));
      auto options = options_together();
      options.reads_peers = false;
      if (micro_leaves > 0) options.micro_batch = micro_leaves * leaf();
      if (is_unequal) options.rank_speeds = unequal_speeds();
      expect_same(train(options), alone);
    }
  }
}

TEST_P(SharedTraining, SaysHowRanksExchange) {
  bool const are_several = ranks_.size() > 1;
  testing::Matcher<std::string> by_memory = testing::Eq("memory");
  if (share_a_gpu()) by_memory = testing::MatchesRegex("messages .ranks . and . share a GPU.");
  for (bool const reads_peers : {false, true}) {
    auto options = options_together();
    options.reads_peers = reads_peers;
    auto const training = prepare_training(given().network, options);
    training->add_samples(given().samples, given().labels, "set");
    EXPECT_EQ(training->exchange_way(), "");
    Outcome outcome;
    run(*training, 0, 1, outcome);
    if (!are_several) {
      EXPECT_EQ(training->exchange_way(), "");
    } else if (reads_peers) {
      EXPECT_THAT(training->exchange_way(), by_memory);
    } else {
      EXPECT_EQ(training->exchange_way(), "messages");
    }
  }
}

TEST_P(SharedTraining, GivesTheSameBitsForEveryOptimizerAndBundle) {
  using enum OptimizerKind;
  for (auto const kind : {sgd, momentum, nesterov, adamw}) {
    for (std::size_t const min_bundle : {1U, 1000000U}) {
      SCOPED_TRACE(to_string(kind) + " " + std::to_string(min_bundle));
      auto alone = options_alone();
      alone.optimizer.kind = kind;
      auto together = with_all_ranks(alone);
      together.rank_speeds = unequal_speeds();
      together.min_bundle = min_bundle;
      expect_same(train(together), train(alone));
    }
  }
}

TEST_P(SharedTraining, ChangesThePatternToTheSameOne) {
  for (auto const pattern : {PatternKind::set, PatternKind::rigl}) {
    for (auto const optimizer : {OptimizerKind::sgd, OptimizerKind::adam}) {
      auto options = options_alone();
      options.pattern = pattern;
      options.optimizer.kind = optimizer;
      auto const alone = train(options);
      EXPECT_GT(alone.moved.dropped, alone.moved.returned);
      options = with_all_ranks(options);
      for (std::size_t const micro_leaves : {0U, 2U}) {
        for (bool const is_unequal : {false, true}) {
          SCOPED_TRACE(testing::Message() << to_string(pattern) << ", " << to_string(optimizer) << ", " << micro_leaves
                                          << " leaves at a time" << (is_unequal ? ", unequal shares" : ""));
          options.micro_batch.reset();
          if (micro_leaves > 0) options.micro_batch = micro_leaves * leaf();
          options.rank_speeds = is_unequal ? unequal_speeds() : std::vector<double>();
          expect_same(train(options), alone);
        }
      }
    }
  }
}

TEST_P(SharedTraining, GivesTheSameBitsWithStreamedWeights) {
  for (auto const pattern : {PatternKind::keep, PatternKind::set, PatternKind::rigl}) {
    auto alone = options_alone();
    alone.pattern = pattern;
    auto const expected = train(alone);
    for (std::size_t const keep_every : {1U, 3U}) {
      for (bool const is_unequal : {false, true}) {
        SCOPED_TRACE(testing::Message() << to_string(pattern) << ", kept every " << keep_every
                                        << (is_unequal ? ", unequal shares" : ""));
        auto options = with_all_ranks(alone);
        options.micro_batch = leaf();
        options.keep_every = keep_every;
        options.format = is_unequal ? FormatName::dense : FormatName::csr;
        if (is_unequal) options.rank_speeds = unequal_speeds();
        auto const resident = prepare_training(given().network, options)->plan();
        options.device_memory_limit = resident.weight_bytes + resident.activation_bytes - 1;
        EXPECT_TRUE(prepare_training(given().network, options)->plan().streams_weights);
        expect_same(train(options), expected);
      }
    }
  }
}

TEST_P(SharedTraining, GivesTheSameBitsWithLayersInStrips) {
  for (auto const pattern : {PatternKind::keep, PatternKind::rigl}) {
    auto alone = options_alone();
    alone.pattern = pattern;
    auto const expected = train(alone);
    auto options = with_all_ranks(alone);
    options.micro_batch = leaf();
    options.keep_every = 1;
    options.format = pattern == PatternKind::keep ? FormatName::dense : FormatName::csr;
    options = test::with_least_memory(given().network, options);
    EXPECT_GT(prepare_training(given().network, options)->plan().num_cut_layers, 0U);
    expect_same(train(options), expected);
  }
}

TEST_P(SharedTraining, GoesOnWithAnotherNumberOfRanks) {
  auto const expected = train(options_alone());
  int const last_step = num_steps();
  int const first = last_step / 3;
  int const second = 2 * first;
  Outcome alone_first; // one rank, then all ranks
  auto const one = prepare_training(given().network, options_alone());
  one->add_samples(given().samples, given().labels, "set");
  run(*one, 0, first, alone_first);
  auto const all = prepare_training(one->network(), options_together());
  all->add_samples(given().samples, given().labels, "set");
  all->restore(one->state());
  run(*all, first, second, alone_first);
  if (ranks_.is_root()) { // then one rank again
    auto const last = prepare_training(all->network(), options_alone());
    last->add_samples(given().samples, given().labels, "set");
    auto const state = all->state();
    last->restore(state);
    run(*last, second, last_step, alone_first);
    finish(*last, alone_first);
    expect_same(alone_first, expected);
  } else {
    EXPECT_EQ(all->state().num_steps, static_cast<std::uint64_t>(second));
  }
}

TEST_P(SharedTraining, WorksWithFewerLeavesThanRanks) {
  auto const few = training_case({{20, 30, 8}, leaf() + 5, 0.5, {Activation::relu()}}); // two leaves
  auto const hash_of = [&](TrainingOptions const& options) {
    auto const training = prepare_training(few.network, options);
    training->add_samples(few.samples, few.labels, "set");
    auto const rows = test::rows_from(0, leaf() + 5);
    for (int step = 0; step < 5; ++step) training->step(0, rows, 0.05);
    EXPECT_EQ(training->evaluate(0).num_samples, leaf() + 5);
    return weights_hash(training->network());
  };
  EXPECT_EQ(hash_of(options_together()), hash_of(options_alone()));
}

TEST_P(SharedTraining, TellsWhatEachRankDid) {
  auto options = options_together();
  options.rank_speeds = unequal_speeds();
  auto const training = prepare_training(given().network, options);
  training->add_samples(given().samples, given().labels, "set");
  Outcome outcome;
  run(*training, 0, 3, outcome);
  auto const times = training->times();
  EXPECT_EQ(times.num_steps, 3U);
  std::uint64_t num_leaves = 0;
  for (std::size_t step = 0; step < 3; ++step) num_leaves += (samples_of_case - step * 53 + leaf() - 1) / leaf();
  EXPECT_EQ(ranks_.sum(times.num_leaves), num_leaves);
  bool const are_several = ranks_.size() > 1;
  EXPECT_GT(times.compute_seconds, 0.0);
  EXPECT_EQ(times.exchange_seconds > 0.0, are_several);
  EXPECT_EQ(times.exchange_bytes > 0.0, are_several);
  if (ranks_.size() > 2) {
    EXPECT_GT(ranks_.max(static_cast<double>(times.num_leaves)), 1.2 * static_cast<double>(num_leaves) / ranks_.size());
  }
}

TEST_P(SharedTraining, HoldsMomentsOnce) {
  auto options = options_together();
  auto const alone = prepare_training(given().network, options_at(GetParam()))->plan().weight_bytes;
  auto const shared = prepare_training(given().network, options)->plan().weight_bytes;
  if (ranks_.size() == 1) {
    EXPECT_EQ(shared, alone);
  }
  options.optimizer.kind = OptimizerKind::sgd;
  auto const without = prepare_training(given().network, options)->plan().weight_bytes;
  std::size_t const scalar = GetParam().precision == Precision::double_precision ? 8 : 4;
  std::size_t moments = 2 * given().network.num_edges() * scalar;
  for (auto const& layer : given().network.layers()) moments += 2 * layer.num_outputs() * 8;
  EXPECT_EQ(shared - without, moments / static_cast<std::size_t>(ranks_.size()));
}

TEST_P(SharedTraining, SaysTheSameOnAllRanksWhenItDiverges) {
  auto options = options_together();
  options.optimizer.kind = OptimizerKind::sgd;
  auto const training = prepare_training(given().network, options);
  training->add_samples(given().samples, given().labels, "set");
  auto const rows = test::rows_from(0, samples_of_case);
  std::string complaint = "none";
  try {
    for (int step = 0; step < 50; ++step) training->step(0, rows, 1e30);
  } catch (InputError const& error) {
    complaint = error.what();
  }
  EXPECT_THAT(complaint, testing::HasSubstr("has a weight or bias that is no finite number"));
  for (auto const& other : ranks_.gather(complaint)) EXPECT_EQ(other, complaint);
}

} // namespace
} // namespace varve
