#include "engine/inference.hpp"
#include "engine/random_case.hpp"
#include "engine/training.hpp"
#include "library/public_case.hpp"
#include "network/network.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"
#include "training/trainer.hpp"

#include <varve/evaluate.hpp>
#include <varve/inference.hpp>
#include <varve/product.hpp>
#include <varve/train.hpp>
#include <varve/verify.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <vector>

// The public headers give the answers of the private ones.
namespace varve::test {
namespace {

TEST(SameInference, GivesTheBitsOfTheEngine) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    auto drawn = random_case(seed);
    drawn.samples.first_sample = 0;
    for (auto const backend : compiled_backends()) {
      InferenceOptions options;
      options.backend = backend;
      options.reductions = parse_reductions("auto");
      options.edge_order = EdgeOrder::balanced;
      auto const engine = prepare(drawn.network, options);
      engine->plan(shape_of(drawn.samples));
      auto const expected = engine->infer(drawn.samples, {true, true});
      face::InferenceOptions own;
      own.backend = static_cast<face::Backend>(backend);
      face::PreparedNetwork network(to_public(drawn.network), own);
      auto const found = network.infer(to_public(drawn.samples), {true, true});
      EXPECT_EQ(found.live_samples, expected.live_samples);
      EXPECT_EQ(found.activation_hash, expected.activation_hash);
      EXPECT_EQ(found.predictions, expected.predictions);
      EXPECT_EQ(found.activations.column_indices, expected.activations.matrix.column_indices);
      EXPECT_EQ(found.activations.row_pointers, expected.activations.matrix.row_pointers);
    }
  }
}

/// Sizes of batches that double without a limit would have become 0.
TEST(SameInference, EndsAfterManyShortBatches) {
  auto const drawn = random_case(1);
  face::InferenceOptions options;
  options.batch = 1;
  face::PreparedNetwork network(to_public(drawn.network), options);
  auto const samples = to_public(random_samples(drawn.network.num_inputs(), 100, 0.5, 3));
  std::size_t num_calls = 0;
  network.infer(samples, {}, [&](std::size_t, std::size_t) { ++num_calls; });
  EXPECT_EQ(num_calls, 100U);
}

/// 40 samples with one of 4 classes each, and a network to begin with.
struct Lesson {
  Network network =
      load(InitialNetwork(RandomNetwork({.widths = {20, 30, 4}, .degree = 6, .density = {}, .weight = {}}),
                          {.activation = Activation::relu(), .last_activation = Activation::identity()}));
  SampleSet samples = random_samples(20, 40, 0.5, 3);
  std::vector<NeuronIndex> labels;

  Lesson() {
    for (NeuronIndex sample = 0; sample < 40; ++sample) labels.push_back(sample * 7 % 4);
  }
};

TEST(SameTraining, GivesTheWeightsOfTheTrainer) {
  Lesson const lesson;
  Recipe recipe;
  recipe.batch = 16;
  recipe.epochs = 3;
  recipe.optimizer.kind = OptimizerKind::adam;
  recipe.rate.rate = 0.01;
  for (auto const backend : compiled_backends()) {
    TrainingOptions options;
    options.backend = backend;
    options.optimizer = recipe.optimizer;
    options.batch = recipe.batch;
    auto const engine = prepare_training(lesson.network, options);
    auto const set = engine->add_samples(lesson.samples, {lesson.labels, {}}, "samples");
    Trainer trainer(*engine, recipe, set, 40, set);
    while (!trainer.is_finished()) trainer.advance();

    face::Recipe own;
    own.batch = 16;
    own.epochs = 3;
    own.optimizer = "adam";
    own.rate = 0.01;
    face::TrainingOptions own_options;
    own_options.backend = static_cast<face::Backend>(backend);
    auto const samples = to_public(lesson.samples);
    face::Answers const answers{lesson.labels, {}};
    std::vector<double> losses;
    face::TrainingCallbacks callbacks;
    callbacks.after_epoch = [&](face::Epoch const& epoch) {
      losses.push_back(epoch.loss);
      return true;
    };
    auto const trained = face::train(to_public(lesson.network), samples, answers, own, callbacks,
                                     face::ValidationSet{samples, answers}, own_options);
    EXPECT_EQ(trained.network.weights_hash(), weights_hash(engine->network()));
    EXPECT_EQ(trained.best_epoch, trainer.progress().best_epoch);
    ASSERT_EQ(losses.size(), 3U);
    EXPECT_LT(losses.back(), losses.front());
    EXPECT_TRUE(trained.epochs.back().validation_loss.has_value());
  }
}

