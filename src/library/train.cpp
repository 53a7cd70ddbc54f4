#include <varve/train.hpp>

#include "engine/training.hpp"
#include "library/crossing.hpp"
#include "library/engine_options.hpp"
#include "training/trainer.hpp"

#include <algorithm>
#include <memory>

namespace varve::v0_3 {
namespace {

varve::TrainingOptions options_of(varve::Recipe const& recipe, std::size_t num_samples,
                                  TrainingOptions const& options) {
  auto own = varve::training_options(recipe);
  own.backend = options.backend.value_or(compiled_backends().front());
  own.batch = std::clamp<std::size_t>(num_samples, 1, recipe.batch);
  own.memory_limit = options.memory_limit;
  return own;
}

std::size_t add(varve::Training& training, Samples const& samples, Answers const& answers, std::string const& place) {
  return training.add_samples(samples.contents().set(), to_private(answers, place + ": targets"), place);
}

/// A training with its sets of samples on the device.
struct ReadyTraining {
  ReadyTraining(Network const& network, Samples const& samples, Answers const& answers,
                varve::TrainingOptions const& options, std::optional<ValidationSet> const& validation) {
    Turn const turn;
    training.reset(varve::prepare_training(varve::load(*network.contents().source), options).release());
    set = add(*training, samples, answers, "the samples");
    if (validation) validation_set = add(*training, validation->samples, validation->answers, "the validation set");
  }

  std::unique_ptr<varve::Training, FreeInTurn> training;
  std::size_t set = 0;
  std::optional<std::size_t> validation_set;
};

Epoch to_public(varve::EpochResult const& result) {
  Epoch epoch{result.epoch, result.num_steps, result.rate, result.training.mean(), result.training.accuracy(), {}, {}};
  if (result.validation) {
    epoch.validation_loss = result.validation->mean();
    epoch.validation_accuracy = result.validation->accuracy();
  }
  return epoch;
}

/// A step of the recipe, in a turn of its own: other threads need not wait until the training ends.
std::optional<varve::EpochResult> advance(varve::Trainer& trainer) {
  Turn const turn;
  return trainer.advance();
}

/// Runs the recipe to its end, or until after_epoch() says no.
std::vector<Epoch> run(varve::Trainer& trainer, TrainingCallbacks const& callbacks) {
  std::vector<Epoch> epochs;
  while (!trainer.is_finished()) {
    auto const ended = advance(trainer);
    if (callbacks.after_step) callbacks.after_step(trainer.progress().num_steps, trainer.num_steps());
    if (!ended) continue;
    epochs.push_back(to_public(*ended));
    if (callbacks.after_epoch && !callbacks.after_epoch(epochs.back())) break;
  }
  return epochs;
}

} // namespace

TrainedNetwork train(Network const& network, Samples const& samples, Answers const& answers, Recipe const& recipe,
                     TrainingCallbacks const& callbacks, std::optional<ValidationSet> const& validation,
                     TrainingOptions const& options) {
  auto const own_recipe = to_private(recipe);
  require_kokkos();
  varve::num_steps_of(own_recipe, samples.num_samples()); // throws if there are too many, before memory is taken
  ReadyTraining const ready(network, samples, answers, options_of(own_recipe, samples.num_samples(), options),
                            validation);
  varve::Trainer trainer(*ready.training, own_recipe, ready.set, samples.num_samples(), ready.validation_set);
  auto epochs = run(trainer, callbacks);
  Turn const turn;
  return TrainedNetwork{hold(std::make_shared<varve::Network const>(ready.training->network())), std::move(epochs),
                        trainer.progress().best_epoch};
}

} // namespace varve::v0_3
