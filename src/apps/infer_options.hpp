#pragma once

#include "apps/options.hpp"
#include "distribute/run_batches.hpp"
#include "engine/inference.hpp"
#include "io/challenge.hpp"
#include "io/sample_reader.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace varve {

/// The options of `varve infer` as given by the user.
struct InferOptions : ComputingOptions {
  std::string network, input;
  ChallengeOptions challenge;
  std::string samples;
  std::size_t repeat_input = 1;
  std::string truth, categories, activations, predictions, report, receipt;
  std::string journal;
  std::string schedule;          ///< empty: by the number of ranks
  std::string split = "auto";    ///< "auto", "samples" or "neurons"
  std::string exchange = "auto"; ///< "auto" or "host"
  std::string share_devices = "off";
  MemoryRequest memory;
  std::optional<std::size_t> input_memory; ///< in bytes, for samples being read
  std::size_t repeat = 1;
  CommandFiles files; ///< that the options above name

  WantedOutputs wanted() const { return {!activations.empty(), !predictions.empty(), !receipt.empty()}; }
};

/// Adds all options of `varve infer`.
void add_infer_options(CLI::App& command, InferOptions& options);

/// Adds the options of the engine for commands that run a network on one rank: backend, precision, arithmetic, memory.
void add_run_options(CLI::App& command, InferOptions& options);

/// Converts the options to those of the engine. Throws UsageError about an unknown name.
InferenceOptions engine_options(InferOptions const& options);

/// The samples selected by --samples, by their numbers within the whole input, from 0; nullopt for all samples. Throws
/// UsageError if the range is malformed.
OptionalSampleRange parse_samples(std::string const& text);

/// Host memory, in bytes, for the samples being read: --memory input, or this rank's share of an eighth of the
/// available memory.
std::size_t input_bytes(InferOptions const& options, std::size_t ranks_on_host);

/// Sets memory limits that the user did not give: this rank's share of three quarters of the available host memory, or
/// of half of it if the backend has a device with its own memory.
void limit_memory(InferenceOptions& engine, std::size_t ranks_on_host);

/// The most samples a rank should take at a time; larger batches would not be faster and would overlap less with
/// reading.
SampleIndex max_samples_at_a_time(Backend backend);

/// Everything that outputs and batches depend on, for the journal: contents of the files, what is computed, and the
/// division into batches. Throws InputError if a file cannot be read.
Json describe_run(InferOptions const& options, SampleReader const& samples);

} // namespace varve
