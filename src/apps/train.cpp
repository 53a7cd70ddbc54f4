#include "apps/command.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "core/printable.hpp"
#include "core/stopwatch.hpp"
#include "core/version.hpp"
#include "engine/training.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"
#include "plan/memory.hpp"
#include "training/checkpoint.hpp"
#include "training/trainer.hpp"
#include "training/training_receipt.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace varve {
namespace {

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
    fail<UsageError>("--recompute is '{}', expected auto, none or a number from 1 on", recompute);
  return interval;
}

void add_options(CLI::App& command, TrainOptions& options) {
  add_files(command, options);
  add_recipe(command, options);
  add_pattern(command, options);
  add_engine(command, options);
}

/// The options that decide the bits of a training. Throws UsageError if a name is unknown or a number out of its range.
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

/// Converts the options to those of the engine. Throws UsageError as recipe_of() does.
TrainingOptions training_options(TrainOptions const& options, Recipe const& recipe) {
  auto engine = varve::training_options(recipe);
  engine.backend = parse_backend(options.backend);
  engine.reads_peers = options.peer_memory == "on";
  engine.micro_batch = options.micro_batch;
  engine.keep_every = keep_every(options.recompute);
  if (options.formats != "auto") engine.format = parse_formats(options.formats).front();
  engine.memory_limit = options.memory_limit;
  engine.device_memory_limit = options.device_memory_limit;
  return engine;
}

