#include "apps/train_options.hpp"

#include "apps/options.hpp"
#include "core/error.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "io/sample_file.hpp"
#include "training/checkpoint.hpp"
#include "training/training_receipt.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace varve {
namespace {

void add_files(CLI::App& command, TrainOptions& options) {
  auto& files = options.files;
  add_data(command, files, options.network, options.input);
  OptionGroup const shown(command);
  shown.reads(
      files, "--labels", options.labels,
      "classes of the samples, from 0: .safetensors, IDX, or text with one per line (default: those in --input)");
  shown.reads(files, "--validation", options.validation, "samples to measure loss and accuracy with after each epoch");
  shown
      .writes(files, "--output", options.output, Content::network_or_samples,
              "write the trained network (.safetensors)")
      ->required();
  shown.writes(files, "--best", options.best, Content::network_or_samples,
               "write the network of the epoch with the least validation loss so far (.safetensors), of equal ones the "
               "first");
  shown.writes(files, "--checkpoint", options.checkpoint, Content::container,
               "keep the state of the training in FILE (.safetensors) and the state before in FILE.previous: the same "
               "command continues a training that was killed, or stopped by SIGTERM or SIGUSR1 (exit code 5)");
  OptionGroup const more(command, "More files");
  more.reads(files, "--targets", options.targets,
             "wanted outputs of the samples, for every --loss but cross-entropy: targets or samples of a sample file");
  more.reads(files, "--validation-labels", options.validation_labels,
             "classes of the validation samples (default: those in --validation)");
  more.reads(files, "--validation-targets", options.validation_targets, "wanted outputs of the validation samples");
  more.add("--checkpoint-every", options.checkpoint_every, "steps between checkpoints, besides those after each epoch",
           above_zero());
  more.writes(files, "--history", options.history, Content::plain_lines,
              "write loss and accuracy of each epoch as a table (.tsv)");
  add_report(more, files, options.report);
  OptionGroup const proof(command, "Proof");
  auto* const receipt = proof.writes(
      files, "--receipt", options.receipt, Content::json,
      "write digests of the network, of all data and of the states of the training, with which varve audit checks "
      "it by computing some steps again");
  proof
      .add_keys("--receipt-states",
                {number_key("every", options.receipt_every, "N", "steps between them (default: 128)", above_zero()),
                 text_key("checkpoints", options.receipt_checkpoints, "FOLDER",
                          "keep a checkpoint of each there, from which an audit can begin")},
                "the states that the receipt records:")
      ->needs(receipt);
}

void add_recipe(CLI::App& command, TrainOptions& options) {
  auto& recipe = options.recipe;
  OptionGroup const shown(command);
  shown.add("--loss", recipe.loss,
            "cross-entropy (softmax of the outputs and a class), mean-square, logistic (sigmoid of each output and a "
            "target from 0 to 1; one output distinguishes two classes) or huber",
            known(names_of(all_losses)));
  shown.add_keys("--optimizer",
                 {number_key("momentum", recipe.momentum, "M", "of momentum and nesterov (default: 0.9)"),
                  number_key("beta1", recipe.beta1, "B", "of the Adam family (default: 0.9)"),
                  number_key("beta2", recipe.beta2, "B", "of the Adam family (default: 0.999)"),
                  number_key("epsilon", recipe.epsilon, "E", "of the Adam family (default: 1e-8)"),
                  number_key("l2", recipe.l2, "L",
                             "decay of weights (not of biases): l2 * weight is added to the gradient; adamw subtracts "
                             "rate * l2 * weight (default: 0)")},
                 "how gradients change weights:", &recipe.optimizer, names_of(all_optimizers));
  shown.add("--rate", options.rate, "learning rate (default: 0.05; of the Adam family 0.001)");
  shown.add("--batch", recipe.batch, "samples of a mini-batch", above_zero());
  shown.add("--epochs", recipe.epochs, "number of passes over all samples", above_zero());
  OptionGroup const rates(command, "Rates and order");
  rates.add_keys("--rate-schedule",
                 {number_key("every", recipe.rate_every, "N", "of step: epochs between changes (default: 10)"),
                  number_key("factor", recipe.rate_factor, "F", "of step: of each change (default: 0.1)"),
                  number_key("warm-up", recipe.warm_up, "N",
                             "steps at the beginning in which the rate rises linearly (default: 0)")},
                 "how the rate changes:", &recipe.schedule, {"constant", "step", "cosine"});
  rates.add("--delta", recipe.delta, "with --loss huber: the error from which on the loss is a line");
  rates.add("--seed", recipe.seed, "seed of the order of the samples, and of the places of --pattern set");
  rates.add("--patience", options.patience,
            "stop after this many epochs without a lower validation loss (default: never)", above_zero());
}

void add_pattern(CLI::App& command, TrainOptions& options) {
  auto& recipe = options.recipe;
  OptionGroup(command, "Edges that move")
      .add_keys("--pattern",
                {number_key("fraction", recipe.pattern_fraction, "F",
                            "part of the edges of each layer that a change moves (default: 0.3)"),
                 number_key("every", recipe.pattern_every, "N", "steps between changes (default: 100)"),
                 number_key("until", recipe.pattern_until, "U",
                            "where changes end, as a part of all steps (at most 1) or as a number of steps (default: "
                            "0.75)"),
                 text_key("schedule", recipe.pattern_schedule, "cosine|constant",
                          "the fraction falls to 0 as a cosine, or is constant")},
                "keep the edges where they are, or move edges of small weights: set (to random free places) or rigl "
                "(to the free places with the largest gradients):",
                &recipe.pattern, {"keep", "set", "rigl"});
}

void add_engine(CLI::App& command, TrainOptions& options) {
  add_backend(command, options.backend);
  OptionGroup const memory(command, "Memory and precision");
  add_precision(memory, options.precision);
  memory.add("--recompute", options.recompute,
             "layers whose activations are computed twice instead of kept: auto (as few as memory allows), none, or K: "
             "all but those of every K-th layer");
  memory.add_keys(
      "--memory",
      {memory_key("device", options.device_memory_limit,
                  "of the device, for weights and activations (default: nine tenths of what is free); if weights do "
                  "not fit, they stay on the host and are streamed"),
       memory_key("host", options.memory_limit,
                  "of the host, for weights that are streamed (default: half of what is free). On CPU backends: the "
                  "limit for everything (default: nine tenths of what is free)")},
      "limits in GiB:");
  add_tuning(
      command,
      {name_key("formats", options.formats, {"auto", "dense", "csr"},
                "how layers are stored: dense where that takes less time, dense or as edges"),
       number_key("micro-batch", options.micro_batch, "N",
                  "samples at a time: 64 (double: 32) times a power of two (default: as many as fit)", above_zero()),
       name_key("peer-memory", options.peer_memory, {"on", "off"},
                "ranks of a machine read gradients from each other's memory, or send them as MPI messages"),
       share_devices_key(options.share_devices)});
  command.footer(
      "Under mpirun, srun or flux the ranks share each mini-batch; start one rank per device.\n"
      "Of the options --backend, --precision, --recompute, --memory and --tuning, only --precision changes the bits of "
      "the trained network. The number of ranks changes none.");
}

std::optional<std::size_t> keep_every(std::string const& recompute) {
  if (recompute == "auto") return std::nullopt;
  if (recompute == "none") return 1;
  auto const interval = whole_number(recompute);
  if (interval.value_or(0) == 0)
    throw UsageError(fmt::format("--recompute is '{}', expected auto, none or a number from 1 on", recompute));
  return interval;
}

} // namespace

