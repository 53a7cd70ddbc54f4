#include "apps/benchmark_training.hpp"

#include "apps/command.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "engine/training.hpp"
#include "network/weights_hash.hpp"
#include "radixnet/initial_network.hpp"
#include "radixnet/random_network.hpp"
#include "radixnet/random_samples.hpp"
#include "reference/train.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t training_seed = 1;
constexpr std::size_t training_batch = 128;
constexpr int checked_steps = 2; ///< which warm up, too
constexpr double rate = 0.01;

struct TrainingCase {
  std::string name;
  std::vector<std::size_t> widths;
  double density = 0.0;
  InitialWeights weights = InitialWeights::he;
};

std::vector<TrainingCase> const training_cases = {
    {"train-784-512-512-10-0.1", {784, 512, 512, 10}, 0.1, InitialWeights::he},
    {"train-1024x30-0.02", std::vector<std::size_t>(31, 1024), 0.02, InitialWeights::identity},
};

Network network_of(TrainingCase const& one) {
  RandomNetworkRecipe recipe;
  recipe.widths = one.widths;
  recipe.density = one.density;
  recipe.seed = training_seed;
  RandomNetwork const pattern(recipe);
  InitialNetwork const initial(pattern, {one.weights, Activation::relu(), Activation::identity(), training_seed});
  std::vector<Layer> layers;
  for (std::size_t number = 0; number < initial.num_layers(); ++number) layers.push_back(initial.layer(number));
  return Network(std::move(layers), one.name);
}

/// Samples and their labels; the label of a sample is its number modulo that of the outputs.
struct TrainingData {
  SampleSet samples;
  Answers answers;
  std::vector<std::uint64_t> rows; ///< of the mini-batch: all
};

TrainingData data_of(TrainingCase const& one) {
  TrainingData data{random_samples(one.widths.front(), training_batch, 0.5, training_seed),
                    {},
                    std::vector<std::uint64_t>(training_batch)};
  for (std::size_t sample = 0; sample < training_batch; ++sample)
    data.answers.labels.push_back(static_cast<NeuronIndex>(sample % one.widths.back()));
  std::iota(data.rows.begin(), data.rows.end(), 0U);
  return data;
}

template <class Scalar>
std::uint64_t reference_hash(Network const& network, TrainingData const& data, TrainingOptions const& options) {
  ReferenceTraining<Scalar> reference(network, options.loss, options.optimizer);
  for (int step = 0; step < checked_steps; ++step) reference.step(data.samples, data.answers, rate);
  return weights_hash(to_network(reference.layers()));
}

/// A network in training on one backend, and the times of its steps.
struct Trainee {
  Backend backend;
  std::unique_ptr<Training> training;
  std::size_t set = 0;
  std::vector<double> seconds = {};

  double step(TrainingData const& data) {
    Stopwatch const time;
    training->step(set, data.rows, rate); // returns the loss, so the step is done
    return time.seconds();
  }
};

Trainee enter(std::string const& name, Network const& network, TrainingData const& data, TrainingOptions options,
              std::uint64_t expected) {
  options.backend = parse_backend(name);
  Trainee trainee{options.backend, prepare_training(network, options)};
  trainee.set = trainee.training->add_samples(data.samples, data.answers, "the samples");
  for (int step = 0; step < checked_steps; ++step) trainee.step(data);
  if (weights_hash(trainee.training->network()) != expected)
    throw ResourceError(fmt::format("{} on {}: the weights after {} steps have other bits than the reference's",
                                    network.name(), name, checked_steps));
  return trainee;
}

Json describe(RecordHead const& head, Trainee const& trainee, Network const& network, BenchmarkOptions const& options,
              std::uint64_t hash) {
  Json record = begin_record(head, "training");
  auto const& plan = trainee.training->plan();
  record["setup"] = {{"backend", to_string(trainee.backend)},
                     {"device", device_name(trainee.backend)},
                     {"precision", options.precision},
                     {"optimizer", "sgd"},
                     {"loss", "cross-entropy"},
                     {"batch", training_batch}};
  record["network"] = {{"name", network.name()},
                       {"layers", network.layers().size()},
                       {"inputs", network.num_inputs()},
                       {"outputs", network.num_outputs()},
                       {"edges", network.num_edges()}};
  record["samples"] = training_batch;
  record["check"] = {
      {"right", true},
      {"way", fmt::format("the weights after {} steps have the bits of the reference's plain loops", checked_steps)},
      {"samples", training_batch}};
  record["weights_hash"] = fmt::format("{:016x}", hash);
  record["plan"] = {{"leaf", plan.leaf},
                    {"micro_batch", plan.micro_batch},
                    {"keep_every", plan.keep_every},
                    {"weight_bytes", plan.weight_bytes},
                    {"group_bytes", plan.group_bytes},
                    {"activation_bytes", plan.activation_bytes}};
  record["step_seconds"] = summary_of(trainee.seconds);
  double const median = record["step_seconds"]["median"].get<double>();
  record["throughput"] = {
      {"samples_per_second", {{"p50", static_cast<double>(training_batch) / median}}},
      {"edges_per_second",
       {{"p50", static_cast<double>(network.num_edges()) * static_cast<double>(training_batch) / median}}}};
  record["step_seconds_all"] = trainee.seconds;
  return record;
}

void print_training(Json const& record) {
  auto const& seconds = record["step_seconds"];
  auto const readable = [&](char const* name) { return readable_seconds(seconds[name].get<double>()); };
  fmt::print("{:26} {:7} step {:>9} spread {:4.1f} %, p95 {}, p99 {}; {}; {}\n", record["case"].get<std::string>(),
             record["setup"]["backend"].get<std::string>(), readable("median"), 100.0 * seconds["spread"].get<double>(),
             readable("p95"), readable("p99"),
             with_prefix(record["throughput"]["samples_per_second"]["p50"].get<double>(), "samples/s"),
             record["check"]["way"].get<std::string>());
}

void measure(TrainingCase const& one, BenchmarkOptions const& options, BenchmarkRun& run) {
  auto const network = network_of(one);
  auto const data = data_of(one);
  TrainingOptions training;
  training.batch = training_batch;
  bool const in_double = options.precision == "double";
  training.precision = in_double ? Precision::double_precision : Precision::single_precision;
  auto const expected =
      in_double ? reference_hash<double>(network, data, training) : reference_hash<float>(network, data, training);
  std::vector<Trainee> field;
  for (auto const& name : options.backends) field.push_back(enter(name, network, data, training, expected));
  double const enough = options.seconds * static_cast<double>(field.size());
  Stopwatch const time;
  for (std::size_t round = 0; round < options.repeats || (round < most_rounds && time.seconds() < enough); ++round)
    for (auto& trainee : field) trainee.seconds.push_back(trainee.step(data));
  auto const hash = weights_hash(field.front().training->network());
  for (auto const& trainee : field) {
    if (weights_hash(trainee.training->network()) != hash)
      throw ResourceError(fmt::format("{}: {} and {} have other weights after the same steps", one.name,
                                      to_string(field.front().backend), to_string(trainee.backend)));
    auto const record =
        describe(run.head_of(one.name, "random edges, random inputs; a mini-batch of 128, always the same"), trainee,
                 network, options, hash);
    print_training(record);
    run.add(record);
  }
}

} // namespace

void measure_training(BenchmarkOptions const& options, BenchmarkRun& run) {
  for (auto const& one : training_cases) measure(one, options, run);
}

} // namespace varve
