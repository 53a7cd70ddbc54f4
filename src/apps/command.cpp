#include "apps/command.hpp"

#include "apps/standard_streams.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <string>

namespace varve {

void check_files(FileRoles const& files) {
  files.require_sound();
  for (auto const& left : files.remove_leftovers()) {
    say(fmt::format(
        "varve: {} was left by a run that was killed, or belongs to one that still runs; remove it if none does",
        left.string()));
  }
}

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

} // namespace

CLI::Validator above_zero() {
  return number_validator([](double number) { return number > 0.0; }, "above 0", "ABOVE 0");
}

CLI::Validator at_least_zero() {
  return number_validator([](double number) { return number >= 0.0; }, "from 0 on", "FROM 0");
}

Progress terminal_progress(std::string const& what) {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [what](std::size_t done, std::size_t total) {
    constexpr std::size_t width = 40;
    std::size_t const filled = total == 0 ? width : done * width / total;
    fmt::print(stderr, "\r{} [{:=<{}}{:{}}] {}/{}", what, "", filled, "", width - filled, done, total);
    if (done == total) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  };
}

std::string with_prefix(double number, std::string const& unit) {
  constexpr std::array prefixes = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (std::abs(number) >= 999.5 && prefix + 1 < prefixes.size()) {
    number /= 1000.0;
    ++prefix;
  }
  return fmt::format("{:.3g} {}{}", number, prefixes[prefix], unit);
}

std::string readable_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1.0) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

} // namespace varve
