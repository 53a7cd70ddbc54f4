#include "apps/command.hpp"
#include "apps/infer_job.hpp"
#include "apps/infer_options.hpp"
#include "apps/infer_report.hpp"
#include "apps/options_file.hpp"
#include "apps/standard_streams.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/stopwatch.hpp"
#include "distribute/batch_queue.hpp"
#include "distribute/run_batches.hpp"
#include "distribute/stop_signal.hpp"
#include "io/sample_reader.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// True if a stop signal has come to this rank, or, with Schedule::together, to any rank.
bool has_to_stop(InferJob const& job) {
  double const has_come = StopSignal::has_come() ? 1.0 : 0.0;
  return (job.splits_neurons() ? job.communicator.max(has_come) : has_come) > 0.0;
}

Json facts_of(Inference const& inference) {
  return {{"layers", inference.num_layers()},
          {"inputs", inference.num_inputs()},
          {"outputs", inference.num_outputs()},
          {"edges", inference.num_edges()}};
}

/// Adds the network to the report and prints what will be run. Throws if standard output cannot be written, so that
/// nothing is run then.
void say_start(InferJob& job) {
  job.report["network"] = {{"name", job.network->name()}};
  job.report["network"].update(job.facts);
  job.communicator.together([&] {
    if (!job.communicator.is_root()) return;
    print_start(job.report);
    flush_output();
  });
}

/// Begins to read the samples, if they are all this rank's and so few that they will make one batch: preparing the
/// network leaves threads idle. Not with a journal, which keeps the batches before samples that cannot be read.
void read_samples_ahead(InferJob& job) {
  auto const& options = job.options;
  auto const num_samples = job.num_samples();
  bool const is_one_batch = job.communicator.size() == 1 && options.journal.empty() && !options.batch &&
                            num_samples <= most_samples_at_a_time(job.engine.backend) &&
                            samples_that_fit(*job.samples, input_bytes(options, job.ranks_on_host)) == num_samples;
  if (is_one_batch) job.samples = read_ahead(std::move(job.samples), sample_memory_for(job.engine));
}

/// Prepares the network and runs the samples that are left.
void run_left(InferJob& job) {
  auto const& communicator = job.communicator;
  read_samples_ahead(job);
  Stopwatch const prepare_time;
  Prepared const prepared = prepare_job(job);
  communicator.together([&] {
    job.facts = facts_of(*prepared.inference);
    if (job.has_journal()) job.store.begin(job.facts);
  });
  job.report["phases"]["prepare"] = communicator.max(prepare_time.seconds());
  job.report.update({{"engine", prepared.plan.engine}, {"plan", to_json(prepared.plan)}});
  add_rewrites(job.report, prepared.plan);
  say_start(job);

  auto const num_found = job.num_samples() - length_of(job.left);
  auto const progress = communicator.is_root() ? terminal_progress("inferring samples") : Progress();
  BatchQueue queue(communicator, job.left, prepared.rules);
  bool const keeps_batches = !job.splits_neurons() || communicator.is_root(); // else all ranks have the same
  auto const keep = [&](FinishedBatch const& batch) {
    if (keeps_batches) job.store.add(batch.samples, to_bytes(batch));
  };
  auto const wanted = keeps_batches ? job.options.wanted() : WantedOfBatch{};
  RankTimes times;
  Stopwatch const run_time;
  communicator.together([&] {
    times = run_batches(*prepared.inference, *job.samples, queue, keep, prepared.plan.batch, wanted, [&] {
      if (progress) progress(num_found + queue.num_taken(), job.num_samples());
      return !job.has_journal() || !has_to_stop(job);
    });
  });
  if (progress) progress(job.num_samples(), job.num_samples());
  auto const& later = prepared.inference->plan();
  if (to_text(later) != to_text(prepared.plan)) job.report["later_plan"] = to_json(later);
  add_run(job.report, prepared.rules.schedule, run_time.seconds(), gather(communicator, times));
}

int say_stopped(InferJob const& job, SampleIndex num_finished) {
  if (job.communicator.is_root()) {
    say(fmt::format("varve: a signal stopped the run after {} of {} samples; the same command continues from {}",
                    num_finished, job.num_samples(), printable(job.options.journal)));
  }
  return stopped_by_signal;
}

int infer(InferOptions const& options) {
  Stopwatch const total_time;
  std::optional<StopSignal> stop_signal;
  if (!options.journal.empty()) stop_signal.emplace();

  InferJob job{.options = options};
  open_job(job);
  find_finished(job);
  job.report["phases"]["read"] = total_time.seconds();

  bool const is_all_known = job.left.empty() && !job.facts.is_null();
  if (is_all_known) {
    say_start(job);
  } else {
    run_left(job);
  }
  auto const num_finished = job.communicator.sum(std::uint64_t{length_of(job.store.ranges())});
  if (num_finished == job.num_samples()) return finish_job(job, total_time);
  VARVE_REQUIRE(job.has_journal(), "a run without a journal ends before its last sample");
  return say_stopped(job, num_finished);
}

} // namespace

void add_infer(CLI::App& command_line, Action& action) {
  auto* const command = command_line.add_subcommand("infer", "Run samples through a network and say which survive");
  auto const options = std::make_shared<InferOptions>();
  add_infer_options(*command, *options);
  std::vector<std::string> outputs;
  for (auto const& output : infer_outputs) outputs.emplace_back(output.option);
  add_options_file(*command, options->options_file, outputs);
  command->callback([options, &action] { action = {[options] { return infer(*options); }, true, true}; });
}

} // namespace varve
