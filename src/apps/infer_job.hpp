#pragma once

#include "apps/infer_options.hpp"
#include "apps/infer_report.hpp"
#include "distribute/communicator.hpp"
#include "distribute/record_store.hpp"
#include "engine/inference.hpp"
#include "io/sample_reader.hpp"
#include "network/network.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace varve {

/// The state of a run on this rank, from the options to the outputs.
struct InferJob {
  InferOptions const& options;
  Communicator communicator = {};
  InferReport report = {};

  InferenceOptions engine = {};
  std::size_t ranks_on_host = 1; ///< number of ranks on this host, including this one
  bool are_ranks_alike = false;  ///< all ranks have devices of one kind, and formats and kernel were asked for alike
  std::unique_ptr<NetworkSource> network = {};
  std::unique_ptr<SampleReader> samples = {};
  std::optional<std::vector<SampleIndex>> truth = {}; ///< true categories, without the repetitions of --repeat-input

  RecordStore store = {};             ///< finished batches until the end of the run
  std::vector<SampleRange> left = {}; ///< samples still to be run, on all ranks together
  nlohmann::ordered_json facts = {};  ///< the network's numbers of layers, inputs, outputs and edges

  SampleIndex num_samples() const { return samples->num_samples(); }
  bool has_journal() const { return !options.journal.empty(); }
  bool splits_neurons() const { return engine.exchange != nullptr; }
};

/// Compares the options of all ranks, checks the names of all files, places ranks on devices and opens all files, so
/// that errors appear before the work begins.
void open_job(InferJob& job);

/// Opens the job's store and finds the samples that earlier runs have finished.
void find_finished(InferJob& job);

/// Number of samples in these ranges.
SampleIndex length_of(std::vector<SampleRange> const& ranges);

} // namespace varve
