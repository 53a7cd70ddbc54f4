#pragma once

#include "apps/command_line.hpp"
#include "apps/report.hpp"
#include "distribute/communicator.hpp"
#include "distribute/ranks.hpp"
#include "distribute/record_store.hpp"
#include "engine/inference.hpp"
#include "io/challenge.hpp"
#include "io/file_roles.hpp"
#include "io/sample_reader.hpp"
#include "library/engine_options.hpp"
#include "network/loss.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// The files that options of a command name: each is declared once, with its option, and all checks go through them.
class CommandFiles {
public:
  /// `path` must outlive this object, since it is read when files are checked. `content`: of an output; nullopt for an
  /// input.
  void add(std::string const& option, std::string const& path, std::optional<Content> content) {
    all_.push_back({option, &path, content});
  }

  /// What they are for; files whose option was not given are left out.
  FileRoles roles() const;

  /// Throws UsageError or ResourceError if an output other than a journal cannot be written. Leaves nothing behind.
  void require_writable() const;

  /// The inputs, for a comparison of what the ranks read; --network is one in text if these options say so.
  std::vector<RankInput> inputs(ChallengeOptions const& challenge = {}) const;

private:
  struct File {
    std::string option;
    std::string const* path;
    std::optional<Content> content;
  };
  std::vector<File> all_;
};

/// Checks the files of a command (FileRoles::require_sound), removes partial outputs that killed runs left, and reports
/// on standard error those it must keep. Call it before anything is read or written. Throws as require_sound does.
void check_files(FileRoles const& files);

/// The same for a command of several ranks, each of which must be able to read every input. Collective.
void check_files(FileRoles const& files, Communicator const& ranks);

/// Takes the records of a journal, which are of the run that describe() describes on rank 0. Throws as
/// RecordStore::resume() does. Collective.
void resume(RecordStore& store, Communicator const& ranks, std::function<Json()> const& describe,
            RecordStore::RangeOf const& range_of);

/// The files of samples and their answers as options name them; an empty name: none is named.
struct AnswerFiles {
  std::string samples, labels, targets;
};

/// The same, with the file of the samples for answers that are not named and that it holds.
AnswerFiles with_own_answers(AnswerFiles files);

/// Samples with their answers, and the files that hold them: either `labels` or `targets` has a name.
struct AnsweredSamples {
  SampleSet samples;
  Answers answers;
  AnswerFiles files;
};

/// Reads samples and their answers: targets, if a file of them is named or if the loss takes them and the file of
/// the samples has some; else labels. Throws InputError if a file is broken, lacks answers, or holds no samples;
/// UsageError if labels and targets are named.
AnsweredSamples read_answered_samples(AnswerFiles const& files, Network const& network, Loss const& loss);

/// The numbers of the samples that a reader gives, from 0.
SampleRange range_of(SampleReader const& samples);

/// A part KEY=VALUE of the value of an option.
struct OptionKey {
  std::string name;
  std::string values; ///< what it takes, for help: "on|off", "GIB"
  std::string help;
  std::function<std::string(std::string value)> take; ///< keeps a value; returns a complaint if it is none, else ""
  bool takes_list = false;                            ///< parts that have no key belong to it
};

/// A key that takes one of these names; or any text, for which `values` stands in help.
OptionKey name_key(std::string const& name, std::string& value, std::vector<std::string> const& names,
                   std::string const& help);
OptionKey text_key(std::string const& name, std::string& value, std::string const& values, std::string const& help);

/// A key that takes a number that keeps the rule; `values` stands for it in help.
template <class Value>
OptionKey number_key(std::string const& name, Value& value, std::string const& values, std::string const& help,
                     CLI::Validator const& rule = CLI::Validator()) {
  auto const take = [&value, rule](std::string text) {
    typename decltype(std::optional(value))::value_type number{};
    std::string complaint;
    if constexpr (std::is_integral_v<decltype(number)>) complaint = complaint_on_whole_number(text);
    if (complaint.empty()) complaint = rule(text);
    if (complaint.empty() && !CLI::detail::lexical_cast(text, number))
      complaint = fmt::format("found '{}', expected a number", text);
    if (complaint.empty()) value = number;
    return complaint;
  };
  return {name, values, help, take};
}

