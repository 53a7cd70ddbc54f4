#include "apps/tuning.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace varve {
namespace {

/// The key of a text KEY=VALUE that takes this value; null if there is none.
TuningKey const* key_of(std::vector<TuningKey> const& keys, std::string const& text) {
  auto const found = std::ranges::find_if(keys, [&](TuningKey const& key) {
    return text.starts_with(key.name + "=") &&
           std::ranges::find(key.values, text.substr(key.name.size() + 1)) != key.values.end();
  });
  return found == keys.end() ? nullptr : &*found;
}

} // namespace

void add_tuning(CLI::App& command, std::vector<TuningKey> const& keys) {
  std::string help = "for studies, may be repeated:";
  std::string known;
  for (auto const& key : keys) {
    auto const values = fmt::format("{}={}", key.name, fmt::join(key.values, "|"));
    help += fmt::format(" {} ({}){}", values, key.help, &key == &keys.back() ? "" : ",");
    known += (known.empty() ? "" : ", ") + values;
  }
  auto const complaint = [keys, known](std::string const& text) {
    return key_of(keys, text) != nullptr ? std::string() : fmt::format("found '{}', expected one of {}", text, known);
  };
  command
      .add_option_function<std::vector<std::string>>(
          "--tuning",
          [keys](std::vector<std::string> const& texts) {
            for (auto const& text : texts) {
              auto const& key = *key_of(keys, text);
              key.take(text.substr(key.name.size() + 1));
            }
          },
          help)
      ->check(CLI::Validator(complaint, "KEY=VALUE"))
      ->allow_extra_args(false)
      ->group("For studies");
}

} // namespace varve
