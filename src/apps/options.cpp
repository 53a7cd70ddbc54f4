#include "apps/options.hpp"

#include "core/backend.hpp"
#include "core/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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

/// The key of a text KEY=VALUE that takes this value; null if there is none.
TuningKey const* key_of(std::vector<TuningKey> const& keys, std::string const& text) {
  auto const found = std::ranges::find_if(keys, [&](TuningKey const& key) {
    return text.starts_with(key.name + "=") &&
           std::ranges::find(key.values, text.substr(key.name.size() + 1)) != key.values.end();
  });
  return found == keys.end() ? nullptr : &*found;
}

} // namespace

CLI::Validator above_zero() {
  return number_validator([](double number) { return number > 0.0; }, "above 0", "ABOVE 0");
}

CLI::Validator at_least_zero() {
  return number_validator([](double number) { return number >= 0.0; }, "from 0 on", "FROM 0");
}

CLI::Validator known(std::vector<std::string> const& names) {
  return CLI::Validator([](std::string&) { return std::string(); }, fmt::format("{{{}}}", fmt::join(names, ",")));
}

void add_tuning(CLI::App& command, std::vector<TuningKey> const& keys) {
  std::string help = "for studies, may be repeated:";
  std::string all;
  for (auto const& key : keys) {
    auto const values = fmt::format("{}={}", key.name, fmt::join(key.values, "|"));
    help += fmt::format("\n  {}: {}", values, key.help);
    all += (all.empty() ? "" : ", ") + values;
  }
  auto const complaint = [keys, all](std::string const& text) {
    return key_of(keys, text) != nullptr ? std::string() : fmt::format("found '{}', expected one of {}", text, all);
  };
  auto const take = [keys](std::vector<std::string> const& texts) {
    for (auto const& text : texts) {
      auto const& key = *key_of(keys, text);
      key.take(text.substr(key.name.size() + 1));
    }
  };
  command.add_option_function<std::vector<std::string>>("--tuning", take, help)
      ->check(CLI::Validator(complaint, "KEY=VALUE"))
      ->allow_extra_args(false)
      ->group("For studies");
}

void add_data(CLI::App& command, std::string& network, std::string& input) {
  OptionGroup const files(command);
  files.add("--network", network, network_help)->required();
  files.add("--input", input, input_help)->required();
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

void add_share_devices(CLI::App& command, bool& share_devices) {
  OptionGroup(command, "Several ranks").add("--share-devices", share_devices, "several ranks may use one device");
}

void add_network_in_text(CLI::App& command, ChallengeOptions& options) {
  OptionGroup const text(command, "Networks in text");
  text.add("--neurons", options.neurons, "neurons per layer, for a network in text");
  text.add("--layers", options.layers, "number of layers to use, for a network in text");
  text.add("--bias", options.bias, "bias of every neuron, for a network in text");
  text.add("--cap", options.cap, "cap of the clipped ReLU, for a network in text");
}

std::optional<std::size_t> bytes_of(std::optional<double> const& gibibytes) {
  if (!gibibytes) return std::nullopt;
  return capped_integer(*gibibytes * 0x1p30);
}

} // namespace varve
