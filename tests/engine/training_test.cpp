#include "engine/training.hpp"

#include "core/error.hpp"
#include "engine/training_at.hpp"
#include "engine/training_plan.hpp"
#include "reference/train.hpp"
#include "reference/training_case.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::training_case;
using test::TrainingCase;
using test::TrainingShape;

std::vector<Activation> const all_activations = {
    Activation::relu(),     Activation::sigmoid(),          Activation::leaky_relu(0.125), Activation::tanh(),
    Activation::softplus(), Activation::clipped_relu(0.75), Activation::identity()};

class TrainingEngines : public testing::TestWithParam<test::Place> {
protected:
  static TrainingOptions options() { return test::training_at(GetParam(), 400); }
  static std::size_t leaf() { return test::leaf_at(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, TrainingEngines, testing::ValuesIn(test::all_places()), test::name_of);

std::vector<std::uint64_t> shuffled(std::size_t count, std::uint64_t step) {
  auto rows = test::rows_from(0, count);
  RandomStream random(9, step);
  for (std::size_t i = count; i-- > 1;) std::swap(rows[i], rows[random.below(i + 1)]);
  return rows;
}

/// The rows of a set in this order.
TrainingCase rows_of_case(TrainingCase const& given, std::span<std::uint64_t const> rows) {
  auto const pick = [&](SparseMatrix const& matrix) {
    SampleSet picked;
    for (auto const row : rows) append_rows(picked, {rows_of(matrix, row, row + 1), 0});
    return picked.matrix;
  };
  TrainingCase part{given.network, {pick(given.samples.matrix), 0}, {}, {}};
  for (auto const row : rows) part.labels.labels.push_back(given.labels.labels[row]);
  part.targets.values = pick(given.targets.values);
  for (auto const& [from, to] : {std::pair(&given.labels, &part.labels), std::pair(&given.targets, &part.targets)})
    for (auto const row : rows)
      if (!from->weights.empty()) to->weights.push_back(from->weights[row]);
  return part;
}

constexpr int num_steps = 4;
constexpr double rate = 0.05;

std::vector<double> run(Training& training, std::size_t num_samples, int first, int last) {
  std::vector<double> losses;
  for (int step = first; step < last; ++step) {
    auto rows = shuffled(num_samples, static_cast<std::uint64_t>(step));
    rows.resize(num_samples - static_cast<std::size_t>(13 * step)); // the last mini-batch of an epoch is smaller
    losses.push_back(training.step(0, rows, rate).loss);
  }
  return losses;
}

struct Trained {
  std::vector<Layer> layers;
  std::vector<double> losses;
};

Trained train(TrainingCase const& given, Answers const& answers, TrainingOptions const& options) {
  auto const training = prepare_training(given.network, options);
  training->add_samples(given.samples, answers, "set");
  auto losses = run(*training, given.samples.num_samples(), 0, num_steps);
  return {training->network().layers(), losses};
}

template <class Scalar>
Trained train_reference(TrainingCase const& given, bool has_labels, TrainingOptions const& options) {
  ReferenceTraining<Scalar> reference(given.network, options.loss, options.optimizer);
  Trained trained;
  for (int step = 0; step < num_steps; ++step) {
    auto rows = shuffled(given.samples.num_samples(), static_cast<std::uint64_t>(step));
    rows.resize(rows.size() - static_cast<std::size_t>(13 * step));
    auto const part = rows_of_case(given, rows);
    trained.losses.push_back(reference.step(part.samples, has_labels ? part.labels : part.targets, rate).loss);
  }
  trained.layers = to_network(reference.layers()).layers();
  return trained;
}

void expect_reference(TrainingCase const& given, bool has_labels, TrainingOptions const& options) {
  auto const found = train(given, has_labels ? given.labels : given.targets, options);
  auto const expected = options.precision == Precision::double_precision
                            ? train_reference<double>(given, has_labels, options)
                            : train_reference<float>(given, has_labels, options);
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.layers, expected.layers);
}

TEST_P(TrainingEngines, EqualTheReferenceAfterEveryOptimizersSteps) {
  auto const given = training_case({{37, 50, 33, 21, 10}, 300, 0.4, all_activations});
  auto options = TrainingEngines::options();
  for (auto const& entry : all_optimizers) {
    auto const kind = entry.kind;
    SCOPED_TRACE(to_string(kind));
    options.optimizer.kind = kind;
    options.optimizer.l2 = 1e-3;
    options.loss = kind == OptimizerKind::momentum ? Loss::mean_square : Loss::cross_entropy;
    expect_reference(given, true, options);
  }
  for (Loss const loss : {Loss(Loss::mean_square), Loss(Loss::huber, 0.3)}) {
    options.loss = loss;
    expect_reference(given, false, options);
  }
  auto weighted = given;
  weighted.labels = given.weighted(given.labels);
  weighted.targets = given.weighted(given.targets);
  expect_reference(weighted, true, options);
  expect_reference(weighted, false, options);
  options.loss = Loss::logistic;
  expect_reference(given, true, options);
  auto of_two = training_case({{37, 20, 1}, 300, 0.4, all_activations});
  of_two.labels = of_two.labels_of_two();
  of_two.targets = of_two.probabilities();
  expect_reference(of_two, true, options);
  expect_reference(of_two, false, options);
}

TEST_P(TrainingEngines, DoNotDependOnMicroBatchesOrOnWhatIsComputedAgain) {
  auto const given = training_case({{30, 40, 35, 20, 25, 30, 8}, 380, 0.4, all_activations});
  auto options = TrainingEngines::options();
  options.optimizer.kind = OptimizerKind::momentum;
  auto const expected = train(given, given.labels, options);
  for (std::size_t const micro_leaves : {0U, 1U, 2U, 4U}) {
    for (std::size_t const keep_every : {1U, 2U, 3U, 6U, 9U}) {
      SCOPED_TRACE(testing::Message() << micro_leaves << " leaves at a time, kept every " << keep_every);
      if (micro_leaves > 0) options.micro_batch = micro_leaves * leaf();
      options.keep_every = keep_every;
      auto const found = train(given, given.labels, options);
      EXPECT_EQ(found.losses, expected.losses);
      EXPECT_EQ(found.layers, expected.layers);
    }
  }
}

/// Narrow layers of equal widths, which hosts compute in series, between others; some layers are dense if wanted.
TEST_P(TrainingEngines, ComputeSeriesOfLayersLikeTheReference) {
  std::vector<std::size_t> widths(14, 20);
  widths.insert(widths.end(), {31, 31, 31, 31, 17, 17, 9});
  auto const given = training_case({widths, 380, 0.3, all_activations});
  auto options = TrainingEngines::options();
  options.optimizer.kind = OptimizerKind::momentum;
  bool const is_host = options.backend == Backend::serial || options.backend == Backend::openmp;
  EXPECT_EQ(prepare_training(given.network, options)->plan().num_series_layers, is_host ? 16U : 0U);
  for (std::size_t const micro_leaves : {0U, 1U, 4U}) {
    for (std::size_t const keep_every : {1U, 2U, 5U, 30U}) {
      SCOPED_TRACE(testing::Message() << micro_leaves << " leaves at a time, kept every " << keep_every);
      if (micro_leaves > 0) options.micro_batch = micro_leaves * leaf();
      options.keep_every = keep_every;
      expect_reference(given, true, options);
    }
  }
  options.format = FormatName::dense;
  EXPECT_EQ(prepare_training(given.network, options)->plan().num_series_layers, 0U);
  expect_reference(given, true, options);
}

/// Layers of one width between others, some with all edges, which dense kernels compute: GPUs add the sums of several
/// layers' leaves at a time where neighbours have one shape and format.
TEST_P(TrainingEngines, AddSumsOfSeveralLayersLikeTheReference) {
  TrainingShape const sparse{{50, 90, 90, 90, 90, 90, 90, 90, 90, 12}, 380, 0.3, all_activations};
  TrainingShape full = sparse;
  full.density = 1.1;
  auto given = training_case(sparse);
  auto layers = given.network.layers();
  auto const complete = training_case(full).network.layers();
  for (std::size_t const number : {2U, 5U, 6U}) layers[number] = complete[number];
  given.network = Network(layers);
  auto options = TrainingEngines::options();
  bool const is_host = options.backend == Backend::serial || options.backend == Backend::openmp;
  auto const plan = prepare_training(given.network, options)->plan();
  EXPECT_EQ(plan.num_dense_backward, is_host ? 0U : 3U);
  EXPECT_EQ(plan.group_bytes == 0, is_host);
  for (std::size_t const micro_leaves : {0U, 1U, 4U}) {
    SCOPED_TRACE(testing::Message() << micro_leaves << " leaves at a time");
    if (micro_leaves > 0) options.micro_batch = micro_leaves * leaf();
    expect_reference(given, true, options);
  }
}

TEST_P(TrainingEngines, GoOnFromAStateAsIfNothingHadHappened) {
  auto const given = training_case({{20, 30, 8}, 200, 0.5, all_activations});
  auto options = TrainingEngines::options();
  for (auto const kind : {OptimizerKind::nesterov, OptimizerKind::adam, OptimizerKind::sgd}) {
    options.optimizer.kind = kind;
    auto const whole = train(given, given.labels, options);
    auto const first = prepare_training(given.network, options);
    first->add_samples(given.samples, given.labels, "set");
    run(*first, 200, 0, 2);
    auto const second = prepare_training(first->network(), options);
    second->add_samples(given.samples, given.labels, "set");
    second->restore(first->state());
    EXPECT_EQ(second->state(), first->state());
    run(*second, 200, 2, num_steps);
    EXPECT_EQ(second->network().layers(), whole.layers) << to_string(kind);
    EXPECT_EQ(second->state().num_steps, 4U);
  }
}

/// GPUs record the launches of a step in one pass and repeat them, those of several passes they make anew.
TEST_P(TrainingEngines, RepeatStepsBetweenOtherCalls) {
  auto const given = training_case({{30, 40, 25, 8}, 300, 0.4, all_activations});
  auto const other = training_case({{30, 40, 25, 8}, 300, 0.7, all_activations});
  auto options = TrainingEngines::options();
  options.pattern = PatternKind::rigl;
  auto const train_long = [&] {
    auto const training = prepare_training(given.network, options);
    training->add_samples(given.samples, given.labels, "set");
    std::vector<double> losses;
    for (int step = 0; step < 16; ++step) {
      if (step == 6) training->add_samples(other.samples, other.labels, "other");
      auto rows = shuffled(300, static_cast<std::uint64_t>(step));
      if (step % 5 == 4) rows.resize(140);
      losses.push_back(training->step(step > 12 ? 1 : 0, rows, rate / (step + 1)).loss);
      if (step == 3) losses.push_back(training->evaluate(0).loss);
      if (step == 7) training->evolve(0, rows, {PatternKind::rigl, 0.3, 1, 0});
      if (step == 10) training->restore(training->state());
    }
    return Trained{training->network().layers(), losses};
  };
  auto const found = train_long();
  options.micro_batch = leaf();
  auto const expected = train_long();
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.layers, expected.layers);
}

