#include "apps/benchmark_cases.hpp"
#include "apps/benchmark_options.hpp"
#include "apps/benchmark_products.hpp"
#include "apps/benchmark_run.hpp"
#include "apps/benchmark_training.hpp"
#include "apps/command.hpp"
#include "apps/network_options.hpp"
#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "core/version.hpp"
#include "engine/launch_times.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace varve {
namespace {

/// The network and the samples of the user's files.
BenchmarkCase case_of_files(BenchmarkOptions const& options) {
  std::shared_ptr<NetworkSource const> const network = open_network(options.network, options.challenge);
  return {std::filesystem::path(options.network).filename().string(),
          "files of the user",
          [network] { return network; },
          [network, path = options.input] { return open_samples(path, network->layer(0).num_inputs()); },
          {},
          {"auto"}};
}

/// The file of an output, or null if it was not asked for. Created before anything is measured, so that a name that
/// cannot be written costs no measurement.
std::unique_ptr<OutputFile> create(std::string const& path) {
  return path.empty() ? nullptr : std::make_unique<OutputFile>(path);
}

void write(OutputFile* file, std::vector<std::string> const& lines) {
  if (file == nullptr) return;
  for (auto const& line : lines) file->write(line + "\n");
  file->commit();
}

int benchmark(BenchmarkOptions const& options) {
  require_sound(options);
  if (has_kokkos_tool())
    throw UsageError("a tool of Kokkos is loaded (KOKKOS_TOOLS_LIBS or --kokkos-tools-libs), which changes times; "
                     "varve benchmark runs without");
  FileRoles files;
  files.reads("--network", options.network);
  files.reads("--input", options.input);
  files.writes("--output", options.output, Content::json);
  files.writes("--trace", options.trace, Content::json);
  check_files(files);
  auto const records_file = create(options.output);
  auto const trace_file = create(options.trace);

  Stopwatch const time;
  fmt::print("varve     {}, commit {}, {}, {}\n", provenance.version, provenance.git_commit, provenance.compiler,
             provenance.build_type);
  auto const cases = options.suite.empty() ? std::vector{case_of_files(options)} : cases_of(options.suite);
  BenchmarkRun run(options);
  if (!cases.empty()) print_columns();
  for (auto const& one : cases) run.measure(one);
  if (options.suite == "train") measure_training(options, run);
  if (options.suite == "products") measure_products(options, run);
  require_unchanged_inputs();
  write(records_file.get(), run.lines());
  if (trace_file) {
    nlohmann::ordered_json const trace = {{"traceEvents", run.trace_events()}, {"displayTimeUnit", "ms"}};
    write(trace_file.get(), {json_text(trace)});
  }
  fmt::print("{} records in {}\n", run.lines().size(), readable_seconds(time.seconds()));
  return run.is_all_right() ? 0 : 1;
}

} // namespace

void add_benchmark(CLI::App& command_line, Action& action) {
  auto* const command = command_line.add_subcommand(
      "benchmark", "Measure this machine: checked answers, times, rates, shares of what the device can do");
  auto const options = std::make_shared<BenchmarkOptions>();
  add_benchmark_options(*command, *options);
  command->callback([options, &action] { action.run = [options] { return benchmark(*options); }; });
}

} // namespace varve
