#include "apps/benchmark_options.hpp"

#include "apps/benchmark_cases.hpp"
#include "apps/command.hpp"
#include "apps/network_options.hpp"
#include "apps/usage.hpp"
#include "core/error.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace varve {
namespace {

using Json = nlohmann::ordered_json;

/// Throws UsageError if an option is given that the suites without inference would ignore.
void require_inference_for(BenchmarkOptions const& options) {
  for (auto const& [name, is_given] :
       {std::pair("--samples", !options.samples.empty()), std::pair("--reductions", !options.reductions.empty()),
        std::pair("--formats", options.computing.formats != "auto"),
        std::pair("--kernel", options.computing.kernel.has_value()),
        std::pair("--edge-order", options.computing.edge_order != "balanced"),
        std::pair("--batch", options.computing.batch.has_value()), std::pair("--check", options.check > 0)}) {
    if (is_given) throw UsageError(fmt::format("--suite {} takes no {}, which is for inference", options.suite, name));
  }
}

} // namespace

void add_benchmark_options(CLI::App& command, BenchmarkOptions& options) {
  command.add_option("--network", options.network, network_help);
  command.add_option("--input", options.input, input_help);
  add_network_options(command, options.challenge);
  command.add_option("--suite", options.suite, "networks and samples from fixed seeds, instead of files of your own")
      ->check(CLI::IsMember(suite_names()));
  command
      .add_option("--samples", options.samples, "N,N,...: measure the first N samples, each N by itself (default: all)")
      ->delimiter(',')
      ->check(above_zero());
  command.add_option("--backend", options.backends, "some of " + compiled_backend_names() + ", with commas between")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--reductions", options.reductions,
                     "see varve infer --help; several are measured beside each other (--reductions none auto)");
  add_computing_options(command, options.computing,
                        {"--precision", "--formats", "--kernel", "--edge-order", "--batch"});
  command.add_option("--repeats", options.repeats, "measurements of each, alternating with the others, at least")
      ->check(above_zero())
      ->capture_default_str();
  command
      .add_option("--seconds", options.seconds,
                  "measure each case for at least this many seconds, at most 1000 times: for percentiles of short runs")
      ->capture_default_str();
  command
      .add_option("--check", options.check,
                  "samples to compare with the reference's plain loops before anything is timed (default: as many "
                  "as they compute in a few seconds)")
      ->check(above_zero());
  command.add_option("--output", options.output, "write one JSON record a line, for perf/compare.py (.jsonl)");
  group_options(command, "Arithmetic", {"--reductions"});
}

void require_sound(BenchmarkOptions const& options) {
  bool const has_files = !options.network.empty() || !options.input.empty();
  if (has_files == !options.suite.empty())
    throw UsageError("varve benchmark takes either --suite, or --network and --input");
  if (has_files && (options.network.empty() || options.input.empty()))
    throw UsageError("varve benchmark takes --network and --input together");
  if (options.suite == "train" || options.suite == "products") require_inference_for(options);
  if (!std::isfinite(options.seconds) || options.seconds < 0.0)
    throw UsageError(fmt::format("--seconds is {}, expected a number from 0", options.seconds));
  for (auto const& backend : options.backends) static_cast<void>(parse_backend(backend));
  for (auto const& reductions : options.reductions) static_cast<void>(parse_reductions(reductions));
}

InferenceOptions engine_options(BenchmarkOptions const& options, std::string const& backend,
                                std::string const& reductions) {
  auto computing = options.computing;
  computing.backend = backend;
  computing.reductions = reductions;
  auto engine = engine_options(computing);
  engine.input_name = options.input.empty() ? options.suite : options.input;
  return engine;
}

nlohmann::ordered_json as_json(BenchmarkOptions const& options) {
  return {{"network", options.network},
          {"input", options.input},
          {"suite", options.suite},
          {"samples", options.samples},
          {"backend", options.backends},
          {"reductions", options.reductions},
          {"precision", options.computing.precision},
          {"formats", options.computing.formats},
          {"kernel", options.computing.kernel ? Json(*options.computing.kernel) : Json()},
          {"edge_order", options.computing.edge_order},
          {"batch", options.computing.batch ? Json(*options.computing.batch) : Json()},
          {"repeats", options.repeats},
          {"seconds", options.seconds},
          {"check", options.check}};
}

} // namespace varve
