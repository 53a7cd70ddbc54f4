#pragma once

#include "io/files.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace varve::test {

/// A program that has ended: its exit code (-1 if it was stopped because it took too long, or died of a signal) and
/// what it printed.
struct Ended {
  int exit_code = -1;
  std::string out;
  std::string err;

  /// The lines of standard error.
  std::vector<std::string> complaints() const {
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < err.size();) {
      auto const end = std::min(err.find('\n', begin), err.size());
      lines.push_back(err.substr(begin, end - begin));
      begin = end + 1;
    }
    return lines;
  }
};

/// A word of a line of the shell, whatever it holds but apostrophes: folders may have spaces in their names.
inline std::string quoted(std::string const& word) { return "'" + word + "'"; }

/// Where Open MPI keeps what belongs to the runs of this test program. (Programs that start and end at the same time
/// remove folders that they share, and then say "orte_init failed".)
inline std::string session_folder() {
  static varve::test::TemporaryFolder const folder;
  return folder.path().string();
}

/// The variable that loads a library into a program before all others. The loader takes a space for the end of a path,
/// so it gets a link to the library.
inline std::string preloading(std::filesystem::path const& library) {
  auto const link = std::filesystem::path(session_folder()) / library.filename();
  if (!std::filesystem::exists(link)) std::filesystem::create_symlink(library, link);
  return "LD_PRELOAD=" + link.string();
}

/// Starts a program.
inline pid_t start(std::vector<std::string> const& words, std::string const& out, std::string const& err) {
  auto sessions = "OMPI_MCA_orte_tmpdir_base=" + session_folder();
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  environment.push_back(sessions.data());
  environment.push_back(nullptr);
  std::vector<char*> arguments;
  for (auto const& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t process = 0;
  int const error = posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error(words[0] + " cannot be started");
  return process;
}

/// Waits for a program; stops it after a while, so that a test fails rather than hangs.
inline int wait_for(pid_t process) {
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(240);
  int status = 0;
  while (waitpid(process, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(process, SIGTERM);
      waitpid(process, &status, 0);
      ADD_FAILURE() << "the program had to be stopped";
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Runs a program to its end.
inline Ended run(std::vector<std::string> const& words) {
  varve::test::TemporaryFolder const folder;
  auto const out = (folder / "out").string();
  auto const err = (folder / "err").string();
  Ended ended;
  ended.exit_code = wait_for(start(words, out, err));
  ended.out = varve::test::read_bytes(out);
  ended.err = varve::test::read_bytes(err);
  return ended;
}

/// Runs the command of this build in this process, which starts MPI and Kokkos at most once. Its standard input is
/// empty. What it prints goes to a file meanwhile; if it ends the process, that is printed on standard error with the
/// name of the test.
Ended run_varve(std::vector<std::string> words);

/// Runs the command of this build in a process of its own: for what acts on a whole process, such as options and
/// variables of Kokkos and OpenMP, and for devices that take memory from others.
inline Ended run_varve_process(std::vector<std::string> words) {
  words.insert(words.begin(), VARVE_COMMAND);
  return run(words);
}

/// Runs the command, by one of the functions above, and expects success without a word on standard error.
inline Ended succeed(std::vector<std::string> const& words, Ended (*run_one)(std::vector<std::string>) = run_varve) {
  auto const ended = run_one(words);
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  return ended;
}

/// The hash in what varve multiply printed.
inline std::string hash_in(std::string const& out) { return out.substr(out.rfind("hash ") + 5, 16); }

} // namespace varve::test
