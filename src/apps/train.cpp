#include "apps/command.hpp"
#include "apps/standard_streams.hpp"
#include "apps/train_options.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "core/version.hpp"
#include "distribute/communicator.hpp"
#include "distribute/stop_signal.hpp"
#include "io/hdf5.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/labels.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "io/sample_file.hpp"
#include "io/targets.hpp"
#include "network/weights_hash.hpp"
#include "training/checkpoint.hpp"
#include "training/history.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

namespace varve {
namespace {

constexpr int stopped = 5; // exit code

/// Samples with their answers.
struct AnsweredSamples {
  SampleSet samples;
  Answers answers;
};

/// The files of samples and their answers; an empty name of answers means the file of the samples.
struct AnswerFiles {
  std::string const& samples;
  std::string const& labels;
  std::string const& targets;
};

AnsweredSamples read_samples(AnswerFiles const& files, Network const& network, Loss loss) {
  AnsweredSamples read;
  read.samples = open_samples(files.samples, network.num_inputs());
  SampleRange const range{read.samples.first_sample, read.samples.first_sample + read.samples.num_samples()};
  bool const has_targets = loss == Loss::mean_square && files.labels.empty() && hdf5::has_signature(files.samples) &&
                           read_sample_header(files.samples).num_targets.has_value();
  if (!files.targets.empty() || has_targets) {
    if (!files.labels.empty()) throw UsageError("samples have labels or targets, not both");
    auto const reader = open_targets(has_targets && files.targets.empty() ? files.samples : files.targets,
                                     network.num_outputs(), range, OtherSamples::refused);
    read.answers.values = to_set(reader->read(0, reader->num_samples())).matrix;
    return read;
  }
  auto const& path = files.labels.empty() ? files.samples : files.labels;
  auto labels = open_labels(path, range, OtherSamples::refused);
  require_classes(labels, network.num_outputs(), path);
  read.answers.labels = std::move(labels.classes);
  return read;
}

/// One run of `varve train`.
class TrainJob {
public:
  explicit TrainJob(TrainOptions const& options)
      : options_(options), recipe_(recipe_of(options)), engine_options_(engine_options(options, recipe_)) {}

  int run() {
    prepare();
    std::optional<StopSignal> stop_signal;
    if (!options_.checkpoint.empty()) stop_signal.emplace();
    while (!has_ended()) {
      if (StopSignal::has_come()) {
        save_checkpoint();
        say(fmt::format("varve: stopped after step {}; the same command goes on from {}",
                        trainer_->progress().num_steps, options_.checkpoint));
        return stopped;
      }
      auto const epoch = trainer_->advance();
      num_samples_done_ += epoch ? epoch->training.num_samples : 0;
      if (epoch) end_epoch(*epoch);
      bool const is_due = options_.checkpoint_every && trainer_->progress().num_steps % *options_.checkpoint_every == 0;
      if (epoch || is_due) save_checkpoint();
    }
    finish();
    return 0;
  }

private:
  void prepare() {
    auto network = load(*open_network(options_.network, options_.challenge));
    auto const training = read_samples({options_.input, options_.labels, options_.targets}, network, recipe_.loss);
    if (training.samples.num_samples() == 0) throw InputError(options_.input + " holds no samples to train with");
    recipe_text_ = to_json(recipe_, training.samples.num_samples());
    auto const checkpoint = find_checkpoint(network);
    if (checkpoint) network = checkpoint->network;
    engine_ = prepare_training(network, engine_options_);
    auto const set = engine_->add_samples(training.samples, training.answers, options_.input);
    std::optional<std::size_t> validation_set;
    if (!options_.validation.empty()) {
      auto const validation = read_samples(
          {options_.validation, options_.validation_labels, options_.validation_targets}, network, recipe_.loss);
      if (validation.samples.num_samples() == 0)
        throw InputError(options_.validation + " holds no samples to validate with");
      validation_set = engine_->add_samples(validation.samples, validation.answers, options_.validation);
    }
    trainer_.emplace(*engine_, recipe_, set, training.samples.num_samples(), validation_set);
    print_head(network, training.samples.num_samples());
    if (checkpoint) resume(*checkpoint);
    if (!options_.history.empty())
      history_.emplace(options_.history, trainer_->progress().num_steps / trainer_->steps_per_epoch(),
                       pattern_changes());
    time_ = Stopwatch();
  }

