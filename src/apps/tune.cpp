#include "apps/command.hpp"
#include "apps/network_run.hpp"
#include "apps/options.hpp"
#include "apps/options_file.hpp"
#include "apps/standard_streams.hpp"
#include "core/backend.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/runtime.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace varve {
namespace {

/// Measurements of each alternative without which none is recommended: the spread of fewer says nothing.
constexpr std::size_t least_repeats = 5;

struct TuneOptions : ComputingOptions {
  std::string network, input, output;
  std::optional<std::size_t> samples;
  std::size_t repeat = 7;
  CommandFiles files;
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
    keep(measure({Json::object()}).front());
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
    return std::make_unique<NetworkRun>(network_, samples_, engine);
  }

  /// Measures alternatives in turn, each after a run as warm-up. The first must run; another that cannot, or that takes
  /// far longer than the defaults, is kept with the reason and left out.
  std::vector<Trial> measure(std::vector<Json> const& alternatives) {
    constexpr double hopeless = 3.0;
    std::size_t memory_left = memory_of_field(engine_.backend);
    std::vector<std::unique_ptr<NetworkRun>> runs;
    std::vector<NetworkRun*> field;
    std::vector<Trial> measured;
    for (auto const& options : alternatives) {
      Trial trial;
      trial.options = options;
      try {
        auto run = prepared(options);
        auto const too_long = runs.empty() ? std::numeric_limits<double>::infinity() : hopeless * fastest_;
        double seconds = run->run();
        if (seconds > too_long) seconds = run->run(); // other load may have slowed the first run down
        if (seconds <= too_long) {
          run->stay_within(memory_left);
          field.push_back(runs.emplace_back(std::move(run)).get());
          measured.push_back(trial);
          continue;
        }
        trial.activation_hash = run->activation_hash();
        trial.refusal = fmt::format("{:.1f} times as slow as the fastest", seconds / fastest_);
      } catch (Error const& error) {
        if (runs.empty()) throw;
        trial.refusal = error.what();
      }
      keep(trial);
    }
    measure_in_turn(field, repeat_, 0.0);
    for (std::size_t number = 0; number < field.size(); ++number) {
      auto const& run = *field[number];
      measured[number].loop = summarize(run.loop_seconds());
      measured[number].call = summarize(run.call_seconds());
      measured[number].activation_hash = run.activation_hash();
    }
    if (trials_.empty()) fastest_ = measured.front().loop.median;
    return measured;
  }

  /// Measures the alternative kept last and each change of it, and keeps the fastest change if it is clearly faster.
  void compare(std::vector<Json> changed) {
    if (changed.empty()) return;
    changed.insert(changed.begin(), incumbent());
    auto const measured = measure(changed);
    Trial const* winner = nullptr;
    for (auto const& trial : std::span(measured).subspan(1)) {
      keep(trial);
      bool const is_fastest = winner == nullptr || trial.loop.median < winner->loop.median;
      if (is_fastest && is_clearly_faster(trial.loop, measured.front().loop)) winner = &trial;
    }
    if (winner != nullptr && repeat_ >= least_repeats) kept_.push_back(winner->options);
  }

  /// Recommends the last kept alternative that wins beside the defaults alone and costs nothing outside the loop.
  void confirm() {
    for (auto options = kept_.rbegin(); options != kept_.rend() && confirmation_.empty(); ++options) {
      auto const both = measure({Json::object(), *options});
      if (both.size() < 2) continue;
      bool const costs_elsewhere = is_clearly_faster(both.front().call, both.back().call);
      if (!costs_elsewhere && is_clearly_faster(both.back().loop, both.front().loop)) confirmation_ = both;
    }
  }

  NetworkSource const& network_;
  SampleBatch const& samples_;
  InferenceOptions engine_;
  std::size_t repeat_;
  double fastest_ = 0.0; ///< median of the layer loop of the defaults, in seconds
  std::vector<Trial> trials_;
  std::vector<Json> kept_; ///< the winners so far; each has all options of those before it
  std::vector<Trial> confirmation_;
};

/// The measurements of an alternative as JSON.
Json describe(Trial const& trial) {
  if (!trial.refusal.empty()) return {{"options", trial.options}, {"refusal", trial.refusal}};
  return {{"options", trial.options}, {"loop_seconds", trial.loop.median}, {"spread", trial.loop.spread}};
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
       {"reductions", options.named.reductions},
       {"edge_order", options.named.edge_order},
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
  check_files(options.files.roles());
  options.files.require_writable();
  auto const wanted = engine_options(options);
  auto const network = open_network(options.network);
  auto const range = options.samples ? std::optional(first_samples(options.input, *options.samples)) : std::nullopt;
  SampleBatch const samples = open_samples(options.input, network->layer(0).num_inputs(), range);
  if (samples.num_samples() == 0) throw InputError(fmt::format("{} holds no samples to tune with", options.input));
  auto const engine = with_memory_limits(wanted);
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
  if (!options.output.empty())
    write_report(options.output, describe(tuner, *network, samples.num_samples(), engine, options));
  return 0;
}

} // namespace

void add_tune(CLI::App& command_line, Action& action) {
  auto [command, options] = add_command<TuneOptions>(command_line, action, "tune",
                                                     "Find the fastest options for a network on this machine", tune);
  add_data(command, options.files, options.network, options.input);
  OptionGroup const shown(command);
  shown.add("--samples", options.samples, "use only the first N samples", above_zero());
  add_computing_options(command, options);
  shown.add(
      "--repeat", options.repeat,
      "measurements of each alternative, alternating with the others; the median counts, and of fewer than 5 none "
      "is recommended",
      above_zero());
  shown.writes(options.files, "--output", options.output, Content::json,
               "write what was found as JSON, for varve infer --options");
}

} // namespace varve
