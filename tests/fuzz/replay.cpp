#include "fuzz/container_mutants.hpp"
#include "fuzz/target.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

/// Main of the tests of the ordinary builds: reads the files of some folders through one fuzz target, without
/// libFuzzer.
///   tests_fuzz TARGET FOLDER... [--seeds FOLDER...] [--mutants COUNT]
/// All of them may be refused, those of folders behind --seeds must be accepted. With --mutants, which is for
/// containers, so many mutants of the files of folders behind --seeds are read, too, or as many as VARVE_FUZZ_MUTANTS
/// says.
namespace {

namespace fs = std::filesystem;

constexpr double max_seconds = 10.0;  ///< limit for one input
constexpr long max_kibibytes = 98304; ///< limit of the growth of this process or a child: 64 MiB and room to run

/// Inputs that were read.
struct Counts {
  std::size_t read = 0;
  std::size_t accepted = 0;
  std::size_t bad = 0;
};

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
std::string judge(varve::fuzz::Target target, std::string const& bytes, bool must_be_accepted, long memory_before,
                  Counts& counts) {
  auto const begin = std::chrono::steady_clock::now();
  try {
    bool const is_accepted = varve::fuzz::read_and_check(target, bytes);
    ++counts.read;
    counts.accepted += is_accepted ? 1 : 0;
    if (must_be_accepted && !is_accepted) return "a file that Varve wrote was refused";
  } catch (std::exception const& failure) {
    return failure.what();
  }
  std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
  if (seconds.count() > max_seconds) return fmt::format("took {:.1f} seconds", seconds.count());
  auto const grown = std::max(peak_memory(RUSAGE_SELF), peak_memory(RUSAGE_CHILDREN)) - memory_before;
  if (grown > max_kibibytes) return fmt::format("took {} KiB of memory", grown);
  return "";
}

/// Reads mutants of all of these files, as many of each. A crash leaves its mutant in the scratch folder.
void read_mutants(varve::fuzz::Target target, std::vector<fs::path> const& files, std::size_t count, long memory,
                  Counts& counts) {
  for (std::size_t number = 0; number < count; ++number) {
    auto const& file = files[number % files.size()];
    auto const mutant = varve::fuzz::ContainerMutator(number).mutant_of(bytes_of(file));
    auto const wrong = judge(target, mutant, false, memory, counts);
    if (wrong.empty()) continue;
    ++counts.bad;
    auto const kept = fs::temp_directory_path() / fmt::format("varve-mutant-{}", number);
    std::ofstream(kept, std::ios::binary) << mutant;
    fmt::print("{}, mutant {} of {}: {}\n", kept.string(), number, file.string(), wrong);
  }
}

} // namespace

int main(int num_arguments, char** arguments) {
  std::vector<std::string> const words(arguments + 1, arguments + num_arguments);
  if (words.size() < 2) {
    fmt::print(stderr, "usage: tests_fuzz TARGET FOLDER... [--seeds FOLDER...] [--mutants COUNT]\n");
    return 2;
  }
  auto const target = varve::fuzz::find_target(words[0]);
  Counts counts;
  std::vector<fs::path> seeds;
  bool are_seeds = false;
  varve::fuzz::scratch_folder();
  auto const memory = peak_memory(RUSAGE_SELF);
  for (std::size_t number = 1; number < words.size(); ++number) {
    if (words[number] == "--seeds") {
      are_seeds = true;
      continue;
    }
    if (words[number] == "--mutants" && number + 1 < words.size()) {
      char const* const wanted = std::getenv("VARVE_FUZZ_MUTANTS");
      read_mutants(target, seeds, std::stoul(wanted != nullptr ? wanted : words[number + 1]), memory, counts);
      break;
    }
    auto const files = files_of(words[number]);
    if (files.empty()) fmt::print("{} holds no file\n", words[number]);
    counts.bad += files.empty() ? 1 : 0;
    for (auto const& file : files) {
      std::fputs((file.string() + "\n").c_str(), stderr); // the last one named is that of a crash
      auto const wrong = judge(target, bytes_of(file), are_seeds, memory, counts);
      if (are_seeds) seeds.push_back(file);
      if (wrong.empty()) continue;
      ++counts.bad;
      fmt::print("{}: {}\n", file.string(), wrong);
    }
  }
  fmt::print("{} inputs, {} of them accepted, {} badly read\n", counts.read, counts.accepted, counts.bad);
  return counts.read > 0 && counts.bad == 0 ? 0 : 1;
}
