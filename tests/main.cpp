#include "core/runtime.hpp"
#include "distribute/communicator.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

/// Main of the tests of a folder:
///   tests_FOLDER [--files=a_test.cpp,b_test.cpp] [--host | --commands] [options of GoogleTest and Kokkos]
/// --files: the cases of these files only; a name that holds no case is an error. --host: Kokkos does not start, for
/// tests that use no device. --commands: nothing starts, for tests of commands, which start what they need. Ranks that
/// mpirun starts run all chosen cases each.
/// In place of the C library's. Ranks that wait call it in a loop (Open MPI with mpi_yield_when_idle). The scheduler
/// gives the core to another process then, for a whole turn of some milliseconds if the machine is busy, and a test
/// waits thousands of times. A process that sleeps gets its core as soon as it wakes.
extern "C" int sched_yield() noexcept {
  timespec const pause{0, 20000}; // 20 us
  return nanosleep(&pause, nullptr);
}

namespace {

/// Takes `name=value` out of the arguments, which keep their order.
std::optional<std::string> take_option(int& num_arguments, char** arguments, std::string_view name) {
  auto* const end = arguments + num_arguments;
  auto* const found = std::find_if(arguments + 1, end, [&](char const* word) {
    std::string_view const text = word;
    return text.starts_with(name) && (text.size() == name.size() || text[name.size()] == '=');
  });
  if (found == end) return std::nullopt;
  auto value = std::string(*found).substr(std::min(std::string_view(*found).size(), name.size() + 1));
  std::copy(found + 1, end, found);
  --num_arguments;
  return value;
}

std::vector<std::string> split(std::string const& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    auto const end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

/// Lets GoogleTest run the cases of these files only, without those that a filter from the environment excludes
/// (GTEST_FILTER=-*double*). False if one of the files has none.
bool choose_files(std::vector<std::string> const& names) {
  std::string filter;
  auto const given = GTEST_FLAG_GET(filter);
  std::set<std::string> found;
  auto const& tests = *testing::UnitTest::GetInstance();
  for (int suite = 0; suite < tests.total_test_suite_count(); ++suite) {
    auto const& cases = *tests.GetTestSuite(suite);
    for (int number = 0; number < cases.total_test_count(); ++number) {
      auto const& test = *cases.GetTestInfo(number);
      std::string_view const file = test.file();
      auto const base = std::string(file.substr(file.rfind('/') + 1));
      if (std::ranges::find(names, base) == names.end()) continue;
      found.insert(base);
      filter += fmt::format("{}.{}:", cases.name(), test.name());
    }
  }
  for (auto const& name : names) {
    if (!found.contains(name)) fmt::print(stderr, "{} holds no test case of this program\n", name);
  }
  GTEST_FLAG_SET(filter, given.starts_with('-') ? filter + given : filter);
  return found.size() == names.size();
}

} // namespace

int main(int num_arguments, char** arguments) {
  auto const files = take_option(num_arguments, arguments, "--files");
  bool const is_on_host = take_option(num_arguments, arguments, "--host").has_value();
  bool const is_of_commands = take_option(num_arguments, arguments, "--commands").has_value();
  std::optional<varve::ParallelEnvironment> parallel;
  if (!is_of_commands) parallel.emplace(num_arguments, arguments, varve::StartMpi::if_launched);
  std::optional<varve::Runtime> devices;
  if (is_on_host) {
    varve::start_on_host(num_arguments, arguments);
  } else if (!is_of_commands) {
    devices.emplace(num_arguments, arguments);
  }
  testing::InitGoogleTest(&num_arguments, arguments);
  if (files && !choose_files(split(*files))) return 2;
  return RUN_ALL_TESTS();
}