  bool pattern_changes() const { return recipe_.pattern.kind != PatternKind::keep; }

  std::optional<Checkpoint> find_checkpoint(Network const& network) const {
    if (options_.checkpoint.empty()) return std::nullopt;
    auto found = read_checkpoint(options_.checkpoint, [](std::string const& why) { say("varve: " + printable(why)); });
    if (!found) return std::nullopt;
    require_same(found->record.recipe, recipe_text_, options_.checkpoint);
    require_same_shape(*found, network, options_.checkpoint, pattern_changes());
    return found;
  }

  void resume(Checkpoint const& checkpoint) {
    engine_->restore(checkpoint.record.optimizer);
    trainer_->resume(progress_from(checkpoint.record.progress, options_.checkpoint + ": progress"));
    fmt::print("resumed   after step {} of {}\n", trainer_->progress().num_steps, trainer_->num_steps());
  }

  void print_head(Network const& network, std::size_t num_samples) const {
    auto const& plan = engine_->plan();
    fmt::print("network   {}: {} layers, {} inputs, {} outputs, {}\n", printable(options_.network),
               network.num_layers(), network.num_inputs(), network.num_outputs(),
               with_prefix(static_cast<double>(network.num_edges()), "edges"));
    fmt::print("input     {}: {} samples\n", printable(options_.input), num_samples);
    fmt::print("engine    varve on {}: {}, {}\n", options_.backend, device_name(engine_options_.backend),
               options_.precision);
    fmt::print("recipe    {}, {}, rate {} ({}), {} samples a step, {} epochs, seed {}\n", options_.loss,
               options_.optimizer, recipe_.rate.rate, options_.rate_schedule, recipe_.batch, recipe_.epochs,
               recipe_.seed);
    if (pattern_changes()) {
      auto const& pattern = recipe_.pattern;
      fmt::print("pattern   {}: moves {} of the edges ({}) every {} steps, until {} {}\n", options_.pattern,
                 pattern.fraction, options_.pattern_schedule, pattern.every, pattern.until,
                 pattern.until > 1.0 ? "steps" : "of all steps");
    }
    fmt::print("memory    weights {}, activations {} of {} samples at a time{}\n",
               with_prefix(static_cast<double>(plan.weight_bytes), "B"),
               with_prefix(static_cast<double>(plan.activation_bytes), "B"), plan.micro_batch,
               plan.keep_every == 1 ? std::string() : fmt::format(", kept of every {} layers", plan.keep_every));
  }

  bool has_ended() const {
    auto const& progress = trainer_->progress();
    if (trainer_->is_finished()) return true;
    if (!options_.patience || progress.num_steps % trainer_->steps_per_epoch() != 0) return false;
    return progress.num_steps / trainer_->steps_per_epoch() >= progress.best_epoch + *options_.patience &&
           progress.num_steps > 0;
  }

  void end_epoch(EpochResult const& result) {
    auto text = fmt::format("epoch {:<4}loss {:.6f}", result.epoch, result.training.mean());
    bool const has_labels = options_.targets.empty() && result.training.num_right > 0;
    if (has_labels) text += fmt::format("  accuracy {:.4f}", result.training.accuracy());
    if (result.validation) {
      text += fmt::format("  validation loss {:.6f}", result.validation->mean());
      if (has_labels) text += fmt::format("  accuracy {:.4f}", result.validation->accuracy());
    }
    if (pattern_changes()) text += fmt::format("  edges moved {}", result.pattern.dropped - result.pattern.returned);
    double const rate = static_cast<double>(num_samples_done_) / time_.seconds();
    auto const left = trainer_->num_steps() - result.num_steps;
    fmt::print("{}  {:.0f} samples/s, {} left\n", text, rate,
               readable_seconds(static_cast<double>(left * recipe_.batch) / rate));
    flush_output();
    if (history_) history_->add(result);
    epochs_.push_back(result);
    if (!options_.best.empty() && trainer_->progress().best_epoch == result.epoch)
      save_network(engine_->network(), options_.best);
  }

