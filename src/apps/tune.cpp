#include "apps/command.hpp"
#include "apps/computing_options.hpp"
#include "apps/infer_options.hpp"
#include "apps/network_run.hpp"
#include "apps/report_head.hpp"
#include "apps/standard_streams.hpp"
#include "apps/timings.hpp"
#include "apps/tuning_target.hpp"
#include "core/backend.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/runtime.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "plan/memory.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {
namespace {

using Json = nlohmann::ordered_json;

/// Measurements of each alternative without which none is recommended: the spread of fewer says nothing.
constexpr std::size_t least_repeats = 5;

struct TuneOptions : ComputingOptions {
  std::string network, input, output;
  std::optional<std::size_t> samples;
  std::size_t repeat = 7;
};

/// The measurements of an alternative: options of `varve infer`, by name as in a tuning file, that change its speed but
/// no bit of its results. The plan chooses those that are not set.
struct Trial {
  Json options = Json::object();
  Timings loop, call;                ///< in the layer loop over all samples, and of the whole call
  std::uint64_t activation_hash = 0; ///< hash of the activations of the last run
  std::string refusal;               ///< the reason why it cannot run or was not measured further; else empty
};

/// The options as on the command line.
std::string as_text(Json const& options) {
  std::string text;
  for (auto const& [name, value] : options.items())
    text += fmt::format("{}--{} {}", text.empty() ? "" : " ", name,
                        value.is_string() ? value.get<std::string>() : json_text(value));
  return text.empty() ? "all left to the plan" : text;
}

void print_attempt(Trial const& trial) {
  if (trial.refusal.empty()) {
    fmt::print("{:10.3f} ms, spread {:4.1f} %  {}\n", 1e3 * trial.loop.median, 100.0 * trial.loop.spread,
               as_text(trial.options));
  } else {
    fmt::print("         -                   {}: {}\n", as_text(trial.options), trial.refusal);
  }
}

/// Tries alternatives on one network and its samples.
class Tuner {
public:
  /// Measures the defaults, which the plan chooses. `engine` must have memory limits, so that an alternative plans as
  /// if it were alone in memory. The references must outlive the object. Throws what preparing or running throws.
  Tuner(NetworkSource const& network, SampleBatch const& samples, InferenceOptions engine, std::size_t repeat)
      : network_(network), samples_(samples), engine_(std::move(engine)), repeat_(repeat) {
    Field field;
    field.push_back(prepared(Json::object()));
    run_of(field, 0).run(); // warm-up
    measure_in_turn(field, repeat_, 0.0);
    keep(trial_of(field, 0, Json::object()));
  }

  /// Changes one option after the other and keeps a value if it is clearly the fastest. This takes far fewer trials
  /// than all combinations and comes near the best of them. Recommends the kept values if they win beside the defaults
  /// once more. Keeps none with fewer measurements than least_repeats.
  void search() {
    std::vector<Json> changed;
    for (auto const& entry : all_formats()) changed.push_back(with("formats", entry.option));
    compare(std::exchange(changed, {}));
    for (auto const& entry : all_kernels()) {
      if (entry.can_be_asked_for && entry.kernel != KernelName::cones) // cones are also a format, which is tried above
        changed.push_back(with("kernel", entry.option));
    }
    compare(std::exchange(changed, {}));
    constexpr std::size_t smallest = 1024;
    for (std::size_t batch = samples_.num_samples() / 2; batch >= smallest; batch /= 2)
      changed.push_back(with("batch", batch));
    compare(changed);
    confirm();
  }

  Trial const& defaults() const { return trials_.front(); }
  std::vector<Trial> const& trials() const { return trials_; }
  /// The recommendation; it has no option if nothing is clearly faster than the defaults.
  Json best() const { return confirmation_.empty() ? Json::object() : confirmation_.back().options; }
  /// The defaults and the recommendation, measured once more in turn; empty if nothing is recommended.
  std::vector<Trial> const& confirmation() const { return confirmation_; }
  /// The first trial whose activations differ from the first one's, if there is any.
  Trial const* contradiction() const {
    auto const found = std::ranges::find_if(trials_, [&](Trial const& trial) {
      return trial.refusal.empty() && trial.activation_hash != defaults().activation_hash;
    });
    return found == trials_.end() ? nullptr : &*found;
  }

private:
  static NetworkRun& run_of(Field const& field, std::size_t number) {
    return dynamic_cast<NetworkRun&>(*field[number]);
  }

  static Trial trial_of(Field const& field, std::size_t number, Json const& options) {
    auto& run = run_of(field, number);
    return {options,
            summarize(run.seconds.at("loop_seconds")),
            summarize(run.seconds.at("call_seconds")),
            run.activation_hash(),
            {}};
  }

