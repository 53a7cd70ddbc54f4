#pragma once

#include "engine/training.hpp"
#include "training/recipe.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// How far a training has come.
struct TrainingProgress {
  std::uint64_t num_steps = 0;
  LossSum epoch; ///< of the mini-batches of the epoch so far, each before its step
  double best_validation_loss = std::numeric_limits<double>::infinity();
  std::uint64_t best_epoch = 0; ///< the epoch, from 1, after which validation had that loss
};

std::string to_json(TrainingProgress const& progress);

/// The other way. Throws InputError "PLACE: ..." if the text is no progress.
TrainingProgress progress_from(std::string const& json, std::string const& place);

/// What came of an epoch.
struct EpochResult {
  std::uint64_t epoch = 0; ///< from 1
  std::uint64_t num_steps = 0;
  double rate = 0.0; ///< of its last step
  LossSum training;  ///< mini-batches, each before its step
  std::optional<LossSum> validation;
};

/// Takes an engine through the epochs of a recipe, step by step.
class Trainer {
public:
  /// The samples to train with and, if there are some, to validate with after each epoch are sets of the engine. The
  /// engine must outlive this object. Throws InputError if there are no samples to train with.
  Trainer(Training& engine, Recipe const& recipe, std::size_t set, std::size_t num_samples,
          std::optional<std::size_t> validation);

  /// Goes on from here instead of from the start. Throws InputError if it is not a place in this recipe.
  void resume(TrainingProgress const& progress);

  bool is_finished() const { return progress_.num_steps == num_steps(); }

  /// One step. Gives what came of the epoch if it was its last.
  std::optional<EpochResult> advance();

  TrainingProgress const& progress() const { return progress_; }
  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  std::uint64_t num_steps() const { return steps_per_epoch_ * recipe_.epochs; }

private:
  EpochResult end_epoch(double rate);

  Training* engine_;
  Recipe recipe_;
  std::size_t set_, num_samples_;
  std::optional<std::size_t> validation_;
  std::uint64_t steps_per_epoch_;
  TrainingProgress progress_;
  std::optional<std::uint64_t> ordered_epoch_; ///< whose order is in order_
  std::vector<std::uint64_t> order_;
};

} // namespace varve
