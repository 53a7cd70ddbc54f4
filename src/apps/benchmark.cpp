#include "apps/benchmark_options.hpp"
#include "apps/benchmark_run.hpp"
#include "apps/command.hpp"
#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "core/version.hpp"
#include "engine/launch_times.hpp"
#include "io/input_files.hpp"
#include "io/output_file.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>

namespace varve {
namespace {

int benchmark(BenchmarkOptions const& options) {
  require_sound(options);
  if (has_kokkos_tool())
    throw UsageError("a tool of Kokkos is loaded (KOKKOS_TOOLS_LIBS or --kokkos-tools-libs), which changes times; "
                     "varve benchmark runs without");
  FileRoles files;
  files.reads("--network", options.network);
  files.reads("--input", options.input);
  files.writes("--output", options.output, Content::json);
  check_files(files);
  // created before anything is measured, so that a name that cannot be written costs no measurement
  auto const file = options.output.empty() ? nullptr : std::make_unique<OutputFile>(options.output);

  Stopwatch const time;
  fmt::print("varve     {}, commit {}, {}, {}\n", provenance.version, provenance.git_commit, provenance.compiler,
             provenance.build_type);
  BenchmarkRun run(options);
  measure_inference(options, run);
  if (options.suite == "train") measure_training(options, run);
  if (options.suite == "products") measure_products(options, run);
  require_unchanged_inputs();
  for (auto const& line : run.lines())
    if (file) file->write(line + "\n");
  if (file) file->commit();
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
