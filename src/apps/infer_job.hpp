#pragma once

#include "apps/infer_options.hpp"
#include "apps/report.hpp"
#include "core/stopwatch.hpp"
#include "distribute/batch_queue.hpp"
#include "distribute/communicator.hpp"
#include "distribute/record_store.hpp"
#include "engine/inference.hpp"
#include "io/sample_reader.hpp"
#include "network/network.hpp"
#include "receipts/digests.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace varve {

/// The state of a run on this rank, from the options to the outputs.
struct InferJob {
  InferOptions const& options;
  Communicator communicator = {};
  Json report = report_head("varve infer");

  InferenceOptions engine = {};
  std::size_t ranks_on_host = 1; ///< number of ranks on this host, including this one
  bool are_ranks_alike = false;  ///< all ranks have devices of one kind, and formats and kernel were asked for alike
  std::unique_ptr<NetworkSource> network = {};
  DigestedNetwork const* digested = nullptr; ///< the network, on the rank that writes its receipt
  std::unique_ptr<SampleReader> samples = {};
  std::optional<std::vector<SampleIndex>> truth = {}; ///< true categories, without the repetitions of --repeat-input

  RecordStore store = {};             ///< finished batches until the end of the run
  std::vector<SampleRange> left = {}; ///< samples still to be run, on all ranks together
  Json facts = {};                    ///< the network's numbers of layers, inputs, outputs and edges

  SampleIndex num_samples() const { return samples->num_samples(); }
  bool has_journal() const { return !options.journal.empty(); }
  bool splits_neurons() const { return engine.exchange != nullptr; }
};

/// Compares the options of all ranks, checks the names of all files, places ranks on devices and opens all files, so
/// that errors appear before the work begins.
void open_job(InferJob& job);

/// Opens the job's store and finds the samples that earlier runs have finished.
void find_finished(InferJob& job);

/// A prepared network, its plan, and the rules for its batches.
struct Prepared {
  BatchRules rules;
  std::unique_ptr<Inference> inference;
  Plan plan;
};

/// Prepares the network on all ranks: whole layers on each rank, or a part of each layer (--split neurons, or if whole
/// layers exceed the memory of a rank).
Prepared prepare_job(InferJob& job);

/// Collects the results of all ranks, writes all outputs and prints the result. Returns the exit code, on every rank.
int finish_job(InferJob& job, Stopwatch const& total_time);

/// Number of samples in these ranges.
SampleIndex length_of(std::vector<SampleRange> const& ranges);

} // namespace varve