/// Hashes of the activations of the first 1, 5, 9, ... samples, by a network that is prepared for them.
std::vector<std::uint64_t> hashes_of(Lesson const& lesson, face::Backend backend) {
  face::InferenceOptions options;
  options.backend = backend;
  face::PreparedNetwork network(to_public(lesson.network), options);
  std::vector<std::uint64_t> hashes;
  for (std::size_t count = 1; count <= lesson.samples.num_samples(); count += 4) {
    auto const samples = to_public(samples_of(lesson.samples, 0, count));
    for (int time = 0; time < 6; ++time) // a GPU records what it launches for a size that comes again
      hashes.push_back(network.infer(samples).activation_hash);
  }
  return hashes;
}

std::uint64_t trained_hash(Lesson const& lesson, face::Backend backend) {
  face::Recipe recipe;
  recipe.batch = 8;
  recipe.epochs = 10;
  recipe.optimizer = "adam";
  recipe.rate = 0.01;
  face::TrainingOptions options;
  options.backend = backend;
  return face::train(to_public(lesson.network), to_public(lesson.samples), {lesson.labels, {}}, recipe, {}, {}, options)
      .network.weights_hash();
}

TEST(SameInThreads, TrainAndInferInTurn) {
  Lesson const lesson;
  for (auto const own : compiled_backends()) {
    auto const backend = static_cast<face::Backend>(own);
    auto const hashes = hashes_of(lesson, backend);
    auto const weights = trained_hash(lesson, backend);
    for (int round = 0; round < 2; ++round) {
      auto training = std::async(std::launch::async, [&] { return trained_hash(lesson, backend); });
      auto inference = std::async(std::launch::async, [&] { return hashes_of(lesson, backend); });
      EXPECT_EQ(hashes_of(lesson, backend), hashes);
      EXPECT_EQ(inference.get(), hashes);
      EXPECT_EQ(training.get(), weights);
    }
  }
}

TEST(SameInThreads, WaitForAProductThatRuns) {
  Lesson const lesson;
  face::PreparedNetwork network(to_public(lesson.network));
  face::PreparedNetwork other(to_public(lesson.network));
  auto const samples = to_public(lesson.samples);
  auto const hash = network.infer(samples).activation_hash;
  std::future<std::uint64_t> waiting;
  auto const in_the_product = [&](std::size_t, std::size_t) {
    EXPECT_EQ(network.infer(samples).activation_hash, hash) << "a thread may use the device in its own turn";
    if (waiting.valid()) return;
    waiting = std::async(std::launch::async, [&] { return other.infer(samples).activation_hash; });
    EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  };
  std::vector<float> const ones(16, 1.0F);
  std::vector<float> c(16);
  auto const view = face::DenseView<float const>::by_rows(ones.data(), 4, 4);
  face::ProductOptions options;
  options.precision = face::Precision::single_precision;
  face::multiply(view, view, face::DenseView<float>::by_rows(c.data(), 4, 4), options, in_the_product);
  EXPECT_EQ(c, std::vector<float>(16, 4.0F));
  ASSERT_TRUE(waiting.valid());
  EXPECT_EQ(waiting.get(), hash);
}

TEST(SameTraining, EndsWhenACallbackSaysSo) {
  Lesson const lesson;
  face::TrainingCallbacks callbacks;
  std::uint64_t num_steps = 0;
  callbacks.after_step = [&](std::uint64_t step, std::uint64_t all) {
    num_steps = step;
    EXPECT_EQ(all, 10U);
  };
  callbacks.after_epoch = [](face::Epoch const& epoch) { return epoch.epoch < 2; };
  auto const trained =
      face::train(to_public(lesson.network), to_public(lesson.samples), {lesson.labels, {}}, {}, callbacks);
  EXPECT_EQ(trained.epochs.size(), 2U);
  EXPECT_EQ(num_steps, 2U);
}

TEST(PublicJudges, AgreeWithTheEngine) {
  for (std::uint64_t seed = 50; seed <= 56; ++seed) {
    SCOPED_TRACE(seed);
    auto const drawn = random_case(seed);
    auto const network = to_public(drawn.network);
    auto const samples = to_public(drawn.samples);
    auto const verdicts = face::judge(network, samples, face::Arithmetic::exact, true);
    ASSERT_EQ(verdicts.of_samples.size(), samples.num_samples());
    EXPECT_EQ(verdicts.activations.num_rows, samples.num_samples());
    auto const live = face::PreparedNetwork(network).infer(samples).live_samples;
    std::size_t next = 0;
    for (std::size_t sample = 0; sample < samples.num_samples(); ++sample) {
      bool const is_alive = next < live.size() && live[next] == sample;
      if (is_alive) ++next;
      auto const& verdict = verdicts.of_samples[sample];
      if (verdict.is_certain_in_float) {
        EXPECT_EQ(verdict.is_alive, is_alive) << sample;
      }
    }
  }
}

} // namespace
} // namespace varve::test
