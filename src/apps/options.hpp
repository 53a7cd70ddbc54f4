#pragma once

#include "io/challenge.hpp"

#include <CLI/CLI.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

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

/// Options that several commands share: --network and --input, which are required; --backend; --precision;
/// --share-devices.
void add_data(CLI::App& command, std::string& network, std::string& input);
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

} // namespace varve