/// A key that takes a limit of memory in GiB, above 0, which is kept in bytes.
OptionKey memory_key(std::string const& name, std::optional<std::size_t>& bytes, std::string const& help);

/// Declares options of a command under one title. --help shows those without a title, --help-all all of them.
class OptionGroup {
public:
  explicit OptionGroup(CLI::App& command, std::string title = "") : command_(command), title_(std::move(title)) {}

  /// Adds an option, or a flag for a bool, which parsing puts into `value`. Help shows the default of a text or number.
  /// `rule` is checked by the parser.
  template <class Value>
  CLI::Option* add(std::string const& name, Value& value, std::string const& help,
                   CLI::Validator const& rule = CLI::Validator()) const {
    CLI::Option* option = nullptr;
    if constexpr (std::is_same_v<Value, bool>) {
      option = command_.add_flag(name, value, help);
    } else {
      option = command_.add_option(name, value, help)->check(rule);
      if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>) option->capture_default_str();
    }
    if (!title_.empty()) option->group(title_);
    return option;
  }

  /// Adds an option that names an input or an output, and adds the file to `files`. `path` must outlive `files`.
  CLI::Option* reads(CommandFiles& files, std::string const& name, std::string& path, std::string const& help) const {
    files.add(name, path, std::nullopt);
    return add(name, path, help);
  }
  CLI::Option* writes(CommandFiles& files, std::string const& name, std::string& path, Content content,
                      std::string const& help) const {
    files.add(name, path, content);
    return add(name, path, help);
  }

  /// Adds an option whose value is a list KEY=VALUE,KEY=VALUE; several options of its name add up. With `first`, a part
  /// that has no key is kept there: one of `names`, or any text if there are none. Help lists the keys.
  CLI::Option* add_keys(std::string const& name, std::vector<OptionKey> const& keys, std::string help,
                        std::string* first = nullptr, std::vector<std::string> const& names = {}) const;

private:
  CLI::App& command_;
  std::string title_;
};

/// Validator for options that take a number above 0, or 0 or a number above.
CLI::Validator above_zero();
CLI::Validator at_least_zero();

/// The names that an option takes, or lists with commas between: shown by help and completed by shells. Other names are
/// refused by who uses the value.
CLI::Validator known(std::vector<std::string> const& names);

/// Options that several commands share: --network and --input, which are required; --report; --backend; --precision;
/// --tuning, which every command of several ranks gives the key share-devices.
void add_data(CLI::App& command, CommandFiles& files, std::string& network, std::string& input);
void add_report(OptionGroup const& options, CommandFiles& files, std::string& report);
void add_backend(CLI::App& command, std::string& backend, std::string const& condition = "");
void add_precision(OptionGroup const& options, std::string& precision, std::string const& condition = "");
void add_tuning(CLI::App& command, std::vector<OptionKey> const& keys);
OptionKey share_devices_key(std::string& share_devices);

/// Adds --text: the properties of a network or of samples that text files do not contain. Networks of the challenge
/// have defaults.
void add_network_in_text(CLI::App& command, ChallengeOptions& options);

/// What a command takes as a network, and as samples, for help.
inline constexpr char const* network_help =
    "network file (.safetensors) or folder of nN-lK.tsv layer files; varve-convert, of the Python package, makes "
    "network files of ONNX models, HDF5 and others";
inline constexpr char const* input_help =
    "samples: .safetensors, IDX images, Matrix Market, or text `sample neuron value`; all but the first also .gz, .xz, "
    ".zst";

/// How a network is computed: options that several commands share, as given by the user.
struct ComputingOptions {
  std::string backend = to_string(compiled_backends().front());
  std::string precision = "float";
  v0_3::InferenceOptions named; ///< without backend and precision
};

/// Adds --backend, --precision and --reductions. `condition`: what the help says before each, such as "with --plan: ".
void add_computing_options(CLI::App& command, ComputingOptions& options, std::string const& condition = "");

/// One of the engine's named options as a key of --tuning.
OptionKey engine_key(ComputingOptions& options, std::string const& name);

/// Adds precision and the engine's options to a report or record, by their keys.
void add_options(Json& report, ComputingOptions const& options);

/// Converts the options to those of the engine. Throws UsageError about an unknown name.
InferenceOptions engine_options(ComputingOptions const& options);

/// The precision that an option accepts by this name.
Precision precision_of(std::string const& name);

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
