#include "apps/standard_streams.hpp"

#include "core/error.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace varve {

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
