#include "apps/infer_options.hpp"

#include "apps/options.hpp"
#include "core/backend.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "distribute/batch_queue.hpp"
#include "io/checksum.hpp"
#include "io/open.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace varve {
namespace {

template <class Value>
Json or_null(std::optional<Value> const& value) {
  return value ? Json(*value) : Json();
}

std::string hexadecimal(std::uint64_t number) { return fmt::format("{:016x}", number); }

void add_files(CLI::App& command, InferOptions& options) {
  auto& files = options.files;
  add_data(command, files, options.network, options.input);
  add_network_in_text(command, options.challenge);
  OptionGroup const shown(command);
  shown.add("--samples", options.samples,
            "run only the samples FIRST:LAST, both included; numbers begin at 1, or at the first number that a sample "
            "file states");
  shown.reads(files, "--truth", options.truth, "true categories to compare with (exit code 1 if they differ)");
  shown.writes(files, "--categories", options.categories, Content::lines,
               "write the numbers of the surviving samples, from 1");
  shown.writes(files, "--activations", options.activations, Content::container,
               "write the last activations as a sparse sample file (.safetensors)");
  shown.writes(files, "--predictions", options.predictions, Content::lines,
               "write for each sample the neuron with the largest activation, both numbered from 1");
  shown.writes(
      files, "--journal", options.journal, Content::journal,
      "keep finished batches in FILE (other ranks: FILE.1, FILE.2, ...): the same command continues a run that "
      "was killed, or stopped by SIGTERM or SIGUSR1 (exit code 5)");
  add_report(OptionGroup(command, "More files"), files, options.report);
  OptionGroup(command, "Proof")
      .writes(
          files, "--receipt", options.receipt, Content::json,
          "write digests of the network, of all samples and of their last activations, with which varve audit checks "
          "the run by computing some samples again");
}

void add_memory_limits(CLI::App& command, InferOptions& options) {
  add_batch(command, options);
  OptionGroup(command, "Memory")
      .add_keys("--memory",
                {memory_key("device", options.memory.device_memory_limit,
                            "of the device, for weights and samples; weights that do not fit are streamed to the "
                            "device (default: nine tenths of what is free)"),
                 memory_key("weights", options.memory.device_weight_limit,
                            "part of that for weights (default: what a batch leaves; for streamed weights a part of "
                            "that)"),
                 memory_key("host", options.memory.memory_limit,
                            "of the host, for encoded weights waiting to be streamed; the rest are read again each "
                            "pass. On CPU backends: the limit for everything"),
                 memory_key("input", options.input_memory,
                            "of the host, for samples being read (default: an eighth of what is available)")},
                "limits in GiB:");
}

} // namespace

void add_infer_options(CLI::App& command, InferOptions& options) {
  add_files(command, options);
  add_run_options(command, options);
  add_engine_option(OptionGroup(command, "Arithmetic"), options, "edge-order");
  OptionGroup(command, "Several ranks")
      .add("--split", options.split,
           "what ranks divide among them: samples; neurons (each rank holds a part of every layer, and ranks exchange "
           "activations: for networks too large for one device); or auto (neurons if whole layers do not fit a rank)",
           CLI::IsMember({"auto", "samples", "neurons"}));
  OptionGroup(command, "For studies")
      .add("--repeat", options.repeat, "run the layer loop K times and report the median", above_zero());
  add_tuning(
      command,
      {engine_key(options, "engine"), engine_key(options, "formats"), engine_key(options, "kernel"),
       text_key("schedule", options.schedule, "dynamic|static",
                "how ranks share the samples: each takes its next batch when it is ready, or equal parts"),
       number_key("repeat-input", options.repeat_input, "N",
                  "repeat the input, numbering continues; the samples are in memory once", above_zero()),
       name_key("exchange", options.exchange, {"auto", "host"},
                "with --split neurons, activations go from device to device if the MPI library supports it (auto), or "
                "through host memory (host)"),
       share_devices_key(options.share_devices)});
}

void add_run_options(CLI::App& command, InferOptions& options) {
  add_computing_options(command, options);
  add_memory_limits(command, options);
}

InferenceOptions engine_options(InferOptions const& options) {
  auto const& computing = static_cast<ComputingOptions const&>(options);
  auto engine = engine_options(computing);
  engine.input_name = options.input;
  engine.repeat = options.repeat;
  if (!options.schedule.empty()) static_cast<void>(parse_schedule(options.schedule)); // throws if it is not a schedule
  if (!options.receipt.empty() && engine.engine == Engine::kokkos_kernels)
    throw UsageError("--receipt cannot go with --tuning engine=kokkos-kernels, whose sums have other bits");
  if (!options.receipt.empty() && options.repeat_input > 1)
    throw UsageError("--receipt cannot go with --tuning repeat-input: it is of the samples that a file holds");
  if (!options.schedule.empty() && options.split == "neurons")
    throw UsageError("--tuning schedule says how ranks share samples; it cannot go with --split neurons");
  static_cast<MemoryRequest&>(engine) = options.memory;
  return engine;
}

OptionalSampleRange parse_samples(std::string const& text) {
  if (text.empty()) return std::nullopt;
  auto const colon = std::min(text.find(':'), text.size());
  auto const first = whole_number(text.substr(0, colon)).value_or(0);
  auto const last = whole_number(text.substr(std::min(colon + 1, text.size()))).value_or(0);
  if (first < 1 || last < first)
    throw UsageError(fmt::format("--samples is '{}', expected FIRST:LAST with 1 <= FIRST <= LAST", text));
  return SampleRange{first - 1, last};
}

std::size_t input_bytes(InferOptions const& options, std::size_t ranks_on_host) {
  return options.input_memory.value_or(available_memory(Backend::serial) / 8 / ranks_on_host);
}

void limit_memory(InferenceOptions& engine, std::size_t ranks_on_host) {
  if (engine.memory_limit) return;
  std::size_t const quarters = has_own_memory(engine.backend) ? 2 : 3;
  engine.memory_limit = available_memory(Backend::serial) / 4 * quarters / ranks_on_host;
}

SampleIndex max_samples_at_a_time(Backend backend) {
  return has_own_memory(backend) ? SampleIndex{1} << 18U : SampleIndex{1} << 16U;
}

Json describe_run(InferOptions const& options, SampleReader const& samples) {
  auto const reductions = parse_reductions(options.named.reductions);
  Json run = {{"network", hexadecimal(network_checksum(options.network, options.challenge))},
              {"input", hexadecimal(file_checksum(options.input))},
              {"first sample", samples.first_sample() + 1},
              {"number of samples", samples.num_samples()},
              {"repetitions of the input", options.repeat_input},
              {"neurons", or_null(options.challenge.neurons)},
              {"layers", or_null(options.challenge.layers)},
              {"bias", or_null(options.challenge.bias)},
              {"cap", or_null(options.challenge.cap)},
              {"precision", options.precision},
              {"merged neurons", reductions.merge_neurons},
              {"folded constants", reductions.fold_constants},
              {"dropped unread neurons", reductions.drop_unread},
              {"saturation", reductions.saturation},
              {"activations", options.wanted().activations},
              {"predictions", options.wanted().predictions},
              {"batch", or_null(options.named.batch)}};
  for (auto const& one : engine_options())
    if (one.journal_key != nullptr) run[one.journal_key] = options.named.*one.value;
  if (options.wanted().digests) run["receipt"] = true;
  return run;
}

} // namespace varve
