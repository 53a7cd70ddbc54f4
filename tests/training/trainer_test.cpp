#include "training/trainer.hpp"

#include "core/error.hpp"
#include "training/recipe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// Remembers what it was asked to do.
class RecordingEngine final : public Training {
public:
  std::vector<std::vector<std::uint64_t>> batches;
  std::vector<double> rates;
  std::vector<double> validation_losses; ///< told in turn
  std::vector<PatternEvent> events;
  std::vector<std::size_t> steps_of_events; ///< steps taken before each event
  std::vector<std::vector<std::uint64_t>> rows_of_events;
  std::vector<std::size_t> steps_of_checks; ///< steps taken before each check of the moments

  std::size_t add_samples(SampleSet const&, Answers const&, std::string const&) override { return 0; }
  void remove_last_samples() override {}
  LossSum step(std::size_t, std::span<std::uint64_t const> rows, double rate) override {
    batches.emplace_back(rows.begin(), rows.end());
    rates.push_back(rate);
    return {static_cast<double>(rows.size()) * 0.5, rows.size(), 1};
  }
  PatternCount evolve(std::size_t, std::span<std::uint64_t const> rows, PatternEvent const& event) override {
    events.push_back(event);
    steps_of_events.push_back(batches.size());
    rows_of_events.emplace_back(rows.begin(), rows.end());
    return {10 + event.number, event.number};
  }
  void require_finite_moments() override { steps_of_checks.push_back(batches.size()); }
  LossSum evaluate(std::size_t) override { return {validation_losses.at(num_evaluations_++), 1, 1}; }
  Network network() const override { throw std::logic_error("not asked for"); }
  OptimizerState state() const override { return {}; }
  void restore(OptimizerState const&) override {}
  TrainingPlan const& plan() const override { return plan_; }
  TrainingTimes times() const override { return {}; }
  std::string exchange_way() const override { return {}; }

private:
  TrainingPlan plan_;
  std::size_t num_evaluations_ = 0;
};

Recipe small_recipe() {
  Recipe recipe;
  recipe.batch = 4;
  recipe.epochs = 3;
  recipe.rate = {ScheduleKind::cosine, 1.0};
  recipe.seed = 11;
  return recipe;
}

TEST(Trainer, TakesEverySampleOnceAnEpochInItsOrder) {
  RecordingEngine engine;
  Trainer trainer(engine, small_recipe(), 0, 10, std::nullopt);
  EXPECT_EQ(trainer.steps_per_epoch(), 3U);
  std::vector<EpochResult> epochs;
  while (!trainer.is_finished())
    if (auto const epoch = trainer.advance()) epochs.push_back(*epoch);
  ASSERT_EQ(engine.batches.size(), 9U);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::uint64_t> taken;
    for (std::size_t step = 3 * epoch; step < 3 * epoch + 3; ++step)
      taken.insert(taken.end(), engine.batches[step].begin(), engine.batches[step].end());
    EXPECT_EQ(taken, sample_order(11, epoch, 10));
  }
  EXPECT_EQ(engine.batches[2].size(), 2U) << "the last mini-batch holds what is left";
  for (std::uint64_t step = 0; step < 9; ++step)
    EXPECT_EQ(engine.rates[step], rate_at(small_recipe().rate, step, 3, 3));
  ASSERT_EQ(epochs.size(), 3U);
  EXPECT_EQ(epochs[1].epoch, 2U);
  EXPECT_EQ(epochs[1].num_steps, 6U);
  EXPECT_EQ(epochs[1].training.num_samples, 10U);
  EXPECT_EQ(epochs[1].training.num_right, 3U);
  EXPECT_EQ(epochs[1].training.mean(), 0.5);
  EXPECT_FALSE(epochs[1].validation);
  EXPECT_THAT(engine.steps_of_checks, ::testing::ElementsAre(3, 6, 9)) << "moments are checked after each epoch";
}

TEST(Trainer, TakesAMiniBatchLargerThanAllSamplesAsAllSamples) {
  for (std::size_t const batch : {std::size_t(11), std::size_t(1) << 32U, std::numeric_limits<std::size_t>::max()}) {
    RecordingEngine engine;
    auto recipe = small_recipe();
    recipe.batch = batch;
    Trainer trainer(engine, recipe, 0, 10, std::nullopt);
    EXPECT_EQ(trainer.steps_per_epoch(), 1U);
    while (!trainer.is_finished()) trainer.advance();
    ASSERT_EQ(engine.batches.size(), 3U);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(engine.batches[epoch], sample_order(11, epoch, 10));
  }
}

