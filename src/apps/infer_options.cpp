#include "apps/infer_options.hpp"

#include "apps/command.hpp"
#include "apps/network_options.hpp"
#include "apps/tuning.hpp"
#include "apps/usage.hpp"
#include "core/backend.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "distribute/batch_queue.hpp"
#include "io/checksum.hpp"
#include "io/open.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>

namespace varve {
namespace {

constexpr double bytes_per_gibibyte = 1024.0 * 1024.0 * 1024.0;

std::size_t bytes_of(double gibibytes) { return capped_integer(gibibytes * bytes_per_gibibyte); }

template <class Value>
nlohmann::ordered_json or_null(std::optional<Value> const& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

std::string hexadecimal(std::uint64_t number) { return fmt::format("{:016x}", number); }

void add_files(CLI::App& command, InferOptions& options) {
  command.add_option("--network", options.network, network_help)->required();
  command.add_option("--input", options.input, input_help)->required();
  add_network_options(command, options.challenge);
  command.add_option(
      "--samples", options.samples,
      "run only the samples FIRST:LAST, both included; numbers begin at 1, or at the first number that a sample "
      "file states");
  command
      .add_option("--repeat-input", options.repeat_input,
                  "repeat the input N times, numbering continues; the samples are in memory once")
      ->check(above_zero())
      ->capture_default_str();
  command.add_option("--truth", options.truth, "true categories to compare with (exit code 1 if they differ)");
  command.add_option("--categories", options.categories, "write the numbers of the surviving samples, from 1");
  command.add_flag("--zero-based", options.zero_based,
                   "samples and neurons in --categories, --predictions and --truth count from 0 (default: from 1)");
  command.add_option("--activations", options.activations,
                     "write the last activations as a sparse sample file (.safetensors)");
  command.add_option("--predictions", options.predictions,
                     "write for each sample the neuron with the largest activation, both numbered from 1");
  command.add_option("--report", options.report, "write everything measured and decided as JSON");
  command.add_option("--receipt", options.receipt,
                     "write digests of the network, of all samples and of their last activations, with which varve "
                     "audit checks the run by computing some samples again");
  command.add_option("--journal", options.journal,
                     "keep finished batches in FILE (other ranks: FILE.1, FILE.2, ...): the same command continues a "
                     "run that was killed, or stopped by SIGTERM or SIGUSR1 (exit code 5)");
}

void add_memory_limits(CLI::App& command, InferOptions& options) {
  command
      .add_option("--device-memory-limit", options.device_memory_limit,
                  "device memory (GiB) for weights and samples; weights that do not fit are streamed to the device "
                  "(default: nine tenths of what is free)")
      ->check(above_zero());
  command
      .add_option("--device-weight-limit", options.device_weight_limit,
                  "part (GiB) of the device memory for weights (default: what a batch leaves; for streamed weights a "
                  "part of that)")
      ->check(above_zero());
  command
      .add_option("--memory-limit", options.memory_limit,
                  "host memory (GiB) for encoded weights waiting to be streamed; the rest are read again each pass. On "
                  "CPU backends: the limit for everything")
      ->check(above_zero());
  command
      .add_option("--input-memory", options.input_memory,
                  "host memory (GiB) for samples being read (default: an eighth of what is available)")
      ->check(above_zero());
  group_options(command, "Memory",
                {"--device-memory-limit", "--device-weight-limit", "--memory-limit", "--input-memory"});
}

void add_ranks(CLI::App& command, InferOptions& options) {
  command.add_option("--schedule", options.schedule,
                     "how ranks share the samples: dynamic (default: each takes its next batch when it is ready) or "
                     "static (equal parts)");
  command
      .add_option("--split", options.split,
                  "what ranks divide among them: samples; neurons (each rank holds a part of every layer, and ranks "
                  "exchange activations: for networks too large for one device); or auto (neurons if whole layers do "
                  "not fit a rank)")
      ->check(CLI::IsMember({"auto", "samples", "neurons"}))
      ->capture_default_str();
  command.add_flag("--share-devices", options.share_devices, "several ranks may use one device");
  command.add_option("--repeat", options.repeat, "run the layer loop K times and report the median")
      ->check(above_zero())
      ->capture_default_str();
  group_options(command, "Several ranks", {"--schedule", "--split", "--share-devices"});
}

void add_choices(CLI::App& command, InferOptions& options) {
  command.add_option("--engine", options.engine, "varve; for comparison: kokkos-kernels, reference")
      ->capture_default_str();
  add_computing_options(command, options, {"--formats", "--kernel"});
  add_tuning(command,
             {{"exchange",
               {"auto", "host"},
               "way of activations between ranks with --split neurons: from device to device if the MPI library "
               "supports it, or through host memory",
               [&options](std::string const& value) { options.exchange = value; }}});
  group_options(command, "Proof", {"--receipt"});
  group_options(command, "For studies", {"--engine", "--repeat", "--repeat-input", "--zero-based"});
}

} // namespace

void add_infer_options(CLI::App& command, InferOptions& options) {
  add_files(command, options);
  add_run_options(command, options);
  add_ranks(command, options);
  add_choices(command, options);
}

void add_run_options(CLI::App& command, InferOptions& options) {
  add_computing_options(command, options, {"--backend", "--precision", "--batch", "--reductions", "--edge-order"});
  add_memory_limits(command, options);
}

InferenceOptions engine_options(InferOptions const& options) {
  auto const& computing = static_cast<ComputingOptions const&>(options);
  auto engine = engine_options(computing);
  engine.engine = parse_engine(options.engine);
  engine.input_name = options.input;
  engine.repeat = options.repeat;
  if (options.schedule) static_cast<void>(parse_schedule(*options.schedule)); // throws if it is not a schedule
  if (!options.receipt.empty() && engine.engine == Engine::kokkos_kernels)
    throw UsageError("--receipt cannot go with --engine kokkos-kernels, whose sums have other bits");
  if (!options.receipt.empty() && options.repeat_input > 1)
    throw UsageError("--receipt cannot go with --repeat-input: it is of the samples that a file holds");
  if (options.schedule && options.split == "neurons")
    throw UsageError("--schedule says how ranks share samples; it cannot go with --split neurons");
  auto const limit = [](std::optional<std::size_t>& bytes, std::optional<double> const& gibibytes) {
    if (gibibytes) bytes = bytes_of(*gibibytes);
  };
  limit(engine.memory_limit, options.memory_limit);
  limit(engine.device_memory_limit, options.device_memory_limit);
  limit(engine.device_weight_limit, options.device_weight_limit);
  return engine;
}

OptionalSampleRange parse_samples(std::string const& text) {
  if (text.empty()) return std::nullopt;
  SampleIndex first = 0;
  SampleIndex last = 0;
  char const* const end = text.data() + text.size();
  auto const one = std::from_chars(text.data(), end, first);
  bool const has_colon = one.ec == std::errc() && one.ptr != end && *one.ptr == ':';
  auto const two = has_colon ? std::from_chars(one.ptr + 1, end, last) : one;
  if (!has_colon || two.ec != std::errc() || two.ptr != end || first < 1 || last < first) {
    throw UsageError(fmt::format("--samples is '{}', expected FIRST:LAST with 1 <= FIRST <= LAST", text));
  }
  return SampleRange{first - 1, last};
}

std::size_t input_bytes(InferOptions const& options, std::size_t ranks_on_host) {
  if (options.input_memory) return bytes_of(*options.input_memory);
  return available_memory(Backend::serial) / 8 / ranks_on_host;
}

void limit_memory(InferenceOptions& engine, std::size_t ranks_on_host) {
  if (engine.memory_limit) return;
  std::size_t const quarters = has_own_memory(engine.backend) ? 2 : 3;
  engine.memory_limit = available_memory(Backend::serial) / 4 * quarters / ranks_on_host;
}

FileRoles file_roles(InferOptions const& options) {
  FileRoles files;
  files.reads("--network", options.network);
  files.reads("--input", options.input);
  files.reads("--truth", options.truth);
  files.reads("--options", options.options_file);
  for (auto const& output : infer_outputs) files.writes(output.option, options.*output.path, output.content);
  return files;
}

SampleIndex most_samples_at_a_time(Backend backend) {
  return has_own_memory(backend) ? SampleIndex{1} << 18U : SampleIndex{1} << 16U;
}

SampleIndex least_samples_at_a_time(Backend backend) {
  return has_own_memory(backend) ? SampleIndex{1} << 17U : SampleIndex{0};
}

std::vector<std::string> output_paths(InferOptions const& options) {
  std::vector<std::string> paths;
  for (auto const& output : infer_outputs)
    if (output.content != Content::journal && !(options.*output.path).empty()) paths.push_back(options.*output.path);
  return paths;
}

nlohmann::ordered_json describe_run(InferOptions const& options, SampleReader const& samples) {
  auto const reductions = parse_reductions(options.reductions);
  nlohmann::ordered_json run = {{"network", hexadecimal(network_checksum(options.network, options.challenge))},
                                {"input", hexadecimal(file_checksum(options.input))},
                                {"first sample", samples.first_sample() + 1},
                                {"number of samples", samples.num_samples()},
                                {"repetitions of the input", options.repeat_input},
                                {"neurons", or_null(options.challenge.neurons)},
                                {"layers", or_null(options.challenge.layers)},
                                {"bias", or_null(options.challenge.bias)},
                                {"cap", or_null(options.challenge.cap)},
                                {"engine", options.engine},
                                {"precision", options.precision},
                                {"merged neurons", reductions.merge_neurons},
                                {"folded constants", reductions.fold_constants},
                                {"dropped unread neurons", reductions.drop_unread},
                                {"saturation", reductions.saturation},
                                {"edge order", options.edge_order},
                                {"activations", options.wanted().activations},
                                {"predictions", options.wanted().predictions},
                                {"batch", or_null(options.batch)}};
  if (options.wanted().leaves) run["receipt"] = true;
  return run;
}

} // namespace varve