void add_options(CLI::App& command, TrainOptions& options) {
  add_files(command, options);
  add_recipe(command, options);
  add_pattern(command, options);
  add_engine(command, options);
}

Recipe recipe_of(TrainOptions const& options) {
  auto asked = options.recipe;
  asked.rate = options.rate.value_or(entry_of(parse_optimizer(asked.optimizer)).rate);
  auto recipe = to_private(asked);
  recipe.precision = precision_of(options.precision);
  if (options.validation.empty() && (options.patience || !options.best.empty()))
    throw UsageError("--patience and --best need --validation");
  if (options.validation.empty() && !(options.validation_labels.empty() && options.validation_targets.empty()))
    throw UsageError("--validation-labels and --validation-targets need --validation, the samples that they belong to");
  if (options.checkpoint.empty() && options.checkpoint_every) throw UsageError("--checkpoint-every needs --checkpoint");
  return recipe;
}

TrainingOptions engine_options(TrainOptions const& options, Recipe const& recipe) {
  auto engine = training_options(recipe);
  engine.backend = parse_backend(options.backend);
  engine.reads_peers = options.peer_memory == "on";
  engine.micro_batch = options.micro_batch;
  engine.keep_every = keep_every(options.recompute);
  if (options.formats != "auto") engine.format = parse_formats(options.formats).front();
  engine.memory_limit = options.memory_limit;
  engine.device_memory_limit = options.device_memory_limit;
  return engine;
}

