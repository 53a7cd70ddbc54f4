#include "apps/command.hpp"
#include "apps/standard_streams.hpp"
#include "apps/train_inputs.hpp"
#include "apps/train_options.hpp"
#include "apps/train_report.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "core/printable.hpp"
#include "core/stopwatch.hpp"
#include "distribute/communicator.hpp"
#include "distribute/stop_signal.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "network/network.hpp"
#include "training/checkpoint.hpp"
#include "training/checkpoint_lock.hpp"
#include "training/history.hpp"
#include "training/training_receipt.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace varve {
namespace {

constexpr int stopped = 5; // exit code

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
    ranks_.together([&] { record_state(); }); // of the last step
    summary_.times = ranks_.gather(engine_->times());
    summary_.processor_waits = ranks_.gather(longest_wait_for_processor() - processor_wait_before_);
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
    ranks_.together([&] {
      auto const files = file_roles(options_);
      files.require_readable_by(static_cast<std::size_t>(ranks_.size()));
      if (!ranks_.is_root()) return;
      check_files(files);
      require_writable_outputs(options_);
      if (!options_.checkpoint.empty()) lock_.emplace(options_.checkpoint);
    });
    summary_.devices = place_ranks(ranks_, options_, engine_options_);
    ranks_.together([&] { read_files(); });
    if (ranks_.size() > 1)
      require_same_start(ranks_, options_, summary_.recipe, trainer_->progress().num_steps, engine_->network());
    ranks_.together([&] {
      if (ranks_.is_root()) take_up();
    });
    time_ = Stopwatch();
    processor_wait_before_ = longest_wait_for_processor();
  }

  /// What rank 0 says and opens before the first step of this run.
  void take_up() {
    auto const& progress = trainer_->progress();
    auto const num_epochs = progress.num_steps / trainer_->steps_per_epoch();
    if (progress.num_steps > 0)
      fmt::print("resumed   after step {} of {}\n", progress.num_steps, trainer_->num_steps());
    if (!options_.history.empty())
      history_.emplace(options_.history, trainer_->epochs(), num_epochs, pattern_changes());
    if (history_ && history_->num_missing() > 0) {
      say(fmt::format("varve: {} has {} of the {} epochs before the checkpoint, and continues with epoch {}",
                      printable(options_.history), num_epochs - history_->num_missing(), num_epochs, num_epochs + 1));
    }
    if (!options_.best.empty() && progress.best_epoch > 0) restore_best();
    auto const taken = static_cast<double>(num_epochs) * static_cast<double>(num_samples_) +
                       static_cast<double>(progress.epoch.num_samples);
    progress_line_.emplace(num_samples_, recipe_.epochs, taken);
  }

  /// Writes the network of the best epoch before the checkpoint, which those of Varve 0.2 may lack.
  void restore_best() const {
    auto const& progress = trainer_->progress();
    if (trainer_->best()) return save_network(*trainer_->best(), options_.best);
    if (std::filesystem::exists(options_.best)) return;
    say(fmt::format("varve: {} is missing, and is written when an epoch has a lower validation loss than epoch {}, "
                    "whose network {} does not hold",
                    printable(options_.best), progress.best_epoch, printable(options_.checkpoint)));
  }

  void read_files() {
    auto const source = open_network(options_.network);
    auto network = load(*source);
    auto const training =
        read_answered_samples({options_.input, options_.labels, options_.targets}, network, recipe_.loss);
    num_samples_ = training.samples.num_samples();
    num_steps_of(recipe_, num_samples_); // throws if there are too many, before memory is taken
    summary_.files = training.files;
    summary_.recipe =
        to_json(recipe_, training_data_of(network, training.samples, training.answers, recipe_.precision));
    if (!options_.receipt.empty() && ranks_.is_root()) {
      receipt_ = begin_receipt(network_digest(network), training.samples, training.answers,
                               to_json(recipe_, num_samples_), options_.receipt_every);
    }
    auto checkpoint = find_checkpoint(network);
    if (checkpoint && receipt_) varve::resume(*receipt_, checkpoint->record.receipt, options_.checkpoint);
    if (checkpoint) network = checkpoint->network;
    engine_options_.batch = std::min(engine_options_.batch, num_samples_);
    engine_ = prepare_training(network, engine_options_);
    auto const set = engine_->add_samples(training.samples, training.answers, options_.input);
    std::optional<std::size_t> validation_set;
    if (!options_.validation.empty()) {
      auto const validation = read_answered_samples(
          {options_.validation, options_.validation_labels, options_.validation_targets}, network, recipe_.loss);
      summary_.validation_files = validation.files;
      validation_set = engine_->add_samples(validation.samples, validation.answers, options_.validation);
    }
    trainer_.emplace(*engine_, recipe_, set, num_samples_, validation_set);
    bool const keeps_best = !options_.best.empty() || !options_.checkpoint.empty();
    if (validation_set && ranks_.is_root() && keeps_best) trainer_->keep_best();
    summary_.plan = engine_->plan();
    if (ranks_.is_root()) print_head(options_, recipe_, summary_, network, num_samples_);
    if (!checkpoint) return;
    resume(*trainer_, *engine_, std::move(*checkpoint), options_.checkpoint);
    saved_step_ = trainer_->progress().num_steps;
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
    require_same_data(found->record.recipe, summary_.recipe, options_.checkpoint);
    return found;
  }

  /// Returns false if a signal stopped the training.
  bool train_to_the_end() {
    while (!has_ended()) {
      if (has_to_stop()) {
        if (progress_line_) progress_line_->clear();
        save_checkpoint();
        if (!ranks_.is_root()) return false;
        say(fmt::format("varve: stopped after step {}; the same command continues from {}",
                        trainer_->progress().num_steps, options_.checkpoint));
        return false;
      }
      auto const epoch = advance();
      if (receipt_) receipt_->add_step(trainer_->last_rows());
      if (trainer_->progress().num_steps % options_.receipt_every == 0) record_state();
      summary_.num_samples += epoch ? epoch->training.num_samples : 0;
      if (epoch && ranks_.is_root()) end_epoch(*epoch);
      bool const is_due = options_.checkpoint_every && trainer_->progress().num_steps % *options_.checkpoint_every == 0;
      if (epoch || is_due) save_checkpoint();
    }
    return true;
  }

  /// Runs `work`. If training diverges, the sentence also says what the checkpoint is good for.
  template <class Work>
  auto unless_it_diverges(Work const& work) const {
    try {
      return work();
    } catch (DivergenceError const& error) {
      if (!saved_step_) throw;
      throw InputError(fmt::format("{}; {} holds the network after step {}, from which a training with other options "
                                   "can start (as its --network, with another --checkpoint)",
                                   error.what(), options_.checkpoint, *saved_step_));
    }
  }

  /// One step of the trainer.
  std::optional<EpochResult> advance() {
    auto const epoch = unless_it_diverges([&] { return trainer_->advance(); });
    if (!progress_line_) return epoch;
    if (epoch) {
      progress_line_->clear();
    } else {
      auto const& progress = trainer_->progress();
      progress_line_->show(progress.num_steps / trainer_->steps_per_epoch(), progress.epoch.num_samples);
    }
    return epoch;
  }

  bool has_ended() const {
    auto const& progress = trainer_->progress();
    if (trainer_->is_finished()) return true;
    if (!options_.patience || progress.num_steps % trainer_->steps_per_epoch() != 0) return false;
    return progress.num_steps / trainer_->steps_per_epoch() >= capped_add(progress.best_epoch, *options_.patience) &&
           progress.num_steps > 0;
  }

  /// True if a stop signal has come to any rank.
  bool has_to_stop() const {
    if (options_.checkpoint.empty() || ranks_.size() == 1) return StopSignal::has_come();
    return ranks_.max(StopSignal::has_come() ? 1.0 : 0.0) > 0.0;
  }

  void end_epoch(EpochResult const& result) {
    auto text = fmt::format("epoch {:<4}loss {:.6f}", result.epoch, result.training.mean());
    if (summary_.has_labels()) text += fmt::format("  accuracy {:.4f}", result.training.accuracy());
    if (result.validation) {
      text += fmt::format("  validation loss {:.6f}", result.validation->mean());
      if (summary_.has_validation_labels()) text += fmt::format("  accuracy {:.4f}", result.validation->accuracy());
    }
    if (pattern_changes()) text += fmt::format("  edges moved {}", result.pattern.dropped - result.pattern.returned);
    double const rate = static_cast<double>(summary_.num_samples) / time_.seconds();
    auto const left = static_cast<double>(recipe_.epochs - result.epoch) * static_cast<double>(num_samples_);
    fmt::print("{}  {:.0f} samples/s, {} left\n", text, rate, readable_seconds(left / rate));
    flush_output();
    if (history_) history_->add(result);
    summary_.epochs.push_back(result);
    if (!options_.best.empty() && trainer_->progress().best_epoch == result.epoch)
      save_network(*trainer_->best(), options_.best);
  }

  /// Adds the state after the last step to the receipt, and keeps a checkpoint of it if it shall. Rank 0 does so; the
  /// others give it the moments that they hold.
  void record_state() {
    if (options_.receipt.empty()) return;
    auto state = engine_->state();
    if (!ranks_.is_root()) return;
    auto network = engine_->network();
    receipt_->add_state(trainer_->progress().num_steps, network, state);
    if (options_.receipt_checkpoints.empty()) return;
    write_checkpoint(checkpoint_of_step(options_.receipt_checkpoints, trainer_->progress().num_steps),
                     checkpoint_of(*trainer_, summary_.recipe, std::move(network), std::move(state)));
  }

  /// Rank 0 writes; the others give it the moments that they hold.
  void save_checkpoint() {
    if (options_.checkpoint.empty()) return;
    unless_it_diverges([&] { engine_->require_finite_moments(); });
    auto state = engine_->state();
    if (!ranks_.is_root()) return;
    auto checkpoint = checkpoint_of(*trainer_, summary_.recipe, engine_->network(), std::move(state));
    if (receipt_) checkpoint.record.receipt = to_json(*receipt_);
    write_checkpoint(options_.checkpoint, checkpoint);
    saved_step_ = trainer_->progress().num_steps;
  }

  void finish() {
    auto const network = engine_->network();
    require_unchanged_inputs();
    save_network(network, options_.output);
    summary_.num_steps = trainer_->progress().num_steps;
    summary_.best_epoch = trainer_->progress().best_epoch;
    summary_.stopped_by = trainer_->is_finished() ? "epochs" : "patience";
    summary_.changes = trainer_->changes();
    summary_.seconds = time_.seconds();
    summary_.weights_hash = weights_hash(network);
    print_ranks(summary_);
    fmt::print("time      {} for {} samples\nweights   {:016x}\n", readable_seconds(summary_.seconds),
               summary_.num_samples, summary_.weights_hash);
    if (!options_.report.empty()) write_report(options_.report, train_report(options_, summary_));
    if (!receipt_) return;
    receipt_->made_by = report_head("varve train");
    receipt_->made_by["backend"] = options_.backend;
    receipt_->made_by["ranks"] = ranks_.size();
    OutputFile output(options_.receipt);
    output.write(to_json(*receipt_));
    output.commit();
  }

  TrainOptions const& options_;
  Communicator const ranks_;
  Recipe recipe_;
  TrainingOptions engine_options_;
  std::unique_ptr<Training> engine_;
  std::optional<Trainer> trainer_;
  std::size_t num_samples_ = 0;                ///< of an epoch
  std::optional<std::uint64_t> saved_step_;    ///< steps before the last checkpoint, as far as this rank knows
  std::optional<CheckpointLock> lock_;         ///< on rank 0
  std::optional<History> history_;             ///< on rank 0
  std::optional<TrainProgress> progress_line_; ///< on rank 0
  std::optional<TrainingReceipt> receipt_;     ///< on rank 0, if one is written
  TrainSummary summary_;
  Stopwatch time_;
  double processor_wait_before_ = 0.0; ///< seconds, of this rank before its first step
};

int train(TrainOptions const& options) { return TrainJob(options).run(); }

} // namespace

void add_train(CLI::App& command_line, Action& action) {
  auto* const command =
      command_line.add_subcommand("train", "Train a network with samples and their labels or targets");
  auto const options = std::make_shared<TrainOptions>();
  add_options(*command, *options);
  command->callback([options, &action] { action = {[options] { return train(*options); }, true, true}; });
}

} // namespace varve
