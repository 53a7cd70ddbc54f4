#include "apps/report.hpp"

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/printable.hpp"
#include "core/version.hpp"
#include "io/json_text.hpp"
#include "io/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>

namespace varve {
namespace {

/// A number with three digits and a decimal prefix: "12.3 MB", "4.56 TB".
std::string with_prefix(double number, std::string const& unit) {
  constexpr std::array prefixes = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (std::abs(number) >= 999.5 && prefix + 1 < prefixes.size()) {
    number /= 1000.0;
    ++prefix;
  }
  return fmt::format("{:.3g} {}{}", number, prefixes[prefix], unit);
}

std::string text_of(Json const& fact, std::string const& unit) {
  if (fact.is_string()) return printable(fact.get_ref<std::string const&>());
  if (unit.empty()) return fact.is_number_float() ? fmt::format("{}", fact.get<double>()) : json_text(fact);
  if (unit == "s") return readable_seconds(fact.get<double>());
  if (unit.starts_with('.')) return fmt::format(fmt::runtime("{:" + unit + "}"), fact.get<double>());
  return with_prefix(fact.get<double>(), unit);
}

bool says_nothing(Json const& fact) { return fact == 0 || fact == false || fact == "" || fact.empty(); }

/// line_of() for a part of a pattern; nullopt if a fact is missing or, in an optional part, says nothing.
std::optional<std::string> filled(std::string_view pattern, Json const& facts, bool is_optional) {
  std::string text;
  while (true) {
    auto const begin = pattern.find_first_of("{[");
    text += pattern.substr(0, begin);
    if (begin == std::string_view::npos) return text;
    bool const is_part = pattern[begin] == '[';
    auto const end = pattern.find(is_part ? ']' : '}', begin);
    auto const inner = pattern.substr(begin + 1, end - begin - 1);
    pattern.remove_prefix(end + 1);
    if (is_part) {
      text += filled(inner, facts, true).value_or("");
      continue;
    }
    auto const colon = std::min(inner.find(':'), inner.size());
    Json::json_pointer const path("/" + std::string(inner.substr(0, colon)));
    if (!facts.contains(path) || facts.at(path).is_null()) return std::nullopt;
    auto const& fact = facts.at(path);
    if (is_optional && says_nothing(fact)) return std::nullopt;
    text += text_of(fact, std::string(inner.substr(std::min(colon + 1, inner.size()))));
  }
}

/// The value below which this part (0 to 1) of ascending measurements lies, by linear interpolation.
double quantile(std::vector<double> const& sorted, double part) {
  VARVE_REQUIRE(!sorted.empty(), "nothing was measured");
  double const place = part * static_cast<double>(sorted.size() - 1);
  auto const below = static_cast<std::size_t>(place);
  auto const above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

} // namespace

Json report_head(std::string const& program) {
  return {{"program", program},
          {"version", provenance.version},
          {"numerics", kNumerics},
          {"git_commit", provenance.git_commit},
          {"compiler", provenance.compiler},
          {"build_type", provenance.build_type},
          {"kokkos_version", provenance.kokkos_version},
          {"host", host_name()},
          {"date", fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))}};
}

std::string line_of(std::string_view pattern, Json const& facts) { return filled(pattern, facts, false).value_or(""); }

void print_lines(std::vector<std::string_view> const& patterns, Json const& facts) {
  for (auto const pattern : patterns)
    if (auto const line = line_of(pattern, facts); !line.empty()) fmt::print("{}\n", line);
}

std::string list_of(std::vector<std::string> const& texts) { return fmt::format("{}", fmt::join(texts, ", ")); }

std::string list_of_first(std::size_t most, std::vector<std::size_t> numbers, std::size_t added) {
  bool const are_more = numbers.size() > most;
  numbers.resize(std::min(most, numbers.size()));
  for (auto& number : numbers) number += added;
  return fmt::format("{}{}", fmt::join(numbers, ", "), are_more ? ", ..." : "");
}

void add_devices(Json& report, std::vector<RankDevice> const& ranks) {
  report["ranks"] = ranks.size();
  for (auto const& rank : ranks) {
    report["devices"].push_back(rank.device);
    report["hosts"].push_back(rank.host);
  }
}

