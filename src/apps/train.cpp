#include "apps/command.hpp"
#include "apps/network_options.hpp"
#include "apps/standard_streams.hpp"
#include "apps/train_options.hpp"
#include "apps/train_ranks.hpp"
#include "apps/train_report.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/stopwatch.hpp"
#include "distribute/communicator.hpp"
#include "distribute/stop_signal.hpp"
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

#include <CLI/CLI.hpp>
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
  bool const has_targets = loss == Loss::mean_square && files.labels.empty() && is_sample_file(files.samples) &&
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

/// One run of `varve train` on one rank. Rank 0 speaks and writes for all.
class TrainJob {
public:
  explicit TrainJob(TrainOptions const& options) : options_(options) {}

  int run() {
    prepare();
    std::optional<StopSignal> stop_signal;
    if (!options_.checkpoint.empty()) stop_signal.emplace();
    bool is_stopped = false;
    ranks_.together([&] { is_stopped = !train_to_the_end(); });
    if (is_stopped) return stopped;
    summary_.times = gather(ranks_, engine_->times());
    summary_.exchange_way = engine_->exchange_way();
    ranks_.together([&] {
      if (ranks_.is_root()) finish();
    });
    return 0;
  }

private:
  void prepare() {
    ranks_.together([&] {
      recipe_ = recipe_of(options_);
      engine_options_ = engine_options(options_, recipe_);
    });
    require_common_options(ranks_, options_, recipe_);
    ranks_.together([&] {
      auto const files = file_roles(options_);
      files.require_readable_by(static_cast<std::size_t>(ranks_.size()));
      if (ranks_.is_root()) check_files(files);
    });
    summary_.devices = place_ranks(ranks_, options_, engine_options_);
    ranks_.together([&] { read_files(); });
    if (ranks_.size() > 1)
      require_same_start(ranks_, summary_.recipe, trainer_->progress().num_steps, weights_hash(engine_->network()));
    ranks_.together([&] {
      if (!ranks_.is_root()) return;
      if (trainer_->progress().num_steps > 0)
        fmt::print("resumed   after step {} of {}\n", trainer_->progress().num_steps, trainer_->num_steps());
      if (!options_.history.empty())
        history_.emplace(options_.history, trainer_->progress().num_steps / trainer_->steps_per_epoch(),
                         pattern_changes());
    });
    time_ = Stopwatch();
  }

  void read_files() {
    auto const source = open_network(options_.network, options_.challenge);
    if (ranks_.is_root()) note_orientation(*source);
    auto network = load(*source);
    auto const training = read_samples({options_.input, options_.labels, options_.targets}, network, recipe_.loss);
    if (training.samples.num_samples() == 0) throw InputError(options_.input + " holds no samples to train with");
    summary_.recipe = to_json(recipe_, training.samples.num_samples());
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
    summary_.plan = engine_->plan();
    if (ranks_.is_root()) print_head(options_, recipe_, summary_, network, training.samples.num_samples());
    if (!checkpoint) return;
    engine_->restore(checkpoint->record.optimizer);
    trainer_->resume(progress_from(checkpoint->record.progress, options_.checkpoint + ": progress"));
  }

  bool pattern_changes() const { return recipe_.pattern.kind != PatternKind::keep; }

  std::optional<Checkpoint> find_checkpoint(Network const& network) const {
    if (options_.checkpoint.empty()) return std::nullopt;
    auto found = read_checkpoint(options_.checkpoint, [&](std::string const& why) {
      if (ranks_.is_root()) say("varve: " + printable(why));
    });
    if (!found) return std::nullopt;
    require_same(found->record.recipe, summary_.recipe, options_.checkpoint);
    require_same_shape(*found, network, options_.checkpoint, pattern_changes());
    return found;
  }

  /// Returns false if a signal stopped the training.
  bool train_to_the_end() {
    while (!has_ended()) {
      if (has_to_stop()) {
        save_checkpoint();
        if (!ranks_.is_root()) return false;
        say(fmt::format("varve: stopped after step {}; the same command goes on from {}",
                        trainer_->progress().num_steps, options_.checkpoint));
        return false;
      }
      auto const epoch = trainer_->advance();
      summary_.num_samples += epoch ? epoch->training.num_samples : 0;
      if (epoch && ranks_.is_root()) end_epoch(*epoch);
      bool const is_due = options_.checkpoint_every && trainer_->progress().num_steps % *options_.checkpoint_every == 0;
      if (epoch || is_due) save_checkpoint();
    }
    return true;
  }

  bool has_ended() const {
    auto const& progress = trainer_->progress();
    if (trainer_->is_finished()) return true;
    if (!options_.patience || progress.num_steps % trainer_->steps_per_epoch() != 0) return false;
    return progress.num_steps / trainer_->steps_per_epoch() >= progress.best_epoch + *options_.patience &&
           progress.num_steps > 0;
  }

  /// True if a stop signal has come to any rank.
  bool has_to_stop() const {
    if (options_.checkpoint.empty() || ranks_.size() == 1) return StopSignal::has_come();
    return ranks_.max(StopSignal::has_come() ? 1.0 : 0.0) > 0.0;
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
    double const rate = static_cast<double>(summary_.num_samples) / time_.seconds();
    auto const left = trainer_->num_steps() - result.num_steps;
    fmt::print("{}  {:.0f} samples/s, {} left\n", text, rate,
               readable_seconds(static_cast<double>(left * recipe_.batch) / rate));
    flush_output();
    if (history_) history_->add(result);
    summary_.epochs.push_back(result);
    if (!options_.best.empty() && trainer_->progress().best_epoch == result.epoch)
      save_network(engine_->network(), options_.best);
  }

  /// Rank 0 writes; the others give it the moments that they hold.
  void save_checkpoint() const {
    if (options_.checkpoint.empty()) return;
    auto state = engine_->state();
    if (!ranks_.is_root()) return;
    write_checkpoint(options_.checkpoint,
                     {engine_->network(), {summary_.recipe, to_json(trainer_->progress()), std::move(state)}});
  }

  void finish() {
    auto const network = engine_->network();
    require_unchanged_inputs();
    save_network(network, options_.output);
    summary_.num_steps = trainer_->progress().num_steps;
    summary_.changes = trainer_->changes();
    summary_.seconds = time_.seconds();
    summary_.weights_hash = weights_hash(network);
    print_ranks(summary_);
    fmt::print("time      {} for {} samples\nweights   {:016x}\n", readable_seconds(summary_.seconds),
               summary_.num_samples, summary_.weights_hash);
    if (options_.report.empty()) return;
    OutputFile file(options_.report);
    file.write(json_text(train_report(options_, summary_), 2) + "\n");
    file.commit();
  }

  TrainOptions const& options_;
  Communicator const ranks_;
  Recipe recipe_;
  TrainingOptions engine_options_;
  std::unique_ptr<Training> engine_;
  std::optional<Trainer> trainer_;
  std::optional<History> history_; ///< on rank 0
  TrainSummary summary_;
  Stopwatch time_;
};

int train(TrainOptions const& options) { return TrainJob(options).run(); }

} // namespace

void add_train(CLI::App& command_line, Action& action) {
  auto* const command =
      command_line.add_subcommand("train", "Train a network with samples and their labels or targets");
  auto const options = std::make_shared<TrainOptions>();
  add_options(*command, *options);
  command->callback([options, &action] { action.run = [options] { return train(*options); }; });
}

} // namespace varve