/// A mini-batch may come as a set of its own, which goes before the next one comes.
TEST_P(TrainingEngines, TakeStepsWithSetsThatGo) {
  auto const given = training_case({{30, 40, 25, 8}, 200, 0.4, all_activations});
  auto const options = TrainingEngines::options();
  auto const kept = prepare_training(given.network, options);
  auto const set = kept->add_samples(given.samples, given.labels, "set");
  auto const passing = prepare_training(given.network, options);
  for (int step = 0; step < 6; ++step) {
    auto rows = shuffled(200, static_cast<std::uint64_t>(step));
    rows.resize(step % 3 == 2 ? 70 : 140);
    auto const part = rows_of_case(given, rows);
    std::vector<std::uint64_t> order(rows.size());
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    auto const number = passing->add_samples(part.samples, part.labels, "part");
    EXPECT_EQ(number, 0U);
    EXPECT_EQ(passing->step(number, order, rate).loss, kept->step(set, rows, rate).loss);
    passing->remove_last_samples();
  }
  EXPECT_EQ(passing->network().layers(), kept->network().layers());
}

TEST_P(TrainingEngines, EvaluateWithoutChangingAnything) {
  auto const given = training_case({{20, 30, 8}, 200, 0.5, all_activations});
  auto options = TrainingEngines::options();
  auto const training = prepare_training(given.network, options);
  auto const set = training->add_samples(given.samples, given.labels, "set");
  auto const sum = training->evaluate(set);
  EXPECT_EQ(sum.num_samples, 200U);
  if (options.precision == Precision::double_precision) {
    auto const expected =
        gradient_of(trained_layers<double>(given.network), given.samples, given.labels, options.loss).loss;
    EXPECT_EQ(sum.loss, expected.loss);
    EXPECT_EQ(sum.num_right, expected.num_right);
  }
  options.micro_batch = leaf();
  auto const in_parts = prepare_training(given.network, options);
  in_parts->add_samples(given.samples, given.labels, "set");
  EXPECT_EQ(in_parts->evaluate(0).loss, sum.loss);
  auto const all_rows = test::rows_from(0, 200);
  EXPECT_EQ(training->step(set, all_rows, 0.1).loss, sum.loss) << "a step tells the loss before it";
}