  void keep(Trial const& trial) { print_attempt(trials_.emplace_back(trial)); }

  Json incumbent() const { return kept_.empty() ? Json::object() : kept_.back(); }

  template <class Value>
  Json with(char const* option, Value const& value) const {
    auto options = incumbent();
    options[option] = value;
    return options;
  }

  std::unique_ptr<NetworkRun> prepared(Json const& options) const {
    auto engine = engine_;
    engine.formats = parse_formats(options.value("formats", "auto"));
    if (options.contains("kernel")) engine.kernel = parse_kernel(options["kernel"]);
    if (options.contains("batch")) engine.batch = options["batch"].get<std::size_t>();
    return std::make_unique<NetworkRun>(network_, samples_, engine, "tuned");
  }

  /// Prepares an alternative and runs it once as warm-up. Returns null, with the reason in the trial, if it cannot run
  /// or takes far longer than the fastest median so far.
  std::unique_ptr<NetworkRun> enter(Json const& options, double fastest, std::size_t& memory_left) {
    constexpr double hopeless = 3.0;
    Trial trial;
    trial.options = options;
    try {
      auto run = prepared(options);
      double seconds = run->run().first;
      if (seconds > hopeless * fastest) seconds = run->run().first; // other load may have slowed the first run down
      if (seconds <= hopeless * fastest) {
        run->stay_within(memory_left);
        return run;
      }
      trial.activation_hash = run->activation_hash();
      trial.refusal = fmt::format("{:.1f} times as slow as the fastest", seconds / fastest);
    } catch (Error const& error) {
      trial.refusal = error.what();
    }
    keep(trial);
    return nullptr;
  }

  /// Measures the alternative kept last and each change of it, and keeps the fastest change if it is clearly faster.
  void compare(std::vector<Json> changed) {
    if (changed.empty()) return;
    std::size_t memory_left = available_memory(engine_.backend) / 3;
    Field field;
    std::vector<Json> entered = {incumbent()};
    field.push_back(enter(incumbent(), std::numeric_limits<double>::infinity(), memory_left));
    VARVE_REQUIRE(field.front() != nullptr, "what ran before runs no more");
    for (auto const& options : changed) {
      auto run = enter(options, defaults().loop.median, memory_left);
      if (!run) continue;
      field.push_back(std::move(run));
      entered.push_back(options);
    }
    measure_in_turn(field, repeat_, 0.0);
    auto const before = trial_of(field, 0, entered.front());
    std::optional<Trial> winner;
    for (std::size_t number = 1; number < field.size(); ++number) {
      auto const trial = trial_of(field, number, entered[number]);
      keep(trial);
      bool const is_fastest = !winner || trial.loop.median < winner->loop.median;
      if (is_fastest && is_clearly_faster(trial.loop, before.loop)) winner = trial;
    }
    if (winner && repeat_ >= least_repeats) kept_.push_back(winner->options);
  }

  /// Recommends the last kept alternative that wins beside the defaults alone and costs nothing outside the loop.
  void confirm() {
    for (auto options = kept_.rbegin(); options != kept_.rend() && confirmation_.empty(); ++options) {
      std::size_t memory_left = available_memory(engine_.backend) / 3;
      Field field;
      for (auto const& one : {Json::object(), *options}) {
        field.push_back(enter(one, std::numeric_limits<double>::infinity(), memory_left));
        VARVE_REQUIRE(field.back() != nullptr, "what ran before runs no more");
      }
      measure_in_turn(field, repeat_, 0.0);
      auto const usual = trial_of(field, 0, Json::object());
      auto const best = trial_of(field, 1, *options);
      bool const costs_elsewhere = is_clearly_faster(usual.call, best.call);
      if (!costs_elsewhere && is_clearly_faster(best.loop, usual.loop)) confirmation_ = {usual, best};
    }
  }

