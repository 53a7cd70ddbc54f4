#include "apps/command.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/runtime.hpp"
#include "core/version.hpp"
#include "distribute/communicator.hpp"
#include "engine/inference.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using Json = nlohmann::ordered_json;

struct TuneOptions {
  std::string network, input, output;
  std::optional<std::size_t> samples;
  std::string backend = to_string(compiled_backends().front());
  std::string precision = "float";
  std::string reductions = "auto";
  std::string edge_order = "auto";
  std::size_t repeat = 7;
};

/// Options of varve infer that change its speed and not a bit of its answer; what is not set is left to the plan.
struct Alternative {
  std::optional<std::string> formats;
  std::optional<std::string> kernel;
  bool narrow_tiles = false;
  std::optional<std::size_t> batch;
};

Json as_json(Alternative const& alternative) {
  Json options = Json::object();
  if (alternative.formats) options["formats"] = *alternative.formats;
  if (alternative.kernel) options["kernel"] = *alternative.kernel;
  if (alternative.narrow_tiles) options["narrow-tiles"] = true;
  if (alternative.batch) options["batch"] = *alternative.batch;
  return options;
}

std::string as_text(Alternative const& alternative) {
  std::string text;
  Json const options = as_json(alternative); // lives as long as the loop over it
  for (auto const& [name, value] : options.items()) {
    text += (text.empty() ? "--" : " --") + name;
    if (!value.is_boolean()) text += " " + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text.empty() ? "all left to the plan" : text;
}

/// What an alternative gave.
struct Trial {
  Alternative alternative;
  double seconds = std::numeric_limits<double>::infinity(); ///< the median of the layer loop
  std::uint64_t activation_hash = 0;
  std::string refusal; ///< why it cannot run; empty if it did
};

/// Tries alternatives on one network and input.
class Tuner {
public:
  Tuner(NetworkSource const& network, SampleBatch const& samples, InferenceOptions options, std::size_t repeat)
      : network_(network), samples_(samples), options_(std::move(options)), repeat_(repeat) {
    try_out({});
    if (!defaults().refusal.empty()) throw ResourceError(defaults().refusal);
  }

  /// Changes one option after the other, keeping the best value of each: far fewer trials than all combinations, and
  /// near the best of them.
  void search() {
    for (char const* const formats : {"cones", "pattern_blocks", "staged_blocks", "sliced_ell", "csr"})
      try_change([&](Alternative& alternative) { alternative.formats = formats; });
    settle();
    for (char const* const kernel : {"direct", "stationary", "staged", "fused", "spread"})
      try_change([&](Alternative& alternative) { alternative.kernel = kernel; });
    settle();
    try_change([](Alternative& alternative) { alternative.narrow_tiles = true; });
    settle();
    constexpr std::size_t smallest = 1024;
    for (std::size_t batch = samples_.num_samples() / 2; batch >= smallest; batch /= 2)
      try_change([&](Alternative& alternative) { alternative.batch = batch; });
    settle();
    confirm();
  }

  Trial const& defaults() const { return trials_.front(); }
  Trial const& best() const { return trials_[best_]; }
  std::vector<Trial> const& trials() const { return trials_; }

  /// The first trial whose activations differ from the first one's, if there is any.
  Trial const* contradiction() const {
    auto const found = std::ranges::find_if(trials_, [&](Trial const& trial) {
      return trial.refusal.empty() && trial.activation_hash != defaults().activation_hash;
    });
    return found == trials_.end() ? nullptr : &*found;
  }

private:
  template <class Change>
  void try_change(Change const& change) {
    Alternative alternative = best().alternative;
    change(alternative);
    try_out(alternative);
  }

  void try_out(Alternative const& alternative) {
    Trial trial;
    trial.alternative = alternative;
    try {
      measure(trial);
    } catch (Error const& error) {
      trial.refusal = error.what();
    }
    if (trial.refusal.empty()) {
      fmt::print("{:10.3f} ms  {}\n", 1e3 * trial.seconds, as_text(alternative));
    } else {
      fmt::print("         -     {}: {}\n", as_text(alternative), printable(trial.refusal));
    }
    trials_.push_back(std::move(trial));
  }

  /// Runs the layer loop once to warm up, then on the clock.
  void measure(Trial& trial) const {
    InferenceOptions options = options_;
    options.expected_samples = samples_.num_samples();
    options.formats = parse_formats(trial.alternative.formats.value_or("auto"));
    options.kernel = trial.alternative.kernel;
    options.narrow_tiles = trial.alternative.narrow_tiles;
    options.batch = trial.alternative.batch;
    auto const inference = prepare(network_, options);
    auto const plan = inference->plan(shape_of(samples_));
    std::vector<double> seconds;
    run(*inference, plan.batch, trial);
    while (seconds.size() < repeat_ && !is_hopeless(seconds)) seconds.push_back(run(*inference, plan.batch, trial));
    std::ranges::sort(seconds);
    trial.seconds = seconds[seconds.size() / 2];
  }

  /// Runs all samples and keeps the hash of their activations. The seconds in the layer loop.
  double run(Inference& inference, std::size_t batch, Trial& trial) const {
    double seconds = 0.0;
    trial.activation_hash = 0;
    for (std::size_t first = 0; first < samples_.num_samples(); first += batch) {
      std::size_t const last = std::min(first + batch, samples_.num_samples());
      BatchResult const result = inference.infer(samples_.part(first, last), {});
      seconds += result.loop_seconds.front();
      trial.activation_hash += result.activation_hash;
    }
    return seconds;
  }

  /// True once a run took far longer than the best so far.
  bool is_hopeless(std::vector<double> const& seconds) const {
    return seconds.size() == 1 && !trials_.empty() && seconds.front() > 3.0 * best().seconds;
  }

  /// Makes the fastest trial the best one, unless noise may explain what it is ahead.
  void settle() {
    auto const fastest = std::ranges::min_element(trials_, {}, &Trial::seconds);
    if (fastest->seconds < kClearly * best().seconds) best_ = static_cast<std::size_t>(fastest - trials_.begin());
  }

  /// Measures the plan's own choice and the best once more: something else may have run when their turn was.
  void confirm() {
    for (std::size_t const number : {std::size_t(0), best_}) {
      Trial again = trials_[number];
      measure(again);
      trials_[number].seconds = std::min(trials_[number].seconds, again.seconds);
    }
    if (!(best().seconds < kClearly * defaults().seconds)) best_ = 0;
  }

  static constexpr double kClearly = 0.98;

  NetworkSource const& network_;
  SampleBatch const& samples_;
  InferenceOptions options_;
  std::size_t repeat_;
  std::vector<Trial> trials_;
  std::size_t best_ = 0;
};

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

Json describe(Tuner const& tuner, NetworkSource const& network, SampleBatch const& samples,
              TuneOptions const& options) {
  Json best = {{"backend", options.backend}};
  best.update(as_json(tuner.best().alternative));
  Json trials = Json::array();
  for (auto const& trial : tuner.trials()) {
    Json one = {{"options", as_json(trial.alternative)}};
    if (trial.refusal.empty()) {
      one["loop_seconds"] = trial.seconds;
    } else {
      one["refusal"] = trial.refusal;
    }
    trials.push_back(one);
  }
  return {{"program", "varve tune"},
          {"version", provenance.version},
          {"git_commit", provenance.git_commit},
          {"host", host_name()},
          {"device", device_name(parse_backend(options.backend))},
          {"date", fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))},
          {"network",
           {{"name", network.name()},
            {"layers", network.num_layers()},
            {"inputs", network.layer(0).num_inputs()},
            {"outputs", network.layer(network.num_layers() - 1).num_outputs()}}},
          {"samples", samples.num_samples()},
          {"precision", options.precision},
          {"reductions", options.reductions},
          {"edge_order", options.edge_order},
          {"activation_hash", fmt::format("{:016x}", tuner.defaults().activation_hash)},
          {"default_loop_seconds", tuner.defaults().seconds},
          {"loop_seconds", tuner.best().seconds},
          {"options", best},
          {"trials", trials}};
}

