#pragma once

/// \file
/// Training.

#include <varve/network.hpp>
#include <varve/samples.hpp>
#include <varve/types.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace varve::v0_3 {

/// What decides the bits of a training, besides the network, the samples and their answers. Names and meanings are
/// those of `varve train`.
struct Recipe {
  Precision precision = Precision::single_precision; ///< of activations, gradients and weights
  std::string loss = "cross-entropy";                ///< --loss of varve train
  std::string optimizer = "sgd";                     ///< --optimizer of varve train
  double momentum = 0.9;                             ///< for "momentum" and "nesterov"
  double beta1 = 0.9;                                ///< for "adam" and "adamw": decay of the mean gradient
  double beta2 = 0.999;                              ///< for "adam" and "adamw": decay of the mean squared gradient
  double epsilon = 1e-8;                             ///< for "adam" and "adamw": added to the divisor
  double l2 = 0.0;                   ///< weight decay: l2 * weight is added to each gradient; "adamw" decouples it
  double rate = 0.1;                 ///< learning rate
  std::string schedule = "constant"; ///< of the rate: "constant", "step" or "cosine"
  double rate_factor = 0.1;          ///< for "step": the factor after every rate_every epochs
  std::size_t rate_every = 10;       ///< epochs, for "step"
  std::uint64_t warm_up = 0;         ///< steps with a reduced rate at the beginning
  std::size_t batch = 128;           ///< samples of a mini-batch
  std::size_t epochs = 10;           ///< passes over all samples
  std::uint64_t seed = 1;            ///< of the order of the samples
  std::string pattern = "keep";      ///< edges that move: "keep" (none), "set" or "rigl"
  double pattern_fraction = 0.3;     ///< part of the edges of each layer that a change drops
  std::uint64_t pattern_every = 100; ///< steps between changes
  double pattern_until = 0.75;       ///< where changes end: a part of all steps, or a number of steps if above 1
  std::string pattern_schedule = "cosine"; ///< of the fraction: "cosine" or "constant"
  double delta = 1.0;                      ///< for the loss "huber": the error from which on it is a line
};

/// What changes no bit of a training.
struct TrainingOptions {
  std::optional<Backend> backend;          ///< empty: the fastest of this build
  std::optional<std::size_t> memory_limit; ///< bytes on the device
};

/// The results of an epoch.
struct Epoch {
  std::uint64_t epoch = 0;                   ///< from 1
  std::uint64_t num_steps = 0;               ///< since the beginning
  double rate = 0.0;                         ///< of its last step
  double loss = 0.0;                         ///< mean over the samples, each before the step of its mini-batch
  double accuracy = 0.0;                     ///< part of the samples whose predicted class is right; 0 without labels
  std::optional<double> validation_loss;     ///< after the epoch, with a validation set
  std::optional<double> validation_accuracy; ///< after the epoch, with a validation set
};

/// Samples that are measured after each epoch and not trained with.
struct ValidationSet {
  Samples samples; ///< [samples, inputs]
  Answers answers; ///< one for each of them
};

/// Called by the thread that trains. What they throw ends the training and reaches the caller.
struct TrainingCallbacks {
  std::function<bool(Epoch const&)> after_epoch = {}; ///< returns false to end the training
  /// Called after each step with the number of steps done and of all steps.
  std::function<void(std::uint64_t num_steps, std::uint64_t all_steps)> after_step = {};
};

/// A trained network and its history.
struct TrainedNetwork {
  Network network;              ///< after the last step
  std::vector<Epoch> epochs;    ///< one for each epoch
  std::uint64_t best_epoch = 0; ///< the epoch after which validation had the best loss; 0 without validation
};

/// Trains a network with samples and their answers. The weights have the same bits on every backend and with any number
/// of threads. Throws UsageError about recipe and options, InputError if samples and answers do not fit the network or
/// a weight becomes infinite, ResourceError if memory does not suffice or Kokkos does not run.
TrainedNetwork train(Network const& network, Samples const& samples, Answers const& answers, Recipe const& recipe = {},
                     TrainingCallbacks const& callbacks = {}, std::optional<ValidationSet> const& validation = {},
                     TrainingOptions const& options = {});

} // namespace varve::v0_3