TEST_P(TrainingEngines, SayWhichLayerIsNoNumberAnyMore) {
  auto const given = training_case({{20, 30, 8}, 100, 0.5, {Activation::identity()}});
  auto options = TrainingEngines::options();
  options.loss = Loss::mean_square;
  auto const training = prepare_training(given.network, options);
  training->add_samples(given.samples, given.targets, "set");
  auto const rows = shuffled(100, 1);
  try {
    for (int step = 0; step < 200; ++step) training->step(0, rows, 1e6);
    FAIL() << "no complaint";
  } catch (InputError const& error) {
    EXPECT_THAT(error.what(), testing::MatchesRegex("training diverges: after step [0-9]+, layer [01] has a weight or "
                                                    "bias that is no finite number; take a lower rate"));
  }
}

TEST_P(TrainingEngines, RefuseWhatDoesNotFit) {
  auto const given = training_case({{20, 30, 8}, 10, 0.5, all_activations});
  auto const training = prepare_training(given.network, options());
  auto const complaint = [](auto const& work) -> std::string {
    try {
      work();
    } catch (Error const& error) {
      return error.what();
    }
    return "none";
  };
  auto const other = training_case({{21, 8}, 10, 0.5, all_activations});
  EXPECT_EQ(complaint([&] { training->add_samples(other.samples, other.labels, "set.safetensors"); }),
            "set.safetensors: the samples have 21 neurons, but layer 0 takes 20 inputs");
  EXPECT_EQ(complaint([&] { training->add_samples(given.samples, {}, "set.safetensors"); }),
            "set.safetensors: found 0 labels for 10 samples, expected one each");
  auto targets = given.targets;
  targets.values.values.front() = 1e39;
  auto mean_square = options();
  mean_square.loss = Loss::mean_square;
  auto const regression = prepare_training(given.network, mean_square);
  auto const beyond = complaint([&] { regression->add_samples(given.samples, targets, "set"); });
  bool const is_held = GetParam().precision == Precision::double_precision;
  EXPECT_THAT(beyond, testing::StartsWith(is_held ? "none" : "set: targets: sample 1: the value of neuron "));
  EXPECT_THAT(beyond, testing::HasSubstr(is_held ? "none" : " is 1e+39, beyond 3.40282347e+38"));
  EXPECT_EQ(complaint([&] { training->restore({}); }),
            "the state of the optimizer does not fit the network and the optimizer sgd");
  auto bad = options();
  bad.optimizer.momentum = 1.5;
  EXPECT_EQ(complaint([&] { prepare_training(given.network, bad); }),
            "the momentum is 1.5, expected a number from 0 to below 1");
  bad = options();
  bad.format = FormatName::sliced_ell;
  EXPECT_EQ(complaint([&] { prepare_training(given.network, bad); }),
            "layers in training are stored as csr or dense, not as sliced_ell");
  bad = options();
  bad.memory_limit = bad.device_memory_limit = 1000;
  EXPECT_THAT(complaint([&] { prepare_training(given.network, bad); }),
              testing::HasSubstr("but 1000 bytes may be used"));
}