TEST(Trainer, RefusesMoreStepsThanCanBeCounted) {
  RecordingEngine engine;
  auto recipe = small_recipe();
  EXPECT_EQ(num_steps_of(recipe, 10), 9U);
  EXPECT_EQ(num_steps_of(recipe, 12), 9U);
  EXPECT_EQ(num_steps_of(recipe, 13), 12U);
  recipe.epochs = std::numeric_limits<std::size_t>::max() / 3;
  EXPECT_EQ(num_steps_of(recipe, 10), std::numeric_limits<std::uint64_t>::max()) << "the most that can be counted";
  for (std::size_t const epochs : {recipe.epochs + 1, std::size_t(1) << 63U, std::numeric_limits<std::size_t>::max()}) {
    recipe.epochs = epochs;
    EXPECT_THROW(num_steps_of(recipe, 10), UsageError);
    EXPECT_THROW(Trainer(engine, recipe, 0, 10, std::nullopt), UsageError);
  }
}

TEST(Trainer, GoesOnInTheMidstOfAnEpoch) {
  RecordingEngine whole;
  Trainer first(whole, small_recipe(), 0, 10, std::nullopt);
  while (!first.is_finished()) first.advance();
  RecordingEngine engine;
  Trainer before(engine, small_recipe(), 0, 10, std::nullopt);
  for (int step = 0; step < 5; ++step) before.advance();
  Trainer after(engine, small_recipe(), 0, 10, std::nullopt);
  after.resume(progress_from(to_json(before.progress()), "test"));
  EXPECT_EQ(after.progress().epoch.num_samples, 8U);
  std::vector<EpochResult> epochs;
  while (!after.is_finished())
    if (auto const epoch = after.advance()) epochs.push_back(*epoch);
  EXPECT_EQ(engine.batches, whole.batches);
  EXPECT_EQ(engine.rates, whole.rates);
  EXPECT_EQ(epochs[0].training.num_samples, 10U);
}

Recipe evolving_recipe() {
  auto recipe = small_recipe();
  recipe.pattern = {PatternKind::set, 0.5, 2, 0.8, PatternSchedule::constant};
  return recipe;
}

TEST(Trainer, ChangesThePatternBeforeTheSteps) {
  RecordingEngine engine;
  Trainer trainer(engine, evolving_recipe(), 0, 10, std::nullopt);
  std::vector<EpochResult> epochs;
  while (!trainer.is_finished())
    if (auto const epoch = trainer.advance()) epochs.push_back(*epoch);
  EXPECT_THAT(engine.steps_of_events, ::testing::ElementsAre(2, 4, 6)) << "before step 7.2 of 9";
  for (std::size_t i = 0; i < engine.events.size(); ++i) {
    EXPECT_EQ(engine.events[i].kind, PatternKind::set);
    EXPECT_EQ(engine.events[i].fraction, 0.5);
    EXPECT_EQ(engine.events[i].seed, 11U);
    EXPECT_EQ(engine.events[i].number, i + 1);
    EXPECT_EQ(engine.rows_of_events[i], engine.batches[engine.steps_of_events[i]]) << "the mini-batch of the step";
  }
  ASSERT_EQ(epochs.size(), 3U);
  EXPECT_EQ(epochs[0].pattern, (PatternCount{11, 1}));
  EXPECT_EQ(epochs[1].pattern, (PatternCount{12, 2}));
  EXPECT_EQ(epochs[2].pattern, (PatternCount{13, 3}));
  ASSERT_EQ(trainer.changes().size(), 3U);
  EXPECT_EQ(trainer.changes()[2].step, 6U);
  EXPECT_EQ(trainer.changes()[2].count, (PatternCount{13, 3}));
}

TEST(Trainer, ChangesThePatternAfterAResumeAsBefore) {
  RecordingEngine whole;
  Trainer first(whole, evolving_recipe(), 0, 10, std::nullopt);
  while (!first.is_finished()) first.advance();
  for (int stop = 1; stop < 9; ++stop) {
    SCOPED_TRACE(stop);
    RecordingEngine engine;
    Trainer before(engine, evolving_recipe(), 0, 10, std::nullopt);
    for (int step = 0; step < stop; ++step) before.advance();
    Trainer after(engine, evolving_recipe(), 0, 10, std::nullopt);
    after.resume(progress_from(to_json(before.progress()), "test"));
    EXPECT_EQ(after.progress().pattern, before.progress().pattern);
    while (!after.is_finished()) after.advance();
    EXPECT_EQ(engine.steps_of_events, whole.steps_of_events);
    EXPECT_EQ(engine.batches, whole.batches);
  }
}

