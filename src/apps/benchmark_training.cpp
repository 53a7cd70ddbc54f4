#include "apps/benchmark_run.hpp"
#include "core/stopwatch.hpp"
#include "engine/training.hpp"
#include "network/network.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"
#include "reference/train.hpp"

#include <fmt/format.h>

#include <numeric>

namespace varve {
namespace {

constexpr std::uint64_t training_seed = 1;
constexpr std::size_t training_batch = 128;
constexpr int checked_steps = 2; ///< which warm up, too
constexpr double learning_rate = 0.01;

struct TrainingCase {
  std::string name;
  std::vector<std::size_t> widths;
  double density = 0.0;
  InitialWeights weights = InitialWeights::he;
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
struct MiniBatch {
  SampleSet samples;
  Answers answers;
  std::vector<std::uint64_t> rows; ///< of the mini-batch: all
};

MiniBatch data_of(TrainingCase const& one) {
  MiniBatch data{random_samples(one.widths.front(), training_batch, 0.5, training_seed),
                 {},
                 std::vector<std::uint64_t>(training_batch)};
  for (std::size_t sample = 0; sample < training_batch; ++sample)
    data.answers.labels.push_back(static_cast<NeuronIndex>(sample % one.widths.back()));
  std::iota(data.rows.begin(), data.rows.end(), 0U);
  return data;
}

template <class Scalar>
std::uint64_t reference_hash(Network const& network, MiniBatch const& data, TrainingOptions const& options) {
  ReferenceTraining<Scalar> reference(network, options.loss, options.optimizer);
  for (int step = 0; step < checked_steps; ++step) reference.step(data.samples, data.answers, learning_rate);
  return weights_hash(to_network(reference.layers()));
}

/// A network in training on one backend. Its times: "step_seconds" of a step with one mini-batch.
class Trainee final : public Contender {
public:
  /// Both references must outlive the object.
  Trainee(Network const& network, MiniBatch const& data, TrainingOptions const& options, std::uint64_t expected)
      : Contender("training", options.backend, "sgd"),
        data_(data),
        precision_(options.precision),
        expected_(expected),
        training_(prepare_training(network, options)),
        set_(training_->add_samples(data.samples, data.answers, "the samples")) {
    rates = {{"samples_per_second", static_cast<double>(training_batch), "step_seconds"},
             {"edges_per_second", static_cast<double>(network.num_edges() * training_batch), "step_seconds"}};
  }

  AnswerCheck check() override {
    for (int number = 0; number < checked_steps; ++number) step();
    auto const steps = fmt::format("the weights after {} steps have ", checked_steps);
    if (hash() != expected_)
      return {false, steps + "other bits than those of the reference's plain loops", training_batch};
    return {true, steps + "the bits of the reference's plain loops", training_batch};
  }

  /// Steps return the loss, so they are done.
  void measure() override {
    Stopwatch const time;
    step();
    seconds["step_seconds"].push_back(time.seconds());
  }

  std::optional<std::pair<std::string, std::uint64_t>> answer() const override { return std::pair("weights", hash()); }

  void describe(nlohmann::ordered_json& record) override {
    auto const network = training_->network();
    auto const& plan = training_->plan();
    record["setup"].update({{"precision", precision_ == Precision::double_precision ? "double" : "float"},
                            {"optimizer", work},
                            {"loss", "cross-entropy"},
                            {"batch", training_batch}});
    record.update({{"network",
                    {{"name", network.name()},
                     {"layers", network.layers().size()},
                     {"inputs", network.num_inputs()},
                     {"outputs", network.num_outputs()},
                     {"edges", network.num_edges()}}},
                   {"samples", training_batch},
                   {"weights_hash", fmt::format("{:016x}", weights_hash(network))},
                   {"plan",
                    {{"leaf", plan.leaf},
                     {"micro_batch", plan.micro_batch},
                     {"keep_every", plan.keep_every},
                     {"weight_bytes", plan.weight_bytes},
                     {"group_bytes", plan.group_bytes},
                     {"activation_bytes", plan.activation_bytes}}}});
  }

private:
  void step() { training_->step(set_, data_.rows, learning_rate); }
  std::uint64_t hash() const { return weights_hash(training_->network()); }

  MiniBatch const& data_;
  Precision precision_;
  std::uint64_t expected_;
  std::unique_ptr<Training> training_;
  std::size_t set_;
};

} // namespace

void measure_training(BenchmarkOptions const& options, BenchmarkRun& run) {
  std::vector<TrainingCase> const cases = {
      {"train-784-512-512-10-0.1", {784, 512, 512, 10}, 0.1, InitialWeights::he},
      {"train-1024x30-0.02", std::vector<std::size_t>(31, 1024), 0.02, InitialWeights::identity},
  };
  for (auto const& one : cases) {
    auto const network = network_of(one);
    auto const data = data_of(one);
    TrainingOptions training;
    training.batch = training_batch;
    training.precision = precision_of(options.computing.precision);
    auto const expected = training.precision == Precision::double_precision
                              ? reference_hash<double>(network, data, training)
                              : reference_hash<float>(network, data, training);
    Field field;
    for (auto const& name : options.backends) {
      training.backend = parse_backend(name);
      field.push_back(std::make_unique<Trainee>(network, data, training, expected));
    }
    run.measure(one.name, "random edges, random inputs; a mini-batch of 128, always the same", std::move(field));
  }
}

} // namespace varve