TrainingSizes const sizes_of_memory{std::vector<std::size_t>(65, 10), 64, 4, 1000, {{kWholeLayers, 100}}, 5000};

TEST(TrainingMemory, IsSavedByComputingAgainThenBySmallerMicroBatches) {
  TrainingOptions options;
  options.batch = 64 * 5;
  auto const at = [&](std::size_t limit) { return plan_training(sizes_of_memory, options, {limit, {}, 0}); };
  auto const plenty = at(1U << 30U);
  EXPECT_EQ(plenty.keep_every, 1U);
  EXPECT_EQ(plenty.micro_batch, 320U);
  EXPECT_EQ(plenty.activation_bytes, 5 * (65 + 2) * 10 * 64 * 4U);
  auto const half = at(plenty.activation_bytes / 2);
  EXPECT_EQ(half.micro_batch, 320U);
  EXPECT_EQ(half.keep_every, 3U);
  auto const least = 5 * bytes_per_leaf(sizes_of_memory, 6);
  EXPECT_EQ(at(1000 + least).keep_every, 6U);
  EXPECT_EQ(at(999 + least).micro_batch, 256U);
  EXPECT_EQ(at(1000 + bytes_per_leaf(sizes_of_memory, 6)).micro_batch, 64U);
  EXPECT_THROW(at(999 + bytes_per_leaf(sizes_of_memory, 6)), ResourceError);
}

