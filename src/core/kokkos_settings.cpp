#include "core/runtime.hpp"

#include "core/error.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
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

constexpr std::uint64_t max_threads = 512; // limit of Kokkos's OpenMP backend

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  auto const begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

/// The number that the text is, if it is one from `least` to `most`.
std::optional<std::uint64_t> number_in(std::string_view text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t number = 0;
  auto const [next, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool const is_whole = error == std::errc() && next == text.data() + text.size();
  return is_whole && number >= least && number <= most ? std::optional(number) : std::nullopt;
}

/// True if the text is a comma-separated list of numbers from `least` to `most`.
bool is_list(std::string_view text, std::uint64_t least, std::uint64_t most) {
  for (;;) {
    auto const comma = std::min(text.find(','), text.size());
    if (!number_in(without_blanks(text.substr(0, comma)), least, most)) return false;
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

/// The bytes of a thread stack of at most 1 GiB: a number in KiB, or followed by the unit B, K, M or G; 0 for any other
/// text.
std::size_t stack_of(std::string_view text) {
  if (text.empty()) return 0;
  constexpr std::string_view units = "BKMG";
  auto const found = units.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
  bool const has_unit = found != std::string_view::npos;
  std::size_t const unit = has_unit ? found : 1;
  constexpr std::size_t most = std::size_t{1} << 30U;
  auto const number =
      number_in(without_blanks(text.substr(0, text.size() - (has_unit ? 1 : 0))), 1, most >> (10 * unit));
  return number.value_or(0) << (10 * unit);
}

std::string numbers_up_to(std::uint64_t least, std::uint64_t most) {
  return "from " + std::to_string(least) + " to " + std::to_string(most);
}

void require_value(Kind kind, std::string const& name, std::string_view value, std::optional<int> num_devices) {
  auto const last_device = static_cast<std::uint64_t>(std::max(num_devices.value_or(1 << 16), 1) - 1);
  auto const expect = [&](bool is_valid, std::string const& expected) {
    if (!is_valid) throw UsageError(name + " is '" + std::string(value) + "', expected " + expected);
  };
  switch (kind) {
  case Kind::threads:
    return expect(number_in(value, 1, max_threads).has_value(), "a number of threads " + numbers_up_to(1, max_threads));
  case Kind::thread_list:
    return expect(is_list(value, 1, max_threads), "numbers of threads " + numbers_up_to(1, max_threads));
  case Kind::stack:
    return expect(stack_of(without_blanks(value)) > 0, "up to 1 GiB for each thread, such as 8M");
  case Kind::device:
    return expect(number_in(value, 0, last_device).has_value(), "a device " + numbers_up_to(0, last_device));
  case Kind::device_list:
    return expect(is_list(value, 0, last_device), "devices " + numbers_up_to(0, last_device) + " with commas between");
  case Kind::device_map:
    return expect(value == "random" || value == "mpi_rank", "random or mpi_rank");
  case Kind::flag:
    return expect(is_flag(value), "yes or no");
  case Kind::text:
    return;
  }
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

std::size_t num_threads_for_kokkos(std::span<char* const> kokkos_arguments) {
  char const* const variable = std::getenv("KOKKOS_NUM_THREADS");
  std::string_view text = variable == nullptr ? "" : variable;
  constexpr std::string_view option = "--kokkos-num-threads=";
  for (std::string_view const argument : kokkos_arguments)
    if (argument.starts_with(option)) text = argument.substr(option.size());
  std::size_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::size_t stack_of_openmp_threads() {
  char const* const variable = std::getenv("OMP_STACKSIZE");
  if (auto const bytes = stack_of(without_blanks(variable == nullptr ? "" : variable)); bytes > 0) return bytes;
#if defined(__clang__)
  return std::size_t{4} << 20U; // the default of libomp
#else
  pthread_attr_t attributes;
  std::size_t bytes = 0;
  if (pthread_attr_init(&attributes) != 0) return 0;
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_destroy(&attributes);
  return bytes;
#endif
}

void require_room_for_threads(std::size_t num_threads, std::size_t stack_bytes) {
  if (num_threads < 2 || stack_bytes == 0) return;
  std::size_t const bytes = (num_threads - 1) * stack_bytes;
  void* const room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    throw ResourceError(std::to_string(num_threads) + " threads with stacks of " + std::to_string(stack_bytes >> 10U) +
                        " KiB cannot be started: " + std::strerror(errno) +
                        "; lower OMP_NUM_THREADS or OMP_STACKSIZE, or raise the limit of memory (ulimit -v)");
  }
  munmap(room, bytes);
}

} // namespace varve