  NetworkSource const& network_;
  SampleBatch const& samples_;
  InferenceOptions engine_;
  std::size_t repeat_;
  std::vector<Trial> trials_;
  std::vector<Json> kept_; ///< the winners so far; each has all options of those before it
  std::vector<Trial> confirmation_;
};

/// The measurements of an alternative as JSON.
Json describe(Trial const& trial) {
  Json one = {{"options", trial.options}};
  if (trial.refusal.empty()) {
    one["loop_seconds"] = trial.loop.median;
    one["spread"] = trial.loop.spread;
  } else {
    one["refusal"] = trial.refusal;
  }
  return one;
}

Json describe_whole(Trial const& trial) {
  return {{"loop_seconds", trial.loop.median},
          {"loop_spread", trial.loop.spread},
          {"run_seconds", trial.call.median},
          {"run_spread", trial.call.spread}};
}

Json describe(Tuner const& tuner, NetworkSource const& network, std::size_t num_samples, InferenceOptions const& engine,
              TuneOptions const& options) {
  auto const& won = tuner.confirmation();
  Json best = {{"backend", options.backend}};
  best.update(tuner.best());
  Json trials = Json::array();
  for (auto const& trial : tuner.trials()) trials.push_back(describe(trial));
  Json json = report_head("varve tune");
  json.update(
      {{"target", describe_tuning_target(options.network, {}, engine)},
       {"network",
        {{"name", network.name()},
         {"layers", network.num_layers()},
         {"inputs", network.layer(0).num_inputs()},
         {"outputs", network.layer(network.num_layers() - 1).num_outputs()}}},
       {"samples", num_samples},
       {"reductions", options.reductions},
       {"edge_order", options.edge_order},
       {"repeat", options.repeat},
       {"activation_hash", fmt::format("{:016x}", tuner.defaults().activation_hash)},
       {"default_loop_seconds", (won.empty() ? tuner.defaults() : won.front()).loop.median},
       {"loop_seconds", (won.empty() ? tuner.defaults() : won.back()).loop.median},
       {"whole_runs",
        won.empty() ? Json() : Json{{"defaults", describe_whole(won.front())}, {"best", describe_whole(won.back())}}},
       {"options", best},
       {"trials", trials}});
  return json;
}

void print_best(Tuner const& tuner, TuneOptions const& options) {
  auto const& won = tuner.confirmation();
  if (options.repeat < least_repeats) {
    fmt::print("best      {}: of fewer than {} measurements (--repeat) nothing can be said\n", as_text(tuner.best()),
               least_repeats);
  } else if (won.empty()) {
    fmt::print("best      {}: nothing is faster by more than the spread of the measurements\n", as_text(tuner.best()));
  } else {
    fmt::print("best      {}: layer loop {}, {:.2f} times as fast as what the plan chose; whole run {}, {:.2f} times\n",
               as_text(tuner.best()), readable_seconds(won.back().loop.median),
               won.front().loop.median / won.back().loop.median, readable_seconds(won.back().call.median),
               won.front().call.median / won.back().call.median);
  }
}

int tune(TuneOptions const& options) {
  FileRoles files;
  files.reads("--network", options.network);
  files.reads("--input", options.input);
  files.writes("--output", options.output, Content::json);
  check_files(files);
  if (!options.output.empty()) require_writable(options.output);
  auto engine = engine_options(options);
  auto const network = open_network(options.network);
  auto const range = options.samples ? std::optional(first_samples(options.input, *options.samples)) : std::nullopt;
  SampleBatch const samples = open_samples(options.input, network->layer(0).num_inputs(), range);
  if (samples.num_samples() == 0) throw InputError(fmt::format("{} holds no samples to tune with", options.input));
  limit_memory(engine, 1);
  engine.device_memory_limit = memory_limits(engine, engine.backend).device;

  fmt::print("tuning    {} on {}: {}, {}; {} samples\n", printable(network->name()), options.backend,
             device_name(engine.backend), options.precision, samples.num_samples());
  Tuner tuner(*network, samples, engine, options.repeat);
  tuner.search();
  require_unchanged_inputs();
  if (auto const* const other = tuner.contradiction()) {
    say(fmt::format("varve: the activations with {} differ from the others', which no option may cause",
                    as_text(other->options)));
    return 1;
  }
  print_best(tuner, options);
  if (!options.output.empty()) {
    OutputFile file(options.output);
    file.write(json_text(describe(tuner, *network, samples.num_samples(), engine, options), 2) + "\n");
    file.commit();
  }
  return 0;
}

} // namespace

void add_tune(CLI::App& command_line, Action& action) {
  auto* const command = command_line.add_subcommand("tune", "Find the fastest options for a network on this machine");
  auto const options = std::make_shared<TuneOptions>();
  command->add_option("--network", options->network, "network file (.safetensors) or folder of nN-lK.tsv layer files")
      ->required();
  command->add_option("--input", options->input, "samples like those of later runs, and as many of them")->required();
  command->add_option("--samples", options->samples, "use only the first N samples")->check(above_zero());
  add_computing_options(*command, *options, {"--backend", "--precision", "--reductions", "--edge-order"});
  command
      ->add_option(
          "--repeat", options->repeat,
          "measurements of each alternative, alternating with the others; the median counts, and of fewer than "
          "5 none is recommended")
      ->check(above_zero())
      ->capture_default_str();
  command->add_option("--output", options->output, "write what was found as JSON, for varve infer --options");
  command->callback([options, &action] { action.run = [options] { return tune(*options); }; });
}

} // namespace varve
