#pragma once

#include "engine/training.hpp"
#include "training/recipe.hpp"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace varve {

/// The progress of a training, as checkpoints hold it.
struct TrainingProgress {
  std::uint64_t num_steps = 0;
  LossSum epoch;        ///< losses of the mini-batches of the present epoch, each before its step
  PatternCount pattern; ///< edges that changes of the pattern moved in the present epoch
  double best_validation_loss = std::numeric_limits<double>::infinity();
  std::uint64_t best_epoch = 0; ///< the epoch (from 1) after which validation had the best loss; 0: none yet
};

/// The progress as JSON, for checkpoints.
std::string to_json(TrainingProgress const& progress);

/// Parses what to_json() made. Throws InputError "PLACE: ..." if the text is not a progress.
TrainingProgress progress_from(std::string const& json, std::string const& place);

/// The results of an epoch.
struct EpochResult {
  std::uint64_t epoch = 0; ///< from 1
  std::uint64_t num_steps = 0;
  double rate = 0.0;                 ///< rate of its last step
  LossSum training;                  ///< losses of its mini-batches, each before its step
  std::optional<LossSum> validation; ///< losses of the validation set after the epoch, if there is one
  PatternCount pattern;              ///< edges that changes of the pattern moved in the epoch
};

/// The epochs as numbers, for checkpoints.
std::vector<double> to_numbers(std::vector<EpochResult> const& epochs);

/// The epochs of which to_numbers() made these numbers. Throws InputError "PLACE: ..." if they are none.
std::vector<EpochResult> epochs_from(std::vector<double> const& numbers, std::string const& place);

/// A change of the pattern that a trainer has carried out.
struct PatternRecord {
  std::uint64_t step = 0; ///< number of steps before it
  double fraction = 0.0;  ///< part of the edges of each layer that was dropped
  PatternCount count;
};

/// Runs the epochs of a recipe on an engine, step by step.
class Trainer {
public:
  /// set: the engine's set to train with, of num_samples samples; validation: the set to evaluate after each epoch, if
  /// any. The engine must outlive this object. Throws InputError if num_samples is 0, UsageError if there are more
  /// steps than 64 bits count.
  Trainer(Training& engine, Recipe const& recipe, std::size_t set, std::size_t num_samples,
          std::optional<std::size_t> validation);

  /// From now on keeps the network of the best epoch in host memory: a copy after each epoch that is better.
  void keep_best() { keeps_best_ = true; }

  /// Continues from this progress instead of the beginning, after these epochs; `best` is the network of the best one,
  /// null if there is none, it is unknown, or the engine holds it. Throws InputError if the progress is beyond the end
  /// of the recipe.
  void resume(TrainingProgress const& progress, std::vector<EpochResult> epochs = {},
              std::shared_ptr<Network const> best = {});

  bool is_finished() const { return progress_.num_steps == num_steps(); }

  /// Takes one step, after a change of the pattern if it is time for one; returns the results of the epoch if it was
  /// the last of the epoch. Throws DivergenceError as Training::step() and Training::require_finite_moments() do.
  std::optional<EpochResult> advance();

  TrainingProgress const& progress() const { return progress_; }
  /// The rows of the mini-batch of the last step; none before the first step of this object.
  std::span<std::uint64_t const> last_rows() const { return last_rows_; }
  /// The results of all epochs, those before resume() included as far as they were given to it.
  std::vector<EpochResult> const& epochs() const { return epochs_; }
  /// The network of the best epoch; null without keep_best(), before the first epoch with validation, or if resume()
  /// got none and no epoch was better since.
  std::shared_ptr<Network const> const& best() const { return best_; }
  /// True if the network of the best epoch is the present one.
  bool is_best() const {
    return progress_.best_epoch > 0 && progress_.num_steps == progress_.best_epoch * steps_per_epoch_;
  }
  /// The changes of the pattern that this object has carried out, in order.
  std::vector<PatternRecord> const& changes() const { return changes_; }
  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  std::uint64_t num_steps() const { return steps_per_epoch_ * recipe_.epochs; }

private:
  void evolve(std::span<std::uint64_t const> rows);
  EpochResult end_epoch(double rate);

  Training* engine_;
  Recipe recipe_;
  std::size_t set_, num_samples_;
  std::optional<std::size_t> validation_;
  std::uint64_t steps_per_epoch_;
  TrainingProgress progress_;
  std::vector<EpochResult> epochs_;
  std::shared_ptr<Network const> best_;
  bool keeps_best_ = false;
  std::vector<PatternRecord> changes_;
  std::optional<std::uint64_t> ordered_epoch_; ///< the epoch whose order order_ holds
  std::vector<std::uint64_t> order_;
  std::span<std::uint64_t const> last_rows_; ///< of order_
};

/// The course of a training as a table of tab-separated values, one line per epoch. It contains no times, so an
/// interrupted and resumed training leaves the same bytes as an uninterrupted one.
class History {
public:
  /// A history that begins with these epochs, and writes it if there are any. A checkpoint of Varve 0.2 knows fewer
  /// than its num_epochs: then keeps the lines of an existing file up to that one, and num_missing() says how many it
  /// lacks. has_changes: the pattern changes, and lines tell how many edges were dropped and how many of them returned.
  /// Throws what OutputFile throws, InputError if the existing file is not such a history.
  History(std::filesystem::path path, std::vector<EpochResult> const& epochs, std::uint64_t num_epochs,
          bool has_changes = false);

  /// The number of epochs before the first one added whose lines the file lacks.
  std::uint64_t num_missing() const { return num_missing_; }

  /// Adds an epoch and writes the file, which appears whole. Throws what OutputFile throws.
  void add(EpochResult const& result);

private:
  void read(std::uint64_t num_epochs);
  void write() const;
  std::string head() const;
  std::string line_of(EpochResult const& result) const;

  std::filesystem::path path_;
  bool has_changes_;
  std::uint64_t num_missing_ = 0;
  std::vector<std::string> lines_; ///< the lines of epochs, without the header
};

} // namespace varve
