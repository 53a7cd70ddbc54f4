#include "fuzz/target.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

/// Main of the tests of the ordinary builds: reads the files of some folders through one fuzz target, without
/// libFuzzer.
///   tests_fuzz TARGET FOLDER... [--seeds FOLDER...]
/// All of them may be refused, those of folders behind --seeds must be accepted.
namespace {

namespace fs = std::filesystem;

constexpr double most_seconds = 10.0;  ///< limit for one input
constexpr long most_kibibytes = 98304; ///< limit of the growth of this process or a child: 64 MiB and room to run

std::vector<fs::path> files_of(fs::path const& folder) {
  std::vector<fs::path> files;
  for (auto const& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::string bytes_of(fs::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The most memory that processes of this kind have held, in KiB.
long peak_memory(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return usage.ru_maxrss;
}

/// What is wrong with how this input was read; nothing if all is well.
std::string judge(varve::fuzz::Target target, std::string const& bytes, bool must_be_accepted, long memory_before) {
  auto const begin = std::chrono::steady_clock::now();
  try {
    bool const is_accepted = varve::fuzz::read_and_check(target, bytes);
    if (must_be_accepted && !is_accepted) return "a file that Varve wrote was refused";
  } catch (std::exception const& failure) {
    return failure.what();
  }
  std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
  if (seconds.count() > most_seconds) return fmt::format("took {:.1f} seconds", seconds.count());
  auto const grown = std::max(peak_memory(RUSAGE_SELF), peak_memory(RUSAGE_CHILDREN)) - memory_before;
  if (grown > most_kibibytes) return fmt::format("took {} KiB of memory", grown);
  return "";
}

} // namespace

int main(int num_arguments, char** arguments) {
  std::vector<std::string> const words(arguments + 1, arguments + num_arguments);
  if (words.size() < 2) {
    fmt::print(stderr, "usage: tests_fuzz TARGET FOLDER... [--seeds FOLDER...]\n");
    return 2;
  }
  auto const target = varve::fuzz::find_target(words[0]);
  std::size_t num_read = 0;
  std::size_t num_bad = 0;
  bool are_seeds = false;
  varve::fuzz::scratch_folder();
  auto const memory = peak_memory(RUSAGE_SELF);
  for (auto const& argument : std::span(words).subspan(1)) {
    if (argument == "--seeds") {
      are_seeds = true;
      continue;
    }
    auto const files = files_of(argument);
    if (files.empty()) fmt::print("{} holds no file\n", argument);
    num_bad += files.empty() ? 1 : 0;
    for (auto const& file : files) {
      std::fputs((file.string() + "\n").c_str(), stderr); // the last one named is that of a crash
      auto const wrong = judge(target, bytes_of(file), are_seeds, memory);
      ++num_read;
      if (wrong.empty()) continue;
      ++num_bad;
      fmt::print("{}: {}\n", file.string(), wrong);
    }
  }
  fmt::print("{} inputs, {} of them badly read\n", num_read, num_bad);
  return num_read > 0 && num_bad == 0 ? 0 : 1;
}