/// Throws UsageError unless --output and --best name .safetensors files, UsageError or ResourceError if an output
/// cannot be written. Leaves nothing behind.
void require_writable_outputs(TrainOptions const& options) {
  auto const require_network = [](char const* option, std::string const& path) {
    if (!is_container_name(path)) {
      fail<UsageError>("{} {} cannot hold a trained network, expected a name that ends in .safetensors (networks in "
                       "text have one bias for all neurons)",
                       option, path);
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

/// All files that the command reads and writes, with the options that name them.
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

/// A line on a terminal (standard error) that says how far the present epoch is, how fast samples are trained with, and
/// how long all epochs will take; nothing if standard error is no terminal. It is removed before other lines are
/// printed.
class TrainProgress {
public:
  /// Training goes on after `num_taken` samples, repetitions in epochs included.
  TrainProgress(std::size_t samples_per_epoch, std::uint64_t num_epochs, double num_taken)
      : samples_per_epoch_(samples_per_epoch),
        num_samples_(static_cast<double>(samples_per_epoch) * static_cast<double>(num_epochs)),
        num_before_(num_taken),
        is_terminal_(static_cast<bool>(terminal_progress(""))) {}
  ~TrainProgress() { clear(); }
  TrainProgress(TrainProgress const&) = delete;
  TrainProgress& operator=(TrainProgress const&) = delete;

  /// To be called after a step: `epoch` (from 0) has taken so many of its samples. Shows a line five times a second at
  /// most.
  void show(std::uint64_t epoch, std::size_t num_taken) {
    constexpr double interval = 0.2;
    if (!is_terminal_ || num_taken >= samples_per_epoch_) return;
    double const seconds = time_.seconds();
    if (seconds - last_seconds_ < interval) return;
    last_seconds_ = seconds;
    double const all_taken =
        static_cast<double>(epoch) * static_cast<double>(samples_per_epoch_) + static_cast<double>(num_taken);
    double const rate = (all_taken - num_before_) / seconds;
    // of one width, so that no character of the line before stays
    auto const what = fmt::format("epoch {:<4}{:>9.0f} samples/s, {:>9} left", epoch + 1, rate,
                                  readable_seconds((num_samples_ - all_taken) / rate));
    terminal_progress(what)(num_taken, samples_per_epoch_);
    is_shown_ = true;
  }

  /// Removes the line.
  void clear() {
    if (is_shown_) terminal_progress("")(1, 1); // a line that is complete removes itself
    is_shown_ = false;
  }

private:
  std::size_t samples_per_epoch_;
  double num_samples_; ///< of all epochs
  double num_before_;  ///< samples taken before this run
  Stopwatch time_;
  double last_seconds_ = 0.0; ///< when a line was shown last
  bool is_terminal_;
  bool is_shown_ = false;
};

Json as_json(TrainingPlan const& plan) {
  return {{"leaf", plan.leaf},
          {"micro_batch", plan.micro_batch},
          {"keep_every", plan.keep_every},
          {"streams_weights", plan.streams_weights},
          {"cut_layers", plan.num_cut_layers},
          {"strip_size", plan.num_cut_layers == 0 ? 0 : plan.strip_size},
          {"weight_bytes", plan.weight_bytes},
          {"group_bytes", plan.group_bytes},
          {"host_bytes", plan.host_bytes},
          {"dense_forward", plan.num_dense_forward},
          {"dense_backward", plan.num_dense_backward},
          {"series_layers", plan.num_series_layers},
          {"activation_bytes", plan.activation_bytes}};
}

/// What a rank did. `processor_wait`: seconds without a free processor (longest_wait_for_processor()).
Json as_json(TrainingTimes const& times, double processor_wait) {
  return {{"steps", times.num_steps},
          {"leaves", times.num_leaves},
          {"compute_seconds", times.compute_seconds},
          {"exchange_seconds", times.exchange_seconds},
          {"wait_seconds", times.wait_seconds},
          {"exchange_bytes", times.exchange_bytes},
          {"processor_wait_seconds", processor_wait}};
}

/// Gives this rank its share of the memory that several ranks use, unless the user limits it. A CPU is the device of
/// all ranks that compute on it.
void share_memory(TrainingOptions& engine, std::size_t ranks_on_device, std::size_t ranks_on_host) {
  auto const limits = memory_limits({engine.memory_limit, engine.device_memory_limit, {}}, engine.backend);
  if (!has_own_memory(engine.backend)) {
    if (!engine.memory_limit && ranks_on_device > 1)
      engine.memory_limit = (limits.device + limits.host_weights) / ranks_on_device;
    return;
  }
  if (!engine.device_memory_limit && ranks_on_device > 1) engine.device_memory_limit = limits.device / ranks_on_device;
  if (!engine.memory_limit && ranks_on_host > 1) engine.memory_limit = limits.host_weights / ranks_on_host;
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
    if (is_stopped) return stopped_by_signal;
    ranks_.together([&] { record_state(); }); // of the last step
    auto const of_ranks =
        gather_json(ranks_, as_json(engine_->times(), longest_wait_for_processor() - processor_wait_before_));
    auto const exchange_way = engine_->exchange_way();
    ranks_.on_root([&] { finish({{"ranks", of_ranks}, {"exchange", exchange_way}}); });
    return 0;
  }

private:
  void prepare() {
    ranks_.together([&] {
      recipe_ = recipe_of(options_);
      engine_options_ = training_options(options_, recipe_);
    });
    check_files(file_roles(options_), ranks_);
    ranks_.on_root([&] {
      require_writable_outputs(options_);
      if (!options_.checkpoint.empty()) lock_.emplace(options_.checkpoint);
    });
    auto places = place_ranks(ranks_, engine_options_.backend, options_.share_devices == "on");
    ranks_.together([&] { share_memory(engine_options_, places.num_ranks_on_device, places.num_ranks_on_host); });
    if (ranks_.size() > 1) engine_options_.exchange = exchange_between_ranks();
    devices_ = std::move(places.devices);
    ranks_.together([&] { read_files(); });
    if (ranks_.size() > 1) require_same_start();
    ranks_.on_root([&] { take_up(); });
    time_ = Stopwatch();
    processor_wait_before_ = longest_wait_for_processor();
  }

  /// Throws InputError unless all ranks begin with the same state, read from the same files: recipe, number of steps
  /// taken and weights. Collective.
  void require_same_start() const {
    Json facts;
    std::vector<RankInput> inputs;
    ranks_.together([&] {
      auto const keys = parse_json(recipe_text_, "recipe"); // must outlive the loop
      for (auto const& [key, value] : keys.items()) facts[key + " of the recipe"] = value;
      facts["the number of steps taken"] = trainer_->progress().num_steps;
      facts["the hash of the weights"] = fmt::format("{:016x}", weights_hash(engine_->network()));
      inputs = options_.files.inputs();
    });
    require_same_inputs(ranks_, facts, inputs);
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
    recipe_text_ = to_json(recipe_, training_data_of(network, training.samples, training.answers, recipe_.precision));
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
    AnswerFiles validation_files;
    if (!options_.validation.empty()) {
      auto const validation = read_answered_samples(
          {options_.validation, options_.validation_labels, options_.validation_targets}, network, recipe_.loss);
      validation_files = validation.files;
      validation_set = engine_->add_samples(validation.samples, validation.answers, options_.validation);
    }
    trainer_.emplace(*engine_, recipe_, set, num_samples_, validation_set);
    bool const keeps_best = !options_.best.empty() || !options_.checkpoint.empty();
    if (validation_set && ranks_.is_root() && keeps_best) trainer_->keep_best();
    if (ranks_.is_root()) {
      begin_report(training.files, validation_files);
      print_head(network);
    }
    if (!checkpoint) return;
    resume(*trainer_, *engine_, std::move(*checkpoint), options_.checkpoint);
    saved_step_ = trainer_->progress().num_steps;
  }

  /// Begins the report: what is trained where.
  void begin_report(AnswerFiles const& training, AnswerFiles const& validation) {
    report_ = {{"command", "train"},
               {"version", provenance.version},
               {"numerics", kNumerics},
               {"commit", provenance.git_commit},
               {"network", options_.network}};
    for (auto const& [key, file] :
         {std::pair("input", training.samples), std::pair("labels", training.labels),
          std::pair("targets", training.targets), std::pair("validation", validation.samples),
          std::pair("validation_labels", validation.labels), std::pair("validation_targets", validation.targets)})
      if (!file.empty()) report_[key] = file;
    report_.update({{"backend", options_.backend}, {"device", devices_.front().device}});
    add_devices(report_, devices_);
    report_.update({{"recipe", parse_json(recipe_text_, "recipe")}, {"plan", as_json(engine_->plan())}});
  }

  /// The lines that say what will be trained, with what and where.
  void print_head(Network const& network) const {
    auto const plan = engine_->plan();
    auto shown = report_;
    shown.update(shape_facts(network));
    shown.update({{"samples", num_samples_},
                  {"step", std::min(recipe_.batch, num_samples_)},
                  {"unit", recipe_.pattern.until > 1.0 ? "steps" : "of all steps"},
                  {"cut", plan.num_cut_layers == 1 ? "1 layer" : fmt::format("{} layers", plan.num_cut_layers)}});
    if (devices_.size() > 1) shown["several"] = devices_.size();
    if (plan.keep_every != 1) shown["kept"] = plan.keep_every;
    if (plan.streams_weights)
      shown["host"] = line_of(" of the device and {plan/host_bytes:B} of the host, which streams them", shown);
    if (plan.streams_weights && plan.num_cut_layers > 0)
      shown["strips"] = line_of("{cut} in strips of at most {plan/strip_size} weights", shown);
    print_lines({"network   {network}: {layers} layers, {inputs} inputs, {outputs} outputs, {edges:edges}",
                 "input     {input}: {samples} samples"},
                shown);
    print_devices(shown);
    print_lines(
        {"engine    varve on {backend}: {device}, {recipe/precision}[; {several} ranks]",
         "recipe    {recipe/loss}, {recipe/optimizer}, rate {recipe/rate} ({recipe/rate schedule}), {step} "
         "samples a step, {recipe/epochs} epochs, seed {recipe/seed}",
         "pattern   {recipe/pattern}: moves {recipe/pattern fraction} of the edges ({recipe/pattern schedule}) "
         "every {recipe/pattern every} steps, until {recipe/pattern until} {unit}",
         plan.num_dense_forward + plan.num_dense_backward > 0
             ? "formats   dense in {plan/dense_forward} layers forward and {plan/dense_backward} backward, else csr"
             : "",
         plan.num_series_layers > 0 ? "launches  {plan/series_layers} layers in series, several in a launch" : "",
         "memory    weights {plan/weight_bytes:B}[{host}][ ({strips})][, sums of several layers "
         "{plan/group_bytes:B}], activations {plan/activation_bytes:B} of {plan/micro_batch} samples at a time[, "
         "kept of every {kept} layers]"},
        shown);
  }

  bool pattern_changes() const { return recipe_.pattern.kind != PatternKind::keep; }

  std::optional<Checkpoint> find_checkpoint(Network const& network) const {
    if (options_.checkpoint.empty()) return std::nullopt;
    auto found = read_checkpoint(options_.checkpoint, [&](std::string const& why) {
      if (ranks_.is_root()) say("varve: " + printable(why));
    });
    if (!found) return std::nullopt;
    require_same(found->record.recipe, recipe_text_, options_.checkpoint);
    require_same_shape(*found, network, options_.checkpoint, pattern_changes());
    require_same_data(found->record.recipe, recipe_text_, options_.checkpoint);
    return found;
  }

  /// Returns false if a signal stopped the training.
  bool train_to_the_end() {
    while (!has_ended()) {
      if (has_to_stop()) {
        if (progress_line_) progress_line_->clear();
        save_checkpoint();
        if (ranks_.is_root())
          say(fmt::format("varve: stopped after step {}; the same command continues from {}",
                          trainer_->progress().num_steps, options_.checkpoint));
        return false;
      }
      auto const epoch = advance();
      if (receipt_) receipt_->add_step(trainer_->last_rows());
      if (trainer_->progress().num_steps % options_.receipt_every == 0) record_state();
      num_trained_ += epoch ? epoch->training.num_samples : 0;
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
      fail<InputError>("{}; {} holds the network after step {}, from which a training with other options can start (as "
                       "its --network, with another --checkpoint)",
                       error.what(), options_.checkpoint, *saved_step_);
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
    Json epoch = {
        {"epoch", result.epoch}, {"steps", result.num_steps}, {"rate", result.rate}, {"loss", result.training.mean()}};
    auto text = fmt::format("epoch {:<4}loss {:.6f}", result.epoch, result.training.mean());
    auto const add = [&](LossSum const& sum, bool has_labels, std::string const& key) {
      if (!has_labels) return;
      epoch[key] = sum.accuracy();
      text += fmt::format("  accuracy {:.4f}", sum.accuracy());
    };
    add(result.training, report_.contains("labels"), "accuracy");
    if (result.validation) {
      epoch["validation_loss"] = result.validation->mean();
      text += fmt::format("  validation loss {:.6f}", result.validation->mean());
      add(*result.validation, report_.contains("validation_labels"), "validation_accuracy");
    }
    epochs_.push_back(epoch);
    if (pattern_changes()) text += fmt::format("  edges moved {}", result.pattern.dropped - result.pattern.returned);
    double const rate = static_cast<double>(num_trained_) / time_.seconds();
    auto const left = static_cast<double>(recipe_.epochs - result.epoch) * static_cast<double>(num_samples_);
    fmt::print("{}  {:.0f} samples/s, {} left\n", text, rate, readable_seconds(left / rate));
    flush_output();
    if (history_) history_->add(result);
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
                     checkpoint_of(*trainer_, recipe_text_, std::move(network), std::move(state)));
  }

  /// Rank 0 writes; the others give it the moments that they hold.
  void save_checkpoint() {
    if (options_.checkpoint.empty()) return;
    unless_it_diverges([&] { engine_->require_finite_moments(); });
    auto state = engine_->state();
    if (!ranks_.is_root()) return;
    auto checkpoint = checkpoint_of(*trainer_, recipe_text_, engine_->network(), std::move(state));
    if (receipt_) checkpoint.record.receipt = to_json(*receipt_);
    write_checkpoint(options_.checkpoint, checkpoint);
    saved_step_ = trainer_->progress().num_steps;
  }

  /// With several ranks: the line that says how leaves and time were shared.
  void print_ranks(Json const& run) const {
    constexpr double busy_part = 0.1; // of the time without a free processor, from which on it is said
    auto const& ranks = run["ranks"];
    if (ranks.size() < 2) return;
    std::vector<std::string> leaves;
    Json shown = {{"compute_seconds", 0.0}, {"exchange_seconds", 0.0}, {"wait_seconds", 0.0}, {"exchange_bytes", 0.0}};
    auto const num_ranks = static_cast<double>(ranks.size());
    double busy = 0.0;
    for (auto const& rank : ranks) {
      leaves.push_back(rank["leaves"].dump());
      for (auto& [name, mean] : shown.items())
        mean = mean.get<double>() + rank[name].get<double>() / (name == "exchange_bytes" ? 1.0 : num_ranks);
      busy = std::max(busy, rank["processor_wait_seconds"].get<double>());
    }
    shown.update({{"leaves", list_of(leaves)}, {"exchange", run["exchange"]}});
    if (busy > busy_part * report_["seconds"].get<double>()) shown["busy"] = busy;
    print_lines({"ranks     leaves {leaves}; on average computing {compute_seconds:s}, exchange {exchange_seconds:s}, "
                 "waiting {wait_seconds:s}; {exchange_bytes:B} through {exchange}[; up to {busy:s} without a free "
                 "processor: other work, or too many threads]"},
                shown);
  }

  /// `run`: what the ranks did.
  void finish(Json const& run) {
    auto const network = engine_->network();
    require_unchanged_inputs();
    save_network(network, options_.output);
    auto const& progress = trainer_->progress();
    auto changes = Json::array();
    for (auto const& change : trainer_->changes())
      changes.push_back({{"step", change.step},
                         {"fraction", change.fraction},
                         {"dropped", change.count.dropped},
                         {"grown", change.count.dropped},
                         {"returned", change.count.returned}});
    report_.update({{"steps", progress.num_steps},
                    {"epochs", epochs_},
                    {"stopped_by", trainer_->is_finished() ? "epochs" : "patience"},
                    {"best_epoch", progress.best_epoch > 0 ? Json(progress.best_epoch) : Json()},
                    {"pattern_changes", changes},
                    {"samples", num_trained_},
                    {"seconds", time_.seconds()},
                    {"run", run},
                    {"weights_hash", fmt::format("{:016x}", weights_hash(network))}});
    print_ranks(run);
    print_lines({"time      {seconds:s} for {samples} samples", "weights   {weights_hash}"}, report_);
    if (!options_.report.empty()) write_report(options_.report, report_);
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
  std::vector<RankDevice> devices_;            ///< of all ranks, on rank 0
  std::string recipe_text_;                    ///< as JSON
  Json report_;                                ///< on rank 0
  Json epochs_ = Json::array();                ///< finished by this run, without those before a resumed checkpoint
  std::size_t num_trained_ = 0;                ///< samples of the epochs of this run
  Stopwatch time_;
  double processor_wait_before_ = 0.0; ///< seconds, of this rank before its first step
};

int train(TrainOptions const& options) { return TrainJob(options).run(); }

} // namespace

void add_train(CLI::App& command_line, Action& action) {
  auto [command, options] = add_command<TrainOptions>(
      command_line, action, "train", "Train a network with samples and their labels or targets", train, true, true);
  add_options(command, options);
}

} // namespace varve
