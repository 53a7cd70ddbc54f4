#include "apps/infer_job.hpp"
#include "apps/infer_report.hpp"
#include "core/error.hpp"
#include "distribute/run_batches.hpp"
#include "io/categories.hpp"
#include "io/input_files.hpp"
#include "io/sample_file.hpp"
#include "receipts/inference_receipt.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// The results of a run: on rank 0, those of all samples, in order.
struct Outcome {
  std::vector<SampleIndex> live_samples;
  std::vector<NeuronIndex> predictions;
  std::vector<SampleLeaves> leaves;
  std::uint64_t activation_hash = 0;
  double live_edges = 0.0;
};

/// The true categories of all repetitions. Called at the end, when the samples are known to be few enough to repeat.
std::vector<SampleIndex> repeat_truth(InferJob const& job) {
  auto const repetitions = job.options.repeat_input;
  auto const num_samples = job.num_samples() / repetitions;
  std::vector<SampleIndex> all;
  for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
    for (auto const sample : *job.truth) all.push_back(sample + repetition * num_samples);
  }
  return all;
}

/// Throws InputError, naming the journal, if a batch of it lacks wanted predictions, activations or digests, or has
/// those of other samples or outputs.
void require_fit(FinishedBatch const& batch, WantedOfBatch wanted, SampleIndex first_sample, std::size_t num_outputs,
                 std::string const& journal) {
  auto const num_samples = batch.samples.second - batch.samples.first;
  auto const& activations = batch.activations;
  bool const has_predictions = !wanted.predictions || batch.predictions.size() == num_samples;
  bool const has_activations =
      !wanted.activations || (activations.num_samples() == num_samples && activations.num_neurons() == num_outputs &&
                              activations.first_sample == first_sample + batch.samples.first);
  bool const has_leaves = !wanted.leaves || batch.leaves.size() == num_samples;
  if (has_predictions && has_activations && has_leaves) return;
  throw InputError(fmt::format("{}: the batch of the samples {} to {} has other {} than this run needs", journal,
                               batch.samples.first + 1, batch.samples.second,
                               !has_predictions   ? "predictions"
                               : !has_activations ? "activations"
                                                  : "digests"));
}

/// Collects the batches of all ranks on rank 0, in order, and writes activations to their file as they come.
Outcome collect(InferJob const& job) {
  Outcome outcome;
  job.communicator.together([&] {
    auto const num_outputs = job.facts["outputs"].get<std::size_t>();
    std::optional<SampleFileWriter> writer;
    if (job.communicator.is_root() && !job.options.activations.empty()) {
      SampleSet none; // appended first, so that a run without samples writes a valid file, too
      none.first_sample = job.samples->first_sample();
      none.matrix.num_columns = num_outputs;
      writer.emplace(job.options.activations, none.num_neurons());
      writer->append(none);
    }
    for_each_in_order(job.communicator, job.store, [&](std::string const& record) {
      auto const batch = batch_of_bytes(record, "finished batches");
      require_fit(batch, job.options.wanted(), job.samples->first_sample(), num_outputs, job.options.journal);
      outcome.live_samples.insert(outcome.live_samples.end(), batch.live_samples.begin(), batch.live_samples.end());
      outcome.predictions.insert(outcome.predictions.end(), batch.predictions.begin(), batch.predictions.end());
      outcome.leaves.insert(outcome.leaves.end(), batch.leaves.begin(), batch.leaves.end());
      outcome.activation_hash += batch.activation_hash;
      outcome.live_edges += batch.live_edges;
      if (writer) writer->append(batch.activations);
    });
    if (writer) writer->commit();
  });
  return outcome;
}

void write_lists(InferOptions const& options, Outcome const& outcome, SampleIndex first_sample) {
  if (!options.categories.empty()) write_categories(options.categories, outcome.live_samples, options.first_number());
  if (options.predictions.empty()) return;
  std::vector<SampleIndex> numbers(outcome.predictions.size());
  std::iota(numbers.begin(), numbers.end(), first_sample);
  write_predictions(options.predictions, numbers, outcome.predictions, options.first_number());
}

void write_receipt(InferJob const& job, std::vector<SampleLeaves> leaves) {
  if (job.options.receipt.empty()) return;
  InferenceReceipt receipt;
  receipt.network = job.digested->digest();
  receipt.precision = job.options.precision;
  receipt.edge_order = job.options.named.edge_order;
  bool const reduces = job.engine.engine == Engine::varve;
  auto const reductions = reduces ? job.engine.reductions : Reductions();
  if (reductions.merge_neurons) receipt.reductions.emplace_back("merge_neurons");
  if (reductions.fold_constants) receipt.reductions.emplace_back("fold_constants");
  if (reductions.drop_unread) receipt.reductions.emplace_back("drop_unread");
  receipt.first_sample = job.samples->first_sample();
  receipt.leaves = std::move(leaves);
  receipt.made_by = report_head("varve infer");
  receipt.made_by["backend"] = job.options.backend;
  receipt.made_by["ranks"] = job.communicator.size();
  receipt.seal();
  varve::write_receipt(job.options.receipt, receipt);
}

} // namespace

int finish_job(InferJob& job, Stopwatch const& total_time) {
  Stopwatch const write_time;
  job.communicator.together(require_unchanged_inputs);
  auto outcome = collect(job);
  int exit_code = 0;
  job.communicator.together([&] {
    if (!job.communicator.is_root()) return;
    write_lists(job.options, outcome, job.samples->first_sample());
    write_receipt(job, std::move(outcome.leaves));
    job.report["phases"]["write"] = write_time.seconds();
    job.report.update({{"survivors", outcome.live_samples.size()},
                       {"activation_hash", fmt::format("{:016x}", outcome.activation_hash)},
                       {"live_edges", outcome.live_edges}});
    bool const matches = !job.truth || add_comparison(job.report, repeat_truth(job), outcome.live_samples);
    exit_code = matches ? 0 : 1;
    job.report["phases"]["total"] = total_time.seconds();
    if (!job.options.report.empty()) write_report(job.options.report, job.report);
    print_result(job.report); // last: a failure to print loses no output
  });
  return static_cast<int>(job.communicator.sum(static_cast<std::uint64_t>(exit_code)));
}

} // namespace varve