void require_writable_outputs(TrainOptions const& options) {
  auto const require_network = [](char const* option, std::string const& path) {
    if (!is_container_name(path)) {
      throw UsageError(fmt::format("{} {} cannot hold a trained network, expected a name that ends in .safetensors "
                                   "(networks in text have one bias for all neurons)",
                                   option, path));
    }
  };
  require_network("--output", options.output);
  if (!options.best.empty()) require_network("--best", options.best);
  options.files.require_writable();
  if (options.receipt_checkpoints.empty()) return;
  std::error_code error; // the next call says what is wrong
  std::filesystem::create_directories(options.receipt_checkpoints, error);
  require_writable(checkpoint_of_step(options.receipt_checkpoints, options.receipt_every));
}

FileRoles file_roles(TrainOptions const& options) {
  auto files = options.files.roles();
  if (options.checkpoint.empty()) return files;
  auto const previous = previous_generation(options.checkpoint);
  std::error_code error; // of a run that was killed while the checkpoint had both names
  if (!std::filesystem::equivalent(options.checkpoint, previous, error))
    files.writes("the previous --checkpoint", previous, Content::container);
  files.writes("the lock of --checkpoint", lock_of_checkpoint(options.checkpoint), Content::container);
  return files;
}

AnsweredSamples read_answered_samples(AnswerFiles const& files, Network const& network, Loss const& loss) {
  AnsweredSamples read;
  read.samples = open_samples(files.samples, network.num_inputs());
  if (read.samples.num_samples() == 0) throw InputError(files.samples + " holds no samples");
  read.files.samples = files.samples;
  SampleRange const range{read.samples.first_sample, read.samples.first_sample + read.samples.num_samples()};
  auto const targets = with_own_answers(files).targets;
  bool const takes_own = entry_of(loss).takes_targets && files.labels.empty();
  if (!files.targets.empty() || (takes_own && !targets.empty())) {
    if (!files.labels.empty()) throw UsageError("samples have labels or targets, not both");
    read.files.targets = targets;
    auto const reader = open_targets(read.files.targets, network.num_outputs(), range, OtherSamples::refused);
    read.answers.values = to_set(reader->read(0, reader->num_samples())).matrix;
    require_targets(read.answers.values, loss, read.files.targets, range.first);
    return read;
  }
  read.files.labels = files.labels.empty() ? files.samples : files.labels;
  auto labels = open_labels(read.files.labels, range, OtherSamples::refused);
  require_classes(labels, loss.num_classes(network.num_outputs()), read.files.labels);
  read.answers.labels = std::move(labels.classes);
  return read;
}

} // namespace varve
