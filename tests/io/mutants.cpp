#include "core/error.hpp"
#include "io/open.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

/// A tool, run by hand (see mutants.py): what becomes of HDF5 files of which one byte has changed.
///   io_mutants FILE...        every byte of each file, four other values each; prints how many were taken, refused,
///   ... io_mutants --cost FILE    seconds that the trial in child processes and reading the file take, by clock and
///   processor
namespace varve {
namespace {

namespace fs = std::filesystem;

constexpr double longest_seconds = 10.0; // limit of processor time, on which other load has no effect
constexpr double most_patience = 120.0;  // limit of wall-clock time, in seconds
constexpr int is_refused = 3;            // exit code of a child
constexpr long most_kibibytes = 1 << 20;

void read_file(fs::path const& path, bool is_samples) {
  if (is_samples) {
    open_samples(path, std::nullopt);
  } else {
    load(*open_network(path));
  }
}

double seconds_of(timeval time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); }

struct Counts {
  long accepted = 0, refused = 0, crashed = 0, slow = 0, large = 0;
  long largest_kibibytes = 0;
  double slowest_seconds = 0.0;
};

/// Reads a file in a child; true if nothing is wrong with how that went.
bool try_mutant(fs::path const& path, bool is_samples, Counts& counts) {
  auto const begin = std::chrono::steady_clock::now();
  auto const seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  pid_t const child = fork();
  if (child == 0) {
    try {
      read_file(path, is_samples);
      _exit(0);
    } catch (Error const&) {
      _exit(is_refused);
    }
  }
  int status = 0;
  rusage usage{};
  bool is_killed = false;
  while (wait4(child, &status, WNOHANG, &usage) == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (is_killed || seconds() <= most_patience) continue;
    is_killed = true;
    kill(child, SIGKILL);
  }
  auto const processor_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  bool const is_slow = is_killed || processor_seconds > longest_seconds;
  bool const is_large = usage.ru_maxrss > most_kibibytes;
  int const code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  bool const is_crash = !is_killed && code != 0 && code != is_refused;
  counts.accepted += code == 0 ? 1 : 0;
  counts.refused += code == is_refused ? 1 : 0;
  counts.crashed += is_crash ? 1 : 0;
  counts.slow += is_slow ? 1 : 0;
  counts.large += is_large ? 1 : 0;
  counts.largest_kibibytes = std::max(counts.largest_kibibytes, usage.ru_maxrss);
  counts.slowest_seconds = std::max(counts.slowest_seconds, processor_seconds);
  return !is_crash && !is_slow && !is_large;
}

/// Zeros within many zeros are space that nothing uses yet: every fourth of them is enough.
bool is_padding(std::string const& bytes, std::size_t place) {
  constexpr std::size_t around = 16;
  auto const begin = place < around ? 0 : place - around;
  return bytes.find_first_not_of('\0', begin) > place + around;
}

/// The values that a byte takes in mutants: one that its place chooses, or all four.
std::set<int> other_values(std::string const& bytes, std::size_t place, bool takes_all) {
  auto const byte = static_cast<unsigned char>(bytes[place]);
  std::array<int, 4> const values = {byte == 0xff ? 0x00 : 0xff, byte ^ 0x01, byte ^ 0x80, byte == 0x00 ? 0x08 : 0x00};
  if (takes_all) return {values.begin(), values.end()};
  if (is_padding(bytes, place) && place % 4 != 0) return {};
  return {values[place * 2654435761U / 256 % 4]};
}

bool try_mutants_of(fs::path const& original, bool takes_all) {
  std::ifstream file(original, std::ios::binary);
  std::string const bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  bool const is_samples = holds_samples(original);
  auto const mutant = fs::temp_directory_path() / fmt::format("varve-mutant-{}.safetensors", getpid());
  Counts counts;
  for (std::size_t place = 0; place < bytes.size(); ++place) {
    for (int const value : other_values(bytes, place, takes_all)) {
      auto changed = bytes;
      changed[place] = static_cast<char>(value);
      std::ofstream(mutant, std::ios::binary) << changed;
      if (!try_mutant(mutant, is_samples, counts))
        fmt::print("{}: byte {} as {:#04x} does what no file may\n", original.string(), place, value);
    }
  }
  fs::remove(mutant);
  fmt::print("{}: {} bytes; mutants {} accepted, {} refused, {} crashed, {} over {} s, {} over 1 GiB; slowest {:.1f} s "
             "of processor time, "
             "largest {} MiB\n",
             original.filename().string(), bytes.size(), counts.accepted, counts.refused, counts.crashed, counts.slow,
             longest_seconds, counts.large, counts.slowest_seconds, counts.largest_kibibytes / 1024);
  std::fflush(stdout);
  return counts.crashed + counts.slow + counts.large == 0;
}

double cpu_seconds(__rusage_who who) {
  rusage usage{};
  getrusage(who, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

void print_cost(fs::path const& path) {
  auto const clock = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  auto const begin = clock();
  auto const self = cpu_seconds(RUSAGE_SELF);
  try_out_hdf5(path);
  auto const tried_at = clock();
  auto const tried = cpu_seconds(RUSAGE_SELF);
  read_file(path, holds_samples(path));
  fmt::print("{}: trial {:.3f} s ({:.3f} s of processor time), reading {:.3f} s ({:.3f} s)\n", path.filename().string(),
             tried_at - begin, cpu_seconds(RUSAGE_CHILDREN) + tried - self, clock() - tried_at,
             cpu_seconds(RUSAGE_SELF) - tried);
}

} // namespace
} // namespace varve

int main(int num_arguments, char** arguments) {
  std::vector<std::string_view> const words(arguments + 1, arguments + num_arguments);
  if (words.size() == 2 && words[0] == "--cost") {
    varve::print_cost(words[1]);
    return 0;
  }
  bool is_fine = !words.empty();
  bool const takes_all = words.size() > 1 && words[0] == "--all";
  for (std::size_t word = takes_all ? 1 : 0; word < words.size(); ++word)
    is_fine = varve::try_mutants_of(words[word], takes_all) && is_fine;
  return is_fine ? 0 : 1;
}
