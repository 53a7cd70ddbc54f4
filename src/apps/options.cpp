#include "apps/options.hpp"

#include "core/backend.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "distribute/batch_queue.hpp"
#include "io/checksum.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "io/sample_file.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace varve {
namespace {

/// Validator for numbers that `is_right` accepts; `what` follows "expected a number" in its sentence.
template <class IsRight>
CLI::Validator number_validator(IsRight const& is_right, std::string const& what, std::string const& name) {
  auto const check = [=](std::string const& text) {
    double number = 0.0;
    bool const is_accepted = CLI::detail::lexical_cast(text, number) && is_right(number);
    return is_accepted ? std::string() : fmt::format("found {}, expected a number {}", text, what);
  };
  return CLI::Validator(check, name);
}

/// Accepts all values; help shows the text in the place of the type.
CLI::Validator known_as(std::string const& text) {
  return CLI::Validator([](std::string&) { return std::string(); }, text);
}

EngineOption const& engine_option(std::string const& name) {
  return *std::ranges::find_if(engine_options(), [&](EngineOption const& one) { return one.name == name; });
}

/// Adds one of the engine's named options.
void add_engine_option(OptionGroup const& group, ComputingOptions& options, std::string const& name,
                       std::string const& condition = "") {
  auto const& one = engine_option(name);
  group.add("--" + name, options.named.*one.value, condition + one.help, known(one.names()));
}

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

} // namespace

FileRoles CommandFiles::roles() const {
  FileRoles roles;
  for (auto const& file : all_) {
    if (file.content) {
      roles.writes(file.option, *file.path, *file.content);
    } else {
      roles.reads(file.option, *file.path);
    }
  }
  return roles;
}

void CommandFiles::require_writable() const {
  for (auto const& file : all_)
    if (file.content.value_or(Content::journal) != Content::journal && !file.path->empty())
      varve::require_writable(*file.path);
}

std::vector<RankInput> CommandFiles::inputs(ChallengeOptions const& challenge) const {
  std::vector<RankInput> inputs;
  for (auto const& file : all_) {
    if (file.content || file.path->empty()) continue;
    bool const is_network = file.option == "--network";
    inputs.push_back({file.option + " " + *file.path, is_network ? network_files(*file.path, challenge)
                                                                 : std::vector<std::filesystem::path>{*file.path}});
  }
  return inputs;
}

void check_files(FileRoles const& files) {
  files.require_sound();
  for (auto const& left : files.remove_leftovers()) {
    say(fmt::format(
        "varve: {} was left by a run that was killed, or belongs to one that still runs; remove it if none does",
        left.string()));
  }
}

void check_files(FileRoles const& files, Communicator const& ranks) {
  ranks.together([&] {
    files.require_readable_by(static_cast<std::size_t>(ranks.size()));
    if (ranks.is_root()) check_files(files);
  });
}

void resume(RecordStore& store, Communicator const& ranks, std::function<Json()> const& describe,
            RecordStore::RangeOf const& range_of) {
  std::string run;
  ranks.on_root([&] { run = json_text(describe()); });
  run = ranks.broadcast(run);
  ranks.together([&] { store.resume(Json::parse(run), range_of); });
}

AnswerFiles with_own_answers(AnswerFiles files) {
  if (kind_of(files.samples) != FileKind::container) return files;
  auto const header = read_sample_header(files.samples);
  if (files.labels.empty() && header.has_labels) files.labels = files.samples;
  if (files.targets.empty() && header.num_targets) files.targets = files.samples;
  return files;
}

AnsweredSamples read_answered_samples(AnswerFiles const& files, Network const& network, Loss const& loss) {
  AnsweredSamples read;
  read.samples = open_samples(files.samples, network.num_inputs());
  if (read.samples.num_samples() == 0) throw InputError(files.samples + " holds no samples");
  read.files.samples = files.samples;
  SampleRange const range{read.samples.first_sample, read.samples.first_sample + read.samples.num_samples()};
  auto const targets = with_own_answers(files).targets;
  bool const takes_own = entry_of(loss).takes_targets && files.labels.empty();
  if (!files.targets.empty() || (takes_own && !targets.empty())) {
    if (!files.labels.empty()) throw UsageError("samples have labels or targets, not both");
    read.files.targets = targets;
    auto const reader = open_targets(read.files.targets, network.num_outputs(), range, OtherSamples::refused);
    read.answers.values = to_set(reader->read(0, reader->num_samples())).matrix;
    require_targets(read.answers.values, loss, read.files.targets, range.first);
    return read;
  }
  read.files.labels = files.labels.empty() ? files.samples : files.labels;
  auto labels = open_labels(read.files.labels, range, OtherSamples::refused);
  require_classes(labels, loss.num_classes(network.num_outputs()), read.files.labels);
  read.answers.labels = std::move(labels.classes);
  return read;
}

SampleRange range_of(SampleReader const& samples) {
  return {samples.first_sample(), samples.first_sample() + samples.num_samples()};
}

CLI::Validator above_zero() {
  return number_validator([](double number) { return number > 0.0; }, "above 0", "ABOVE 0");
}

CLI::Validator at_least_zero() {
  return number_validator([](double number) { return number >= 0.0; }, "from 0 on", "FROM 0");
}

CLI::Validator known(std::vector<std::string> const& names) {
  return known_as(fmt::format("{{{}}}", fmt::join(names, ",")));
}

OptionKey name_key(std::string const& name, std::string& value, std::vector<std::string> const& names,
                   std::string const& help) {
  auto const values = fmt::format("{}", fmt::join(names, "|"));
  auto const take = [&value, names, values](std::string const& text) {
    if (std::ranges::find(names, text) == names.end()) return fmt::format("found '{}', expected {}", text, values);
    value = text;
    return std::string();
  };
  return {name, values, help, take};
}