TEST(Trainer, RemembersTheBestValidation) {
  RecordingEngine engine;
  engine.validation_losses = {0.9, 0.4, 0.6};
  Trainer trainer(engine, small_recipe(), 0, 10, 1);
  while (!trainer.is_finished()) trainer.advance();
  EXPECT_EQ(trainer.progress().best_epoch, 2U);
  EXPECT_EQ(trainer.progress().best_validation_loss, 0.4);
  auto const copy = progress_from(to_json(trainer.progress()), "test");
  EXPECT_EQ(copy.best_validation_loss, 0.4);
  EXPECT_EQ(copy.best_epoch, 2U);
  EXPECT_EQ(trainer.epochs().size(), 3U);
  EXPECT_EQ(trainer.epochs()[1].validation->mean(), 0.4);
  EXPECT_FALSE(trainer.best()) << "nobody asked for it";
}

TEST(Trainer, LossesBeyondTheRangeOfNumbersAreKept) {
  double const infinity = std::numeric_limits<double>::infinity();
  TrainingProgress progress;
  progress.epoch.loss = infinity;
  progress.best_epoch = 1;
  auto const copy = progress_from(to_json(progress), "test");
  EXPECT_EQ(copy.epoch.loss, infinity);
  EXPECT_EQ(copy.best_validation_loss, infinity);
  RecordingEngine engine;
  engine.validation_losses = {infinity, infinity, infinity};
  Trainer trainer(engine, small_recipe(), 0, 10, 1);
  while (!trainer.is_finished()) trainer.advance();
  EXPECT_EQ(trainer.progress().best_epoch, 1U) << "none was better";
  RecordingEngine other;
  other.validation_losses = {infinity, 7.0, infinity};
  Trainer better(other, small_recipe(), 0, 10, 1);
  while (!better.is_finished()) better.advance();
  EXPECT_EQ(better.progress().best_epoch, 2U);
}

TEST(Trainer, RefusesWhatIsNoPlaceInTheRecipe) {
  RecordingEngine engine;
  EXPECT_THROW(Trainer(engine, small_recipe(), 0, 0, std::nullopt), InputError);
  Trainer trainer(engine, small_recipe(), 0, 10, std::nullopt);
  TrainingProgress beyond;
  beyond.num_steps = 10;
  EXPECT_THROW(trainer.resume(beyond), InputError);
  for (auto const* const text : {"", "{}", "[]", "{\"steps\": \"many\"}", "nonsense"})
    EXPECT_THROW(progress_from(text, "test"), InputError) << text;
}

TEST(Recipe, TakesNoEpsilonThatThePrecisionRoundsToZero) {
  auto recipe = small_recipe();
  recipe.optimizer.epsilon = 1e-50;
  recipe.precision = Precision::single_precision;
  EXPECT_NO_THROW(require_valid(recipe)) << "no Adam, no epsilon";
  for (auto const kind : {OptimizerKind::adam, OptimizerKind::adamw}) {
    recipe.optimizer.kind = kind;
    EXPECT_THROW(require_valid(recipe), UsageError);
  }
  recipe.precision = Precision::double_precision;
  EXPECT_NO_THROW(require_valid(recipe));
  recipe.precision = Precision::single_precision;
  recipe.optimizer.epsilon = 1e-38;
  EXPECT_NO_THROW(require_valid(recipe));
}

