#include "apps/report.hpp"
#include "apps/session.hpp"
#include "apps/subprocess.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

/// There in a build with a sanitizer only, which calls this function before it ends the process.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak)); // NOLINT

namespace varve::test {
namespace {

constexpr std::array<int, 5> deadly_signals = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};

/// The standard error of this process and the name of the test, while a command runs; else -1.
int volatile standard_error = -1;
std::array<char, 256> running_test{};

void write_out(char const* bytes, std::size_t count) {
  for (std::size_t first = 0; first < count;) {
    auto const written = write(standard_error, bytes + first, count - first);
    if (written <= 0) return;
    first += static_cast<std::size_t>(written);
  }
}

/// Prints what a command has said, if one runs. Calls functions only that a signal handler may call.
void print_last_words() {
  if (standard_error < 0) return;
  write_out(running_test.data(), std::strlen(running_test.data()));
  std::array<char, 4096> buffer{};
  for (int const stream : {STDOUT_FILENO, STDERR_FILENO}) {
    off_t place = 0;
    for (ssize_t count = 0; (count = pread(stream, buffer.data(), buffer.size(), place)) > 0; place += count)
      write_out(buffer.data(), static_cast<std::size_t>(count));
  }
}

extern "C" void end_by_signal(int number) {
  print_last_words();
  std::signal(number, SIG_DFL);
  raise(number);
}

/// A command that calls exit() ends the test program, which must not count as success.
void end_by_exit() {
  if (standard_error < 0) return;
  std::fflush(nullptr);
  print_last_words();
  _exit(1);
}

/// The streams of this process, while they are files of a command.
class Redirection {
public:
  Redirection(std::string const& out, std::string const& err) {
    auto const* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::snprintf(running_test.data(), running_test.size(), "A command ended the test program in %s.%s:\n",
                  test == nullptr ? "the preparation" : test->test_suite_name(), test == nullptr ? "" : test->name());
    std::fflush(nullptr);
    for (int stream = 0; stream < 3; ++stream)
      before_[static_cast<std::size_t>(stream)] = fcntl(stream, F_DUPFD_CLOEXEC, 3);
    replace(STDIN_FILENO, open("/dev/null", O_RDONLY | O_CLOEXEC));
    replace(STDOUT_FILENO, open(out.c_str(), O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    replace(STDERR_FILENO, open(err.c_str(), O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    standard_error = before_[STDERR_FILENO];
  }
  ~Redirection() {
    std::fflush(nullptr);
    standard_error = -1;
    for (int stream = 0; stream < 3; ++stream) replace(stream, before_[static_cast<std::size_t>(stream)]);
  }
  Redirection(Redirection const&) = delete;
  Redirection& operator=(Redirection const&) = delete;

private:
  static void replace(int stream, int descriptor) {
    dup2(descriptor, stream);
    close(descriptor);
  }

  std::array<int, 3> before_{};
};

/// Restores a limit of this process that a command lowers for itself (limit_memory_to_available).
class KeptLimit {
public:
  KeptLimit() : is_known_(getrlimit(RLIMIT_DATA, &before_) == 0) {}
  ~KeptLimit() {
    if (is_known_) setrlimit(RLIMIT_DATA, &before_);
  }
  KeptLimit(KeptLimit const&) = delete;
  KeptLimit& operator=(KeptLimit const&) = delete;

private:
  rlimit before_{};
  bool is_known_ = false;
};

/// What the commands of this process share, from the first command to the end of the tests.
std::unique_ptr<Session> session; // NOLINT

class SessionOfTests : public ::testing::Environment {
  void SetUp() override {
    std::atexit(end_by_exit);
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(print_last_words);
    for (int const number : deadly_signals) {
      struct sigaction before {};
      if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL) std::signal(number, end_by_signal);
    }
    session = std::make_unique<Session>();
  }
  void TearDown() override { session.reset(); }
};

auto* const environment = ::testing::AddGlobalTestEnvironment(new SessionOfTests); // NOLINT

} // namespace

Ended run_varve(std::vector<std::string> words) {
  words.insert(words.begin(), VARVE_COMMAND);
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  varve::test::TemporaryFolder const folder;
  auto const out = (folder / "out").string();
  auto const err = (folder / "err").string();
  Ended ended;
  {
    Redirection const streams(out, err);
    KeptLimit const memory;
    ended.exit_code = exit_code_of_streams(session->run(static_cast<int>(words.size()), arguments.data()));
  }
  ended.out = varve::test::read_bytes(out);
  ended.err = varve::test::read_bytes(err);
  return ended;
}

} // namespace varve::test
