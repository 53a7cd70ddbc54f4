#include "apps/command.hpp"
#include "apps/infer_options.hpp"
#include "apps/report_head.hpp"
#include "apps/standard_streams.hpp"
#include "apps/tuner.hpp"
#include "apps/tuning_target.hpp"
#include "core/backend.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/runtime.hpp"
#include "engine/inference.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "plan/memory.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>

namespace varve {
namespace {

using Json = nlohmann::ordered_json;

struct TuneOptions {
  std::string network, input, output;
  std::optional<std::size_t> samples;
  std::string backend = to_string(compiled_backends().front());
  std::string precision = "float";
  std::string reductions = "auto";
  std::string edge_order = "balanced";
  std::size_t repeat = 7;
};

/// The measurements of an alternative as JSON.
Json describe(Trial const& trial) {
  Json one = {{"options", as_json(trial.alternative)}};
  if (trial.refusal.empty()) {
    one["loop_seconds"] = trial.loop.median;
    one["spread"] = trial.loop.spread;
  } else {
    one["refusal"] = trial.refusal;
  }
  return one;
}

Json describe(WholeRun const& run) {
  return {{"loop_seconds", run.loop.median},
          {"loop_spread", run.loop.spread},
          {"run_seconds", run.all.median},
          {"run_spread", run.all.spread}};
}

Json describe(Tuner const& tuner, TuningInput const& input, TuneOptions const& options) {
  auto const& network = input.network;
  auto const& won = tuner.confirmation();
  Json best = {{"backend", options.backend}};
  best.update(as_json(tuner.best()));
  Json trials = Json::array();
  for (auto const& trial : tuner.trials()) trials.push_back(describe(trial));
  Json json = report_head("varve tune");
  json.update(
      {{"target", describe_tuning_target(options.network, {}, input.options)},
       {"network",
        {{"name", network.name()},
         {"layers", network.num_layers()},
         {"inputs", network.layer(0).num_inputs()},
         {"outputs", network.layer(network.num_layers() - 1).num_outputs()}}},
       {"samples", input.samples.num_samples()},
       {"reductions", options.reductions},
       {"edge_order", options.edge_order},
       {"repeat", options.repeat},
       {"activation_hash", fmt::format("{:016x}", tuner.defaults().activation_hash)},
       {"default_loop_seconds", won ? won->defaults.loop.median : tuner.defaults().loop.median},
       {"loop_seconds", won ? won->best.loop.median : tuner.defaults().loop.median},
       {"whole_runs", won ? Json{{"defaults", describe(won->defaults)}, {"best", describe(won->best)}} : Json()},
       {"options", best},
       {"trials", trials}});
  return json;
}

void print_attempt(Trial const& trial) {
  if (trial.refusal.empty()) {
    fmt::print("{:10.3f} ms, spread {:4.1f} %  {}\n", 1e3 * trial.loop.median, 100.0 * trial.loop.spread,
               as_text(trial.alternative));
  } else {
    fmt::print("         -                   {}: {}\n", as_text(trial.alternative), trial.refusal);
  }
}

void print_best(Tuner const& tuner, TuneOptions const& options) {
  auto const& won = tuner.confirmation();
  if (options.repeat < least_repeats) {
    fmt::print("best      {}: of fewer than {} measurements (--repeat) nothing can be said\n", as_text(tuner.best()),
               least_repeats);
  } else if (!won) {
    fmt::print("best      {}: nothing is faster by more than the spread of the measurements\n", as_text(tuner.best()));
  } else {
    fmt::print("best      {}: layer loop {}, {:.2f} times as fast as what the plan chose; whole run {}, {:.2f} times\n",
               as_text(tuner.best()), readable_seconds(won->best.loop.median),
               won->defaults.loop.median / won->best.loop.median, readable_seconds(won->best.all.median),
               won->defaults.all.median / won->best.all.median);
  }
}

int tune(TuneOptions const& options) {
  FileRoles files;
  files.reads("--network", options.network);
  files.reads("--input", options.input);
  files.writes("--output", options.output, Content::json);
  check_files(files);
  if (!options.output.empty()) require_writable(options.output);
  InferenceOptions engine;
  engine.backend = parse_backend(options.backend);
  engine.precision = options.precision == "double" ? Precision::double_precision : Precision::single_precision;
  engine.reductions = parse_reductions(options.reductions);
  engine.edge_order = parse_edge_order(options.edge_order);
  auto const network = open_network(options.network);
  auto const range = options.samples ? std::optional(first_samples(options.input, *options.samples)) : std::nullopt;
  SampleBatch const samples = open_samples(options.input, network->layer(0).num_inputs(), range);
  if (samples.num_samples() == 0) throw InputError(fmt::format("{} holds no samples to tune with", options.input));
  limit_memory(engine, 1);
  engine.device_memory_limit = memory_limits(engine, engine.backend).device;

  fmt::print("tuning    {} on {}: {}, {}; {} samples\n", printable(network->name()), options.backend,
             device_name(engine.backend), options.precision, samples.num_samples());
  TuningInput const input{*network, samples, engine, options.repeat};
  Tuner tuner(input, print_attempt);
  tuner.search();
  require_unchanged_inputs();
  if (auto const* const other = tuner.contradiction()) {
    say(fmt::format("varve: the activations with {} differ from the others', which no option may cause",
                    as_text(other->alternative)));
    return 1;
  }
  print_best(tuner, options);
  if (!options.output.empty()) {
    OutputFile file(options.output);
    file.write(json_text(describe(tuner, input, options), 2) + "\n");
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
  command->add_option("--backend", options->backend, compiled_backend_names())->capture_default_str();
  command->add_option("--precision", options->precision, "precision of activations and weights")
      ->check(CLI::IsMember({"float", "double"}))
      ->capture_default_str();
  command->add_option("--reductions", options->reductions, "see varve infer --help")->capture_default_str();
  command->add_option("--edge-order", options->edge_order, "see varve infer --help")->capture_default_str();
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