void print_devices(Json const& report) {
  constexpr std::size_t most = 16; // lines on the terminal; the JSON report has all ranks
  auto const& devices = report["devices"];
  for (std::size_t rank = 0; devices.size() > 1 && rank < std::min(devices.size(), most); ++rank) {
    fmt::print("rank      {} on {}: {}{}\n", rank, report["hosts"][rank].get<std::string>(),
               devices[rank].get<std::string>(), rank + 1 == most && devices.size() > most ? ", ..." : "");
  }
}

Json describe(ReductionReport const& found) {
  return {{"neurons_before", found.neurons_before}, {"neurons_after", found.neurons_after},
          {"edges_before", found.edges_before},     {"edges_after", found.edges_after},
          {"merged_neurons", found.merged_neurons}, {"constant_neurons", found.constant_neurons},
          {"unread_neurons", found.unread_neurons}, {"seconds", found.seconds},
          {"read_seconds", found.read_seconds}};
}

void add_rewrites(Json& report, Plan const& plan) {
  if (plan.reduction) report["reductions"] = describe(*plan.reduction);
  if (plan.saturates_from) report["reductions"]["saturates_from_layer"] = *plan.saturates_from;
  if (!plan.edge_order || plan.edge_order->num_layers == 0) return;
  auto const& order = *plan.edge_order;
  report["edge_order"] = {{"layers", order.num_layers},
                          {"steps", order.chosen.num_steps},
                          {"wavefronts", order.chosen.num_wavefronts},
                          {"steps_ascending", order.ascending.num_steps},
                          {"wavefronts_ascending", order.ascending.num_wavefronts},
                          {"thread_seconds", order.seconds},
                          {"description", to_text(order)}};
}

void print_reductions(Json const& found) {
  bool const is_smaller = found.contains("neurons_before") && found["neurons_after"] != found["neurons_before"];
  print_lines({is_smaller ? "reduced   neurons from {neurons_before} to {neurons_after} ({merged_neurons} merged, "
                            "{constant_neurons} constant, {unread_neurons} unread), edges from {edges_before} to "
                            "{edges_after}, in {seconds:.3f} s"
                          : "",
               "reduced   a sample whose activations all equal the cap after {saturates_from_layer} layers or more "
               "leaves: its result is known"},
              found);
}

Json statistics_of(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  double const median = quantile(seconds, 0.5);
  double const middle_half = quantile(seconds, 0.75) - quantile(seconds, 0.25);
  return {{"median", median},
          {"spread", median > 0.0 ? middle_half / median : 0.0},
          {"min", seconds.front()},
          {"p50", median},
          {"p95", quantile(seconds, 0.95)},
          {"p99", quantile(seconds, 0.99)},
          {"measurements", seconds.size()}};
}

void write_report(std::string const& path, Json const& report) {
  OutputFile file(path);
  file.write(json_text(report, 2) + "\n");
  file.commit();
}

std::string readable_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1.0) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

void open_missing_streams() {
  for (int const number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free descriptor, which is this one. Reading from a folder fails, and so does writing to
    // a descriptor opened for reading.
    static_cast<void>(number == STDIN_FILENO ? open("/", O_RDONLY | O_DIRECTORY) : open("/dev/null", O_RDONLY));
  }
}

void say(std::string const& sentence) {
  std::fputs((sentence + "\n").c_str(), stderr);
  std::fflush(stderr);
}

std::string failure_of_output() {
  int const status = std::fflush(stdout);
  int const error = errno;
  if (status != 0) return fmt::format("standard output cannot be written: {}", std::strerror(error));
  if (std::ferror(stdout) != 0) return "standard output cannot be written";
  return {};
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

void flush_output() {
  if (auto const failure = failure_of_output(); !failure.empty()) throw ResourceError(failure);
}

int exit_code_of_streams(int exit_code) {
  constexpr int not_written = static_cast<int>(ErrorKind::resource);
  bool const has_spoken = exit_code > 1; // an error was printed already, about standard output if that failed earlier
  auto failure = failure_of_output();
  // Some file systems report a full disk only when a file is closed.
  int const copy = failure.empty() ? dup(STDOUT_FILENO) : -1;
  if (copy >= 0 && close(copy) != 0)
    failure = fmt::format("standard output cannot be written: {}", std::strerror(errno));
  if (!failure.empty() && !has_spoken) say("varve: " + failure);
  return !failure.empty() || std::ferror(stderr) != 0 ? not_written : exit_code;
}

} // namespace varve