int tune(TuneOptions const& options) {
  if (Communicator().size() > 1) throw UsageError("varve tune runs as one rank");
  InferenceOptions engine;
  engine.backend = parse_backend(options.backend);
  engine.precision = options.precision == "double" ? Precision::double_precision : Precision::single_precision;
  engine.reductions = parse_reductions(options.reductions);
  engine.edge_order = parse_edge_order(options.edge_order);
  auto const network = open_network(options.network);
  auto const range = options.samples ? std::optional(SampleRange{0, *options.samples}) : std::nullopt;
  SampleBatch const samples = open_samples(options.input, network->layer(0).num_inputs(), range);
  if (samples.num_samples() == 0) throw InputError(fmt::format("{} holds no samples to tune with", options.input));

  fmt::print("tuning    {} on {}: {}, {}; {} samples\n", printable(network->name()), options.backend,
             device_name(engine.backend), options.precision, samples.num_samples());
  Tuner tuner(*network, samples, engine, options.repeat);
  tuner.search();
  if (auto const* const other = tuner.contradiction()) {
    fmt::print(stderr, "varve: the activations with {} differ from the others', which no option may cause\n",
               as_text(other->alternative));
    return 1;
  }
  fmt::print("best      {}: {}, {:.2f} times as fast as what the plan chose\n", as_text(tuner.best().alternative),
             readable_seconds(tuner.best().seconds), tuner.defaults().seconds / tuner.best().seconds);
  if (!options.output.empty()) {
    OutputFile file(options.output);
    file.write(json_text(describe(tuner, *network, samples, options), 2) + "\n");
    file.commit();
  }
  return 0;
}

} // namespace

void add_tune(CLI::App& command_line, Action& action) {
  auto* const command = command_line.add_subcommand("tune", "Find the fastest options for a network on this machine");
  auto const options = std::make_shared<TuneOptions>();
  command->add_option("--network", options->network, "network file (.h5) or folder of nN-lK.tsv layer files")
      ->required();
  command->add_option("--input", options->input, "samples like those that will be run, and as many")->required();
  command->add_option("--samples", options->samples, "only the first so many")->check(above_zero());
  command->add_option("--backend", options->backend, "serial, openmp or cuda")->capture_default_str();
  command->add_option("--precision", options->precision, "of activations and weights")
      ->check(CLI::IsMember({"float", "double"}))
      ->capture_default_str();
  command->add_option("--reductions", options->reductions, "as for varve infer")->capture_default_str();
  command->add_option("--edge-order", options->edge_order, "as for varve infer")->capture_default_str();
  command->add_option("--repeat", options->repeat, "runs of the layer loop, of which the median counts")
      ->check(above_zero())
      ->capture_default_str();
  command->add_option("--output", options->output, "write what was found as JSON, for varve infer --options");
  command->callback([options, &action] { action = [options] { return tune(*options); }; });
}

} // namespace varve