TEST(Recipe, IsComparedWithThatOfACheckpoint) {
  auto const recipe = small_recipe();
  EXPECT_NO_THROW(require_same(to_json(recipe, 10), to_json(recipe, 10), "run.safetensors"));
  auto other = recipe;
  other.optimizer.l2 = 0.5;
  try {
    require_same(to_json(other, 10), to_json(recipe, 10), "run.safetensors");
    FAIL() << "no complaint";
  } catch (UsageError const& error) {
    EXPECT_STREQ(error.what(),
                 "run.safetensors is of a training with l2 0.5, not 0.0; continue with the same options, or name "
                 "another checkpoint");
  }
  EXPECT_THROW(require_same(to_json(recipe, 10), to_json(recipe, 11), "run.safetensors"), UsageError);
  EXPECT_THROW(require_same("{}", to_json(recipe, 10), "run.safetensors"), UsageError);
  auto huber = recipe;
  huber.loss = {Loss::huber, 0.25};
  EXPECT_EQ(recipe_from(nlohmann::ordered_json::parse(to_json(huber, 10)), "here"), huber);
  other = huber;
  other.loss.delta = 0.5;
  EXPECT_THROW(require_same(to_json(other, 10), to_json(huber, 10), "run.safetensors"), UsageError);
  auto const evolving = evolving_recipe();
  EXPECT_THROW(require_same(to_json(evolving, 10), to_json(recipe, 10), "run.safetensors"), UsageError);
  EXPECT_THROW(require_same(to_json(recipe, 10), to_json(evolving, 10), "run.safetensors"), UsageError);
  for (auto const& changed : {PatternEvolution{PatternKind::rigl, 0.5, 2, 0.8, PatternSchedule::constant},
                              {PatternKind::set, 0.4, 2, 0.8, PatternSchedule::constant},
                              {PatternKind::set, 0.5, 3, 0.8, PatternSchedule::constant},
                              {PatternKind::set, 0.5, 2, 0.7, PatternSchedule::constant},
                              {PatternKind::set, 0.5, 2, 0.8, PatternSchedule::cosine}}) {
    other = evolving;
    other.pattern = changed;
    EXPECT_THROW(require_same(to_json(other, 10), to_json(evolving, 10), "run.safetensors"), UsageError);
  }
  EXPECT_NO_THROW(require_same(to_json(evolving, 10), to_json(evolving, 10), "run.safetensors"));
  other = recipe;
  other.batch = 0;
  EXPECT_THROW(require_valid(other), UsageError);
  other = recipe;
  other.epochs = 0;
  EXPECT_THROW(require_valid(other), UsageError);
}

TEST(Recipe, MayHaveOtherEpochsWhereNothingElseDependsOnThem) {
  auto recipe = small_recipe();
  auto longer = recipe;
  longer.epochs = 5;
  auto const sentence = [&]() -> std::string {
    longer.rate = recipe.rate;
    longer.pattern = recipe.pattern;
    try {
      require_same(to_json(recipe, 10), to_json(longer, 10), "run.safetensors");
      return "";
    } catch (UsageError const& error) {
      return error.what();
    }
  };
  EXPECT_THAT(sentence(),
              ::testing::HasSubstr("with epochs 3, not 5, on which all rates of the cosine schedule depend"));
  for (auto const kind : {ScheduleKind::constant, ScheduleKind::step}) {
    recipe.rate.kind = kind;
    EXPECT_EQ(sentence(), "");
  }
  recipe.pattern = evolving_recipe().pattern; // ends at a part of all steps
  EXPECT_THAT(sentence(), ::testing::HasSubstr("on which the changes of the pattern depend"));
  recipe.pattern.until = 7.0; // ends before a step
  EXPECT_EQ(sentence(), "");
}

TEST(Recipe, HoldsHashesOfWhatIsTrained) {
  auto const recipe = small_recipe();
  TrainingData const data{10, 1, 2, 3};
  auto const own = to_json(recipe, data);
  EXPECT_NO_THROW(require_same_data(own, own, "run.safetensors"));
  EXPECT_NO_THROW(require_same_data(to_json(recipe, 10), own, "run.safetensors")) << "a checkpoint of an older version";
  EXPECT_NO_THROW(require_same(to_json(recipe, 10), own, "run.safetensors"));
  auto const sentence = [&](TrainingData const& other) -> std::string {
    try {
      require_same(to_json(recipe, other), own, "run.safetensors"); // tells options apart, not data
      require_same_data(to_json(recipe, other), own, "run.safetensors");
      return "";
    } catch (InputError const& error) {
      return error.what();
    }
  };
  EXPECT_EQ(sentence(data), "");
  EXPECT_EQ(sentence({10, 7, 2, 3}),
            "run.safetensors is a checkpoint of a training started from another network: other weights, "
            "biases or edges; give it the same files, or name another checkpoint");
  EXPECT_THAT(sentence({10, 1, 7, 3}), ::testing::HasSubstr("of a training with other samples; "));
  EXPECT_THAT(sentence({10, 1, 2, 7}), ::testing::HasSubstr("of a training with other labels or targets; "));
}

} // namespace
} // namespace varve
