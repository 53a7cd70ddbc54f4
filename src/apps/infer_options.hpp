#pragma once

#include "engine/inference.hpp"
#include "io/challenge.hpp"
#include "io/file_roles.hpp"
#include "io/sample_range.hpp"
#include "io/sample_reader.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// The options of `varve infer`, as they were given.
struct InferOptions {
  std::string network, input;
  ChallengeOptions challenge;
  std::string samples;
  std::size_t repeat_input = 1;
  std::string truth, categories, activations, predictions, report;
  std::string journal;
  std::string options_file;
  std::optional<std::string> schedule;
  std::string split = "auto";    ///< "auto", "samples" or "neurons"
  std::string exchange = "auto"; ///< "auto" or "host"
  std::string backend = to_string(compiled_backends().front());
  std::string precision = "float";
  std::string engine = "varve";
  std::optional<std::size_t> batch;
  std::string formats = "auto";
  std::string reductions = "auto";
  std::string edge_order = "auto";
  std::optional<std::string> kernel;
  bool share_devices = false;
  std::optional<double> memory_limit, device_memory_limit, device_weight_limit, input_memory; ///< GiB
  std::size_t repeat = 1;

  WantedOutputs wanted() const { return {!activations.empty(), !predictions.empty()}; }
};

void add_infer_options(CLI::App& command, InferOptions& options);

/// What the engine is told. Throws UsageError about names that it does not know.
InferenceOptions engine_options(InferOptions const& options);

/// The samples of --samples, by their numbers within the whole input, from 0. Throws UsageError.
OptionalSampleRange wanted_samples(InferOptions const& options);

/// Bytes of host memory for samples that are read: --input-memory, or this rank's part of an eighth of what is
/// available.
std::size_t input_bytes(InferOptions const& options, std::size_t ranks_on_host);

/// Where no limit was given: this rank's part of three quarters of what the host has available, or, beside a device, of
/// half of it.
void limit_memory(InferenceOptions& engine, std::size_t ranks_on_host);

/// All files that are read and written, by the options that name them.
FileRoles file_roles(InferOptions const& options);

/// More samples at a time make nothing faster, and reading overlap less.
SampleIndex most_samples_at_a_time(Backend backend);

/// The outputs that were asked for.
std::vector<std::string> output_paths(InferOptions const& options);

/// Options that must be the same on all ranks of a job, by name. The others (backend, memory, formats, kernel)
/// change no output and may differ, for jobs on unlike machines.
nlohmann::ordered_json common_options(InferOptions const& options);

/// All that outputs and batches depend on, for the journal: contents of the files, what is computed, and how it is cut.
/// Throws InputError if a file cannot be read.
nlohmann::ordered_json describe_run(InferOptions const& options, SampleReader const& samples);

} // namespace varve
