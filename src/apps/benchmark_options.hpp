#pragma once

#include "apps/cli_types.hpp"
#include "apps/computing_options.hpp"
#include "engine/inference.hpp"
#include "io/challenge.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// The options of `varve benchmark` as given by the user.
struct BenchmarkOptions {
  std::string network, input, suite;
  ChallengeOptions challenge;
  std::vector<std::size_t> samples; ///< each is measured by itself; empty: all samples of the case
  std::vector<std::string> backends = {to_string(compiled_backends().front())};
  std::vector<std::string> reductions; ///< each is measured by itself; empty: those of the case
  ComputingOptions computing;          ///< for all backends and reductions
  std::size_t repeats = 11;
  double seconds = 0.5;
  std::size_t check = 0; ///< samples; 0: as many as the reference computes in a few seconds
  std::string output;
};

/// Adds all options of `varve benchmark`.
void add_benchmark_options(CLI::App& command, BenchmarkOptions& options);

/// Throws UsageError unless the options name either a network and its input or a suite, every name is known, and the
/// suite takes every option.
void require_sound(BenchmarkOptions const& options);

/// The engine's options for one backend and choice of reductions, without memory limits.
InferenceOptions engine_options(BenchmarkOptions const& options, std::string const& backend,
                                std::string const& reductions);

/// All options by name, for records.
nlohmann::ordered_json as_json(BenchmarkOptions const& options);

} // namespace varve
