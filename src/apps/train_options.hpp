#pragma once

#include "apps/options.hpp"
#include "engine/training.hpp"
#include "io/file_roles.hpp"
#include "training/recipe.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace varve {

/// The options of `varve train` as given by the user.
struct TrainOptions {
  std::string network, input, labels, targets;
  std::string validation, validation_labels, validation_targets;
  std::string output, best, checkpoint, history, report, receipt, receipt_checkpoints;

  v0_3::Recipe recipe = {.optimizer = "momentum", .schedule = "cosine"}; ///< completed by recipe_of()
  std::string precision = "float";
  std::optional<double> rate; ///< default: that of the optimizer
  std::optional<std::size_t> patience;
  std::optional<std::uint64_t> checkpoint_every;
  std::uint64_t receipt_every = 128; ///< steps

  std::string backend = to_string(compiled_backends().front());
  std::string recompute = "auto";
  std::string formats = "auto";
  std::optional<std::size_t> micro_batch;
  std::optional<std::size_t> memory_limit, device_memory_limit; ///< in bytes
  std::string share_devices = "off", peer_memory = "on";
  CommandFiles files; ///< that the options above name
};

/// Adds the options to the subcommand.
void add_options(CLI::App& command, TrainOptions& options);

/// The options that decide the bits of a training. Throws UsageError if a name is unknown or a number out of its range.
Recipe recipe_of(TrainOptions const& options);

/// Converts the options to those of the engine. Throws UsageError as recipe_of() does.
TrainingOptions engine_options(TrainOptions const& options, Recipe const& recipe);

/// Throws UsageError unless --output and --best name .safetensors files, UsageError or ResourceError if an output
/// cannot be written. Leaves nothing behind.
void require_writable_outputs(TrainOptions const& options);

/// All files that the command reads and writes, with the options that name them.
FileRoles file_roles(TrainOptions const& options);

/// Samples with their answers, and the files that hold them: either `labels` or `targets` has a name.
struct AnsweredSamples {
  SampleSet samples;
  Answers answers;
  AnswerFiles files;
};

/// Reads samples and their answers: targets, if a file of them is named or if the loss takes them and the file of
/// the samples has some; else labels. Throws InputError if a file is broken, lacks answers, or holds no samples;
/// UsageError if labels and targets are named.
AnsweredSamples read_answered_samples(AnswerFiles const& files, Network const& network, Loss const& loss);

} // namespace varve
