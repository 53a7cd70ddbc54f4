#pragma once

#include "io/files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace varve::test {

/// A gate at which runs wait when so much of their journals is written (wait_at_record.cpp), so that a test can disturb
/// them there, however fast they are.
class Gate {
public:
  /// Runs wait once the files whose names begin with `journal` hold so many bytes.
  Gate(std::filesystem::path const& journal, std::uintmax_t bytes)
      : journal_(std::filesystem::canonical(journal.parent_path()) / journal.filename()), bytes_(bytes) {
    EXPECT_EQ(mkfifo(pipe().c_str(), 0600), 0);
  }
  ~Gate() {
    if (opened_ >= 0) close(opened_);
  }
  Gate(Gate const&) = delete;
  Gate& operator=(Gate const&) = delete;

  /// The words of a command whose runs wait at this gate.
  std::vector<std::string> before(std::vector<std::string> const& command) const {
    std::vector<std::string> words = {"env",
                                      "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0",
                                      test::preloading(VARVE_WAIT_AT_RECORD),
                                      "VARVE_WAIT_FILES=" + journal_.string(),
                                      "VARVE_WAIT_BYTES=" + std::to_string(bytes_),
                                      "VARVE_WAIT_GATE=" + pipe()};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  /// Returns true once a run waits at the gate, false if the process that started it has ended before.
  bool await(pid_t process) const {
    while (!std::filesystem::exists(pipe() + ".reached")) {
      siginfo_t info{}; // leaves the exit code to others
      if (waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0)
        return std::filesystem::exists(pipe() + ".reached");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  /// Lets all runs pass, those too that come later, while this object lives.
  void open_for_all() {
    opened_ = open(pipe().c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_GE(opened_, 0);
  }

private:
  std::string pipe() const { return (folder_ / "gate").string(); }

  varve::test::TemporaryFolder folder_;
  std::filesystem::path journal_;
  std::uintmax_t bytes_;
  int opened_ = -1;
};

} // namespace varve::test
