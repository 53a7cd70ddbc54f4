#pragma once

#include "apps/report.hpp"
#include "distribute/communicator.hpp"
#include "distribute/ranks.hpp"
#include "engine/inference.hpp"
#include "io/challenge.hpp"
#include "io/file_roles.hpp"
#include "library/engine_options.hpp"

#include <CLI/CLI.hpp>

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

  /// The options that name outputs.
  std::vector<std::string> output_options() const;

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

/// A setting that only studies change.
struct TuningKey {
  std::string name;
  std::vector<std::string> values; ///< all that it takes, the default first
  std::string help;
  std::function<void(std::string const& value)> take; ///< called with the value that was given
};

/// Adds the option --tuning KEY=VALUE, which may be given several times. Parsing refuses other keys and values with a
/// list of those there are.
void add_tuning(CLI::App& command, std::vector<TuningKey> const& keys);

/// Options that several commands share: --network and --input, which are required; --report; --backend; --precision;
/// --share-devices.
void add_data(CLI::App& command, CommandFiles& files, std::string& network, std::string& input);
void add_report(OptionGroup const& options, CommandFiles& files, std::string& report);
void add_backend(CLI::App& command, std::string& backend, std::string const& condition = "");
void add_precision(OptionGroup const& options, std::string& precision, std::string const& condition = "");
void add_share_devices(CLI::App& command, bool& share_devices);

/// Adds options for the properties of a network that text files do not contain. Networks of the challenge have
/// defaults.
void add_network_in_text(CLI::App& command, ChallengeOptions& options);

/// What a command takes as a network, and as samples, for help.
inline constexpr char const* network_help =
    "network file (.safetensors) or folder of nN-lK.tsv layer files; varve-convert, of the Python package, makes "
    "network files of ONNX models, HDF5 and others";
inline constexpr char const* input_help =
    "samples: .safetensors, IDX images, Matrix Market, or text `sample neuron value`; all but the first also .gz, .xz, "
    ".zst";

/// The bytes of an option in GiB; none if it was not given.
std::optional<std::size_t> bytes_of(std::optional<double> const& gibibytes);

/// How a network is computed: options that several commands share, as given by the user.
struct ComputingOptions {
  std::string backend = to_string(compiled_backends().front());
  std::string precision = "float";
  NamedOptions named;
  std::optional<std::size_t> batch;
};

/// Adds --backend, --precision and the options of the arithmetic. `condition`: what the help says before each, such as
/// "with --plan: ".
void add_computing_options(CLI::App& command, ComputingOptions& options, std::string const& condition = "");

/// Adds the engine's options of this kind but for the one named `except`.
void add_engine_options(CLI::App& command, ComputingOptions& options, OptionKind kind, std::string const& except = "",
                        std::string const& condition = "");

/// Adds --batch.
void add_batch(CLI::App& command, ComputingOptions& options);

/// Adds precision and the engine's options to a report or record, by their keys.
void add_options(Json& report, ComputingOptions const& options);

/// Converts the options to those of the engine. Throws UsageError about an unknown name.
InferenceOptions engine_options(ComputingOptions const& options);

/// The precision that an option accepts by this name.
Precision precision_of(std::string const& name);

} // namespace varve