TEST(TrainingMemory, GoesToGroupsOfLayersOnlyIfNothingElseNeedsIt) {
  TrainingOptions options;
  options.batch = 320;
  auto with_groups = sizes_of_memory;
  with_groups.group_bytes = 500;
  auto const at = [&](std::size_t limit) { return plan_training(with_groups, options, {limit, {}, 0}); };
  auto const enough = 1000 + 5 * bytes_per_leaf(sizes_of_memory, 1) + 500;
  EXPECT_EQ(at(enough).group_bytes, 500U);
  EXPECT_EQ(at(enough).weight_bytes, 1000U);
  EXPECT_EQ(at(enough - 1).group_bytes, 0U);
  EXPECT_EQ(at(enough - 1).keep_every, 1U);
  EXPECT_EQ(plan_training(with_groups, options, {999 + bytes_per_leaf(sizes_of_memory, 6), {}, 5000}).group_bytes, 0U)
      << "streamed";
}

TEST(TrainingMemory, TakesWhatIsAskedForOrSaysWhyNot) {
  TrainingOptions options;
  options.batch = 1000;
  options.micro_batch = 128;
  options.keep_every = 5;
  auto const plan = plan_training(sizes_of_memory, options, {1U << 30U, {}, 0});
  EXPECT_EQ(plan.micro_batch, 128U);
  EXPECT_EQ(plan.keep_every, 5U);
  EXPECT_THROW(plan_training(sizes_of_memory, options, {10000, {}, 0}), ResourceError);
  for (std::size_t const micro_batch : {0U, 63U, 192U}) {
    options.micro_batch = micro_batch;
    EXPECT_THROW(plan_training(sizes_of_memory, options, {1U << 30U, {}, 0}), UsageError) << micro_batch;
  }
  options.micro_batch.reset();
  options.keep_every = 0;
  EXPECT_THROW(plan_training(sizes_of_memory, options, {1U << 30U, {}, 0}), UsageError);
  options.keep_every = SIZE_MAX; // of 65 panels the first alone is kept
  EXPECT_EQ(plan_training(sizes_of_memory, options, {1U << 30U, {}, 0}).keep_every, 65U);
}

TEST(TrainingMemory, StreamsWeightsOnlyWhenNothingElseFits) {
  TrainingOptions options;
  options.batch = 320;
  auto const least = bytes_per_leaf(sizes_of_memory, 6);
  auto const at = [&](std::size_t device, std::size_t host) {
    return plan_training(sizes_of_memory, options, {device, {}, host});
  };
  auto const resident = at(1000 + least, 5000);
  EXPECT_FALSE(resident.streams_weights);
  EXPECT_EQ(resident.micro_batch, 64U);
  EXPECT_EQ(resident.host_bytes, 0U);
  auto const streamed = at(999 + least, 5000);
  EXPECT_TRUE(streamed.streams_weights);
  EXPECT_EQ(streamed.weight_bytes, 100U);
  EXPECT_EQ(streamed.host_bytes, 5000U);
  EXPECT_EQ(streamed.micro_batch, 64U);
  EXPECT_EQ(at(100 + least, 5000).keep_every, 6U);
  auto const complaint = [&](std::size_t device, std::size_t host) -> std::string {
    try {
      at(device, host);
    } catch (ResourceError const& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(complaint(999 + least, 0), testing::HasSubstr("training needs 1000 bytes for weights and "));
  EXPECT_THAT(complaint(99 + least, 5000),
              testing::HasSubstr("training needs 100 bytes for weights that are streamed"));
  EXPECT_EQ(complaint(100 + least, 4999),
            "training needs 5000 bytes of host memory for weights that are streamed to the device, but 4999 bytes may "
            "be used; take a device or a host with more memory");
}

} // namespace
} // namespace varve