OptionKey text_key(std::string const& name, std::string& value, std::string const& values, std::string const& help) {
  auto const take = [&value](std::string const& text) {
    value = text;
    return text.empty() ? std::string("found an empty value") : std::string();
  };
  return {name, values, help, take};
}

OptionKey memory_key(std::string const& name, std::optional<std::size_t>& bytes, std::string const& help) {
  auto const take = [&bytes](std::string text) {
    double gibibytes = 0.0;
    auto complaint = above_zero()(text);
    if (complaint.empty() && CLI::detail::lexical_cast(text, gibibytes)) bytes = capped_integer(gibibytes * 0x1p30);
    return complaint;
  };
  return {name, "GIB", help, take};
}

CLI::Option* OptionGroup::add_keys(std::string const& name, std::vector<OptionKey> const& keys, std::string help,
                                   std::string* first, std::vector<std::string> const& names) const {
  std::string all;
  for (auto const& key : keys) {
    help += fmt::format("\n  {}={}: {}", key.name, key.values, key.help);
    all += fmt::format("{}{}={}", all.empty() ? "" : ", ", key.name, key.values);
  }
  auto const take = [name, keys, all, first](std::string const& text) {
    std::vector<std::pair<OptionKey const*, std::string>> values;
    for (auto const& part : CLI::detail::split(text, ',')) {
      auto const equals = part.find('=');
      auto const key = std::ranges::find(keys, part.substr(0, equals), &OptionKey::name);
      if (equals != std::string::npos && key != keys.end()) {
        values.emplace_back(&*key, part.substr(equals + 1));
      } else if (equals == std::string::npos && !values.empty() && values.back().first->takes_list) {
        values.back().second += "," + part;
      } else if (equals == std::string::npos && first != nullptr) {
        *first = part;
      } else {
        throw CLI::ValidationError(name, fmt::format("found '{}', expected one of {}", part, all));
      }
    }
    for (auto const& [key, value] : values)
      if (auto const complaint = key->take(value); !complaint.empty())
        throw CLI::ValidationError(name, key->name + ": " + complaint);
  };
  auto const type = names.empty() ? std::string("KEY=VALUE") : fmt::format("{{{}}},KEY=VALUE", fmt::join(names, ","));
  auto* const option = command_.add_option_function<std::string>(name, take, help)->check(known_as(type))->join(',');
  if (first != nullptr && !first->empty()) option->default_str(*first);
  if (!title_.empty()) option->group(title_);
  return option;
}

void add_data(CLI::App& command, CommandFiles& files, std::string& network, std::string& input) {
  OptionGroup const shown(command);
  shown.reads(files, "--network", network, network_help)->required();
  shown.reads(files, "--input", input, input_help)->required();
}

void add_report(OptionGroup const& options, CommandFiles& files, std::string& report) {
  options.writes(files, "--report", report, Content::json, "write everything measured and decided as JSON");
}

void add_backend(CLI::App& command, std::string& backend, std::string const& condition) {
  std::vector<std::string> names;
  for (auto const one : compiled_backends()) names.push_back(to_string(one));
  OptionGroup(command).add("--backend", backend, condition + "where to compute", known(names));
}

void add_precision(OptionGroup const& options, std::string& precision, std::string const& condition) {
  options.add("--precision", precision, condition + "precision of the numbers that are computed",
              CLI::IsMember({"float", "double"}));
}

void add_tuning(CLI::App& command, std::vector<OptionKey> const& keys) {
  OptionGroup(command, "For studies").add_keys("--tuning", keys, "settings that only studies change:");
}

OptionKey share_devices_key(std::string& share_devices) {
  return name_key("share-devices", share_devices, {"off", "on"}, "several ranks may use one device");
}

void add_network_in_text(CLI::App& command, ChallengeOptions& options) {
  OptionGroup(command, "Networks in text")
      .add_keys("--text",
                {number_key("neurons", options.neurons, "N", "neurons of each layer, or of samples"),
                 number_key("layers", options.layers, "L", "number of layers to use"),
                 number_key("bias", options.bias, "B", "bias of every neuron"),
                 number_key("cap", options.cap, "C", "cap of the clipped ReLU")},
                "what a network or samples in text do not say; the challenge's networks have defaults:");
}

OptionKey engine_key(ComputingOptions& options, std::string const& name) {
  auto const& one = engine_option(name);
  auto key = text_key(name, options.named.*one.value, fmt::format("{}", fmt::join(one.names(), "|")), one.help);
  key.takes_list = name == "formats";
  return key;
}

void add_computing_options(CLI::App& command, ComputingOptions& options, std::string const& condition) {
  add_backend(command, options.backend, condition);
  add_precision(OptionGroup(command), options.precision, condition);
  add_engine_option(OptionGroup(command, "Arithmetic"), options, "reductions", condition);
}

void add_options(Json& report, ComputingOptions const& options) {
  report["precision"] = options.precision;
  for (auto const& one : engine_options()) report[one.key] = options.named.*one.value;
}

InferenceOptions engine_options(ComputingOptions const& options) {
  auto engine = to_private(options.named);
  engine.backend = parse_backend(options.backend);
  engine.precision = precision_of(options.precision);
  return engine;
}

Precision precision_of(std::string const& name) {
  return name == "double" ? Precision::double_precision : Precision::single_precision;
}

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
  OptionGroup const memory(command, "Memory");
  memory.add("--batch", options.named.batch,
             "samples at a time (default: as many as fit and suit the speed of the rank)", above_zero());
  memory.add_keys("--memory",
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
    fail<UsageError>("--samples is '{}', expected FIRST:LAST with 1 <= FIRST <= LAST", text);
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