  void save_checkpoint() const {
    if (options_.checkpoint.empty()) return;
    write_checkpoint(options_.checkpoint,
                     {engine_->network(), {recipe_text_, to_json(trainer_->progress()), engine_->state()}});
  }

  void finish() {
    auto const network = engine_->network();
    require_unchanged_inputs();
    save_network(network, options_.output);
    fmt::print("time      {} for {} samples\nweights   {:016x}\n", readable_seconds(time_.seconds()), num_samples_done_,
               weights_hash(network));
    if (options_.report.empty()) return;
    OutputFile file(options_.report);
    file.write(json_text(report(network), 2) + "\n");
    file.commit();
  }

  nlohmann::ordered_json report(Network const& network) const {
    nlohmann::ordered_json epochs = nlohmann::ordered_json::array();
    for (auto const& epoch : epochs_) {
      nlohmann::ordered_json entry = {{"epoch", epoch.epoch},
                                      {"steps", epoch.num_steps},
                                      {"rate", epoch.rate},
                                      {"loss", epoch.training.mean()},
                                      {"accuracy", epoch.training.accuracy()}};
      if (epoch.validation) {
        entry["validation_loss"] = epoch.validation->mean();
        entry["validation_accuracy"] = epoch.validation->accuracy();
      }
      epochs.push_back(entry);
    }
    nlohmann::ordered_json changes = nlohmann::ordered_json::array();
    for (auto const& change : trainer_->changes()) {
      changes.push_back({{"step", change.step},
                         {"fraction", change.fraction},
                         {"dropped", change.count.dropped},
                         {"grown", change.count.dropped},
                         {"returned", change.count.returned}});
    }
    auto const& plan = engine_->plan();
    return {{"command", "train"},
            {"version", provenance.version},
            {"commit", provenance.git_commit},
            {"network", options_.network},
            {"input", options_.input},
            {"backend", options_.backend},
            {"device", device_name(engine_options_.backend)},
            {"recipe", parse_json(recipe_text_, "recipe")},
            {"plan",
             {{"leaf", plan.leaf},
              {"micro_batch", plan.micro_batch},
              {"keep_every", plan.keep_every},
              {"weight_bytes", plan.weight_bytes},
              {"activation_bytes", plan.activation_bytes}}},
            {"steps", trainer_->progress().num_steps},
            {"epochs", epochs},
            {"pattern_changes", changes},
            {"samples", num_samples_done_},
            {"seconds", time_.seconds()},
            {"weights_hash", fmt::format("{:016x}", weights_hash(network))}};
  }

  TrainOptions const& options_;
  Recipe recipe_;
  TrainingOptions engine_options_;
  std::string recipe_text_;
  std::unique_ptr<Training> engine_;
  std::optional<Trainer> trainer_;
  std::optional<History> history_;
  std::vector<EpochResult> epochs_; ///< epochs finished by this run, without those before a resumed checkpoint
  std::size_t num_samples_done_ = 0;
  Stopwatch time_;
};

int train(TrainOptions const& options) {
  if (Communicator().size() > 1) throw UsageError("varve train runs as one rank");
  check_files(file_roles(options));
  return TrainJob(options).run();
}

} // namespace

void add_train(CLI::App& command_line, Action& action) {
  auto* const command =
      command_line.add_subcommand("train", "Train a network with samples and their labels or targets");
  auto const options = std::make_shared<TrainOptions>();
  add_options(*command, *options);
  command->callback([options, &action] { action = [options] { return train(*options); }; });
}

} // namespace varve
