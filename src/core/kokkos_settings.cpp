#include "core/kokkos_settings.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace varve {
namespace {

enum class Kind { threads, thread_list, stack, device, device_list, device_map, flag, text };

/// A setting of Kokkos or OpenMP: the option without "--kokkos-", the environment variable, and the kind of value.
struct Setting {
  std::string_view option;
  char const* variable;
  Kind kind;
};

constexpr std::array<Setting, 13> settings = {{{"num-threads", "KOKKOS_NUM_THREADS", Kind::threads},
                                               {"device-id", "KOKKOS_DEVICE_ID", Kind::device},
                                               {"map-device-id-by", "KOKKOS_MAP_DEVICE_ID_BY", Kind::device_map},
                                               {"disable-warnings", "KOKKOS_DISABLE_WARNINGS", Kind::flag},
                                               {"print-configuration", "KOKKOS_PRINT_CONFIGURATION", Kind::flag},
                                               {"tune-internals", "KOKKOS_TUNE_INTERNALS", Kind::flag},
                                               {"tools-help", nullptr, Kind::flag},
                                               {"tools-libs", nullptr, Kind::text},
                                               {"tools-args", nullptr, Kind::text},
                                               {"help", nullptr, Kind::flag},
                                               {"", "KOKKOS_VISIBLE_DEVICES", Kind::device_list},
                                               {"", "OMP_NUM_THREADS", Kind::thread_list},
                                               {"", "OMP_STACKSIZE", Kind::stack}}};

constexpr std::uint64_t most_threads = 512; // limit of Kokkos's OpenMP backend

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  auto const begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

bool is_number(std::string_view text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t number = 0;
  auto const [next, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && next == text.data() + text.size() && number >= least && number <= most;
}

/// True if the text is a comma-separated list of numbers from `least` to `most`.
bool is_list(std::string_view text, std::uint64_t least, std::uint64_t most) {
  for (;;) {
    auto const comma = std::min(text.find(','), text.size());
    if (!is_number(without_blanks(text.substr(0, comma)), least, most)) return false;
    if (comma == text.size()) return true;
    text.remove_prefix(comma + 1);
  }
}

bool is_flag(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  constexpr std::array<std::string_view, 6> words = {"yes", "true", "1", "no", "false", "0"};
  return std::ranges::find(words, lower) != words.end();
}

/// True if the text is a thread stack size of at most 1 GiB: a number in KiB, or followed by the unit B, K, M or G.
bool is_stack(std::string_view text) {
  if (text.empty()) return false;
  constexpr std::string_view units = "BKMG";
  auto const unit = units.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
  bool const has_unit = unit != std::string_view::npos;
  constexpr std::array<std::uint64_t, 4> most = {std::uint64_t{1} << 30, std::uint64_t{1} << 20, 1024, 1};
  return is_number(without_blanks(text.substr(0, text.size() - (has_unit ? 1 : 0))), 1, most[has_unit ? unit : 1]);
}

std::string numbers_up_to(std::uint64_t least, std::uint64_t most) {
  return "from " + std::to_string(least) + " to " + std::to_string(most);
}

/// A description of the expected value if `value` is not valid for this kind; empty if it is valid.
std::string complaint(Kind kind, std::string_view value, std::optional<int> num_devices) {
  auto const last_device = static_cast<std::uint64_t>(std::max(num_devices.value_or(1 << 16), 1) - 1);
  switch (kind) {
  case Kind::threads:
    return is_number(value, 1, most_threads) ? "" : "a number of threads " + numbers_up_to(1, most_threads);
  case Kind::thread_list:
    return is_list(value, 1, most_threads) ? "" : "numbers of threads " + numbers_up_to(1, most_threads);
  case Kind::stack:
    return is_stack(without_blanks(value)) ? "" : "up to 1 GiB for each thread, such as 8M";
  case Kind::device:
    return is_number(value, 0, last_device) ? "" : "a device " + numbers_up_to(0, last_device);
  case Kind::device_list:
    return is_list(value, 0, last_device) ? "" : "devices " + numbers_up_to(0, last_device) + " with commas between";
  case Kind::device_map:
    return value == "random" || value == "mpi_rank" ? "" : "random or mpi_rank";
  case Kind::flag:
    return is_flag(value) ? "" : "yes or no";
  case Kind::text:
    break;
  }
  return "";
}

void require_value(Kind kind, std::string const& name, std::string_view value, std::optional<int> num_devices) {
  auto const expected = complaint(kind, value, num_devices);
  if (!expected.empty()) throw UsageError(name + " is '" + std::string(value) + "', expected " + expected);
}

void require_argument(std::string_view argument, std::optional<int> num_devices) {
  auto const equals = std::min(argument.find('='), argument.size());
  std::string const name(argument.substr(0, equals));
  auto const option = std::string_view(name).substr(std::string_view("--kokkos-").size());
  auto const* const setting =
      std::ranges::find_if(settings, [&](Setting const& known) { return !option.empty() && known.option == option; });
  if (setting == settings.end()) throw UsageError("Kokkos has no option " + name + "; see --kokkos-help");
  bool const has_value = equals < argument.size();
  if (!has_value && setting->kind == Kind::flag) return;
  if (!has_value) throw UsageError(name + " needs a value behind an equals sign: " + name + "=VALUE");
  require_value(setting->kind, name, argument.substr(equals + 1), num_devices);
}

} // namespace

void require_valid_settings(std::span<char* const> kokkos_arguments, std::optional<int> num_devices) {
  for (auto const* const argument : kokkos_arguments) require_argument(argument, num_devices);
  for (auto const& setting : settings) {
    char const* const value = setting.variable == nullptr ? nullptr : std::getenv(setting.variable);
    if (value == nullptr) continue;
    bool const is_empty_list = setting.option.empty() && *value == '\0'; // an empty list counts as unset
    if (!is_empty_list)
      require_value(setting.kind, std::string("the environment variable ") + setting.variable, value, num_devices);
  }
}

} // namespace varve
