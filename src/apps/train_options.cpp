#include "apps/train_options.hpp"

#include "apps/command.hpp"
#include "apps/computing_options.hpp"
#include "apps/network_options.hpp"
#include "apps/tuning.hpp"
#include "apps/usage.hpp"
#include "core/error.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "training/checkpoint.hpp"
#include "training/checkpoint_lock.hpp"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

namespace varve {
namespace {

void add_files(CLI::App& command, TrainOptions& options) {
  command.add_option("--network", options.network, std::string("the network to start from: ") + network_help)
      ->required();
  command.add_option("--input", options.input, input_help)->required();
  command.add_option(
      "--labels", options.labels,
      "classes of the samples, from 0: .safetensors, IDX, or text with one per line (default: those in --input)");
  command.add_option("--targets", options.targets,
                     "wanted outputs of the samples, for --loss mean-square: targets or samples of a sample file");
  command.add_option("--validation", options.validation, "samples to measure loss and accuracy with after each epoch");
  command.add_option("--validation-labels", options.validation_labels,
                     "classes of the validation samples (default: those in --validation)");
  command.add_option("--validation-targets", options.validation_targets, "wanted outputs of the validation samples");
  command.add_option("--output", options.output, "write the trained network (.safetensors)")->required();
  command.add_option(
      "--best", options.best,
      "write the network of the epoch with the least validation loss so far (.safetensors), of equal ones the first");
  command.add_option(
      "--checkpoint", options.checkpoint,
      "keep the state of the training in FILE (.safetensors) and the state before in FILE.previous: the same command "
      "continues a training that was killed, or stopped by SIGTERM or SIGUSR1 (exit code 5)");
  command
      .add_option("--checkpoint-every", options.checkpoint_every,
                  "steps between checkpoints, besides those after each epoch")
      ->check(above_zero());
  command.add_option("--history", options.history, "write loss and accuracy of each epoch as a table (.tsv)");
  command.add_option("--report", options.report, "write everything measured and decided as JSON");
}

void add_recipe(CLI::App& command, TrainOptions& options) {
  auto& recipe = options.recipe;
  command.add_option("--loss", options.loss, "cross-entropy (softmax of the outputs and a class) or mean-square")
      ->capture_default_str();
  command.add_option("--optimizer", options.optimizer, fmt::format("{}", fmt::join(optimizer_names(), ", ")))
      ->capture_default_str();
  command.add_option("--rate", options.rate, "learning rate (default: 0.05; of the Adam family 0.001)");
  command.add_option("--rate-schedule", options.rate_schedule, "constant, step or cosine")->capture_default_str();
  command
      .add_option("--rate-every", recipe.rate.every, "with --rate-schedule step: epochs between changes of the rate")
      ->capture_default_str();
  command.add_option("--rate-factor", recipe.rate.factor, "with --rate-schedule step: factor of each change")
      ->capture_default_str();
  command
      .add_option("--warm-up", recipe.rate.warm_up, "number of steps at the beginning in which the rate rises linearly")
      ->capture_default_str();
  command.add_option("--momentum", recipe.optimizer.momentum, "parameter of momentum and nesterov")
      ->capture_default_str();
  command.add_option("--beta1", recipe.optimizer.beta1, "parameter of Adam")->capture_default_str();
  command.add_option("--beta2", recipe.optimizer.beta2, "parameter of Adam")->capture_default_str();
  command.add_option("--epsilon", recipe.optimizer.epsilon, "parameter of Adam")->capture_default_str();
  command
      .add_option(
          "--l2", recipe.optimizer.l2,
          "decay of weights (not of biases): l2 * weight is added to the gradient; adamw subtracts rate * l2 * weight")
      ->capture_default_str();
  command.add_option("--batch", recipe.batch, "samples of a mini-batch")->check(above_zero())->capture_default_str();
  command.add_option("--epochs", recipe.epochs, "number of passes over all samples")
      ->check(above_zero())
      ->capture_default_str();
  command.add_option("--seed", recipe.seed, "seed of the order of the samples, and of the places of --pattern set")
      ->capture_default_str();
  command
      .add_option("--patience", options.patience,
                  "stop after this many epochs without a lower validation loss (default: never)")
      ->check(above_zero());
}

void add_pattern(CLI::App& command, TrainOptions& options) {
  auto& pattern = options.recipe.pattern;
  command
      .add_option("--pattern", options.pattern,
                  "keep the edges where they are, or move edges of small weights: set (to random free places) or rigl "
                  "(to the free places with the largest gradients)")
      ->capture_default_str();
  command
      .add_option("--pattern-fraction", pattern.fraction,
                  "with --pattern set or rigl: part of the edges of each layer that a change moves")
      ->capture_default_str();
  command.add_option("--pattern-every", pattern.every, "with --pattern set or rigl: steps between changes")
      ->capture_default_str();
  command
      .add_option("--pattern-until", pattern.until,
                  "with --pattern set or rigl: where changes end, as a part of all steps (at most 1) or as a number of "
                  "steps")
      ->capture_default_str();
  command
      .add_option("--pattern-schedule", options.pattern_schedule,
                  "with --pattern set or rigl: the fraction is constant, or falls to 0 as a cosine")
      ->capture_default_str();
}

void add_engine(CLI::App& command, TrainOptions& options) {
  options.backend = to_string(compiled_backends().front());
  command.add_option("--backend", options.backend, compiled_backend_names())->capture_default_str();
  command.add_option("--precision", options.precision, "precision of activations and weights")
      ->check(CLI::IsMember({"float", "double"}))
      ->capture_default_str();
  command
      .add_option(
          "--recompute", options.recompute,
          "layers whose activations are computed twice instead of kept: auto (as few as memory allows), none, or "
          "K: all but those of every K-th layer")
      ->capture_default_str();
  command
      .add_option("--formats", options.formats,
                  "how layers are stored: auto (dense where that takes less time), dense or csr (edges)")
      ->check(CLI::IsMember({"auto", "dense", "csr"}))
      ->capture_default_str();
  command
      .add_option("--micro-batch", options.micro_batch,
                  "samples at a time: 64 (double: 32) times a power of two (default: as many as fit)")
      ->check(above_zero());
  command
      .add_option("--device-memory-limit", options.device_memory_limit,
                  "device memory (GiB) for weights and activations (default: nine tenths of what is free); if weights "
                  "do not fit, they stay on the host and are streamed")
      ->check(above_zero());
  command
      .add_option("--memory-limit", options.memory_limit,
                  "host memory (GiB) for weights that are streamed (default: half of what is free). On CPU backends: "
                  "the limit for everything (default: nine tenths of what is free)")
      ->check(above_zero());
  command.add_flag("--share-devices", options.share_devices, "several ranks may use one device");
  add_tuning(command, {{"peer-memory",
                        {"on", "off"},
                        "ranks of a machine read gradients from each other's memory, or send them as MPI messages",
                        [&options](std::string const& value) { options.reads_peers = value == "on"; }}});
  command.footer(
      "Under mpirun, srun or flux the ranks share each mini-batch; start one rank per device.\n"
      "Of the options --backend, --precision, --recompute, --formats, --micro-batch, --device-memory-limit and "
      "--memory-limit, only --precision changes the bits of the trained network. The number of ranks "
      "changes none.");
}

std::optional<std::size_t> in_bytes(std::optional<double> gibibytes) {
  if (!gibibytes) return std::nullopt;
  return static_cast<std::size_t>(std::min(*gibibytes * 0x1p30, 0x1p62));
}

std::optional<std::size_t> keep_every(std::string const& recompute) {
  if (recompute == "auto") return std::nullopt;
  if (recompute == "none") return 1;
  std::size_t interval = 0;
  char const* const end = recompute.data() + recompute.size();
  auto const parsed = std::from_chars(recompute.data(), end, interval);
  if (parsed.ec != std::errc() || parsed.ptr != end || interval == 0)
    throw UsageError(fmt::format("--recompute is '{}', expected auto, none or a number from 1 on", recompute));
  return interval;
}

} // namespace

void add_options(CLI::App& command, TrainOptions& options) {
  add_files(command, options);
  add_network_options(command, options.challenge);
  add_recipe(command, options);
  add_pattern(command, options);
  add_engine(command, options);
  group_options(command, "Rates and optimizers",
                {"--rate-schedule", "--rate-every", "--rate-factor", "--warm-up", "--momentum", "--beta1", "--beta2",
                 "--epsilon", "--l2", "--seed", "--patience"});
  group_options(command, "Edges that move",
                {"--pattern-fraction", "--pattern-every", "--pattern-until", "--pattern-schedule"});
  group_options(command, "More files",
                {"--validation-labels", "--validation-targets", "--checkpoint-every", "--history", "--report"});
  group_options(
      command, "Memory and precision",
      {"--precision", "--recompute", "--formats", "--micro-batch", "--device-memory-limit", "--memory-limit"});
  group_options(command, "Several ranks", {"--share-devices"});
}

Recipe recipe_of(TrainOptions const& options) {
  Recipe recipe = options.recipe;
  recipe.precision = precision_of(options.precision);
  recipe.loss = parse_loss(options.loss);
  recipe.optimizer.kind = parse_optimizer(options.optimizer);
  recipe.rate.kind = parse_rate_schedule(options.rate_schedule);
  recipe.rate.rate = options.rate.value_or(entry_of(recipe.optimizer.kind).rate);
  recipe.pattern.kind = parse_pattern_kind(options.pattern);
  recipe.pattern.schedule = parse_pattern_schedule(options.pattern_schedule);
  require_valid(recipe);
  if (options.validation.empty() && (options.patience || !options.best.empty()))
    throw UsageError("--patience and --best need --validation");
  if (options.validation.empty() && !(options.validation_labels.empty() && options.validation_targets.empty()))
    throw UsageError("--validation-labels and --validation-targets need --validation, the samples that they belong to");
  if (options.checkpoint.empty() && options.checkpoint_every) throw UsageError("--checkpoint-every needs --checkpoint");
  return recipe;
}

TrainingOptions engine_options(TrainOptions const& options, Recipe const& recipe) {
  TrainingOptions engine;
  engine.backend = parse_backend(options.backend);
  engine.reads_peers = options.reads_peers;
  engine.precision = recipe.precision;
  engine.loss = recipe.loss;
  engine.optimizer = recipe.optimizer;
  engine.batch = recipe.batch;
  engine.pattern = recipe.pattern.kind;
  engine.micro_batch = options.micro_batch;
  engine.keep_every = keep_every(options.recompute);
  if (options.formats != "auto") engine.format = parse_formats(options.formats).front();
  engine.memory_limit = in_bytes(options.memory_limit);
  engine.device_memory_limit = in_bytes(options.device_memory_limit);
  return engine;
}

void require_writable_outputs(TrainOptions const& options) {
  auto const require_network = [](char const* option, std::string const& path) {
    if (!is_container_name(path)) {
      throw UsageError(fmt::format("{} {} cannot hold a trained network, expected a name that ends in .safetensors "
                                   "(networks in text have one bias for all neurons)",
                                   option, path));
    }
    require_writable(path);
  };
  require_network("--output", options.output);
  if (!options.best.empty()) require_network("--best", options.best);
  for (auto const* const path : {&options.checkpoint, &options.history, &options.report})
    if (!path->empty()) require_writable(*path);
}

FileRoles file_roles(TrainOptions const& options) {
  FileRoles files;
  files.reads("--network", options.network);
  files.reads("--input", options.input);
  files.reads("--labels", options.labels);
  files.reads("--targets", options.targets);
  files.reads("--validation", options.validation);
  files.reads("--validation-labels", options.validation_labels);
  files.reads("--validation-targets", options.validation_targets);
  files.writes("--output", options.output, Content::network_or_samples);
  files.writes("--best", options.best, Content::network_or_samples);
  files.writes("--checkpoint", options.checkpoint, Content::container);
  if (!options.checkpoint.empty()) {
    auto const previous = previous_generation(options.checkpoint);
    std::error_code error; // of a run that was killed while the checkpoint had both names
    if (!std::filesystem::equivalent(options.checkpoint, previous, error))
      files.writes("the previous --checkpoint", previous, Content::container);
    files.writes("the lock of --checkpoint", lock_of_checkpoint(options.checkpoint), Content::container);
  }
  files.writes("--history", options.history, Content::plain_lines);
  files.writes("--report", options.report, Content::json);
  return files;
}

} // namespace varve
