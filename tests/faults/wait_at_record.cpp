#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace {

/// The path of an open file.
std::string path_of(int descriptor) {
  char path[4096];
  auto const link = "/proc/self/fd/" + std::to_string(descriptor);
  auto const length = readlink(link.c_str(), path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
}

/// Bytes in all files whose names begin so.
off_t bytes_of(std::string const& beginning) {
  glob_t found{};
  off_t bytes = 0;
  if (glob((beginning + "*").c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      struct stat status {};
      if (stat(found.gl_pathv[i], &status) == 0) bytes += status.st_size;
    }
  }
  globfree(&found);
  return bytes;
}

} // namespace

/// Takes the place of the C library's function in a program that loads this first: when files whose names begin with
/// VARVE_WAIT_FILES hold VARVE_WAIT_BYTES or more, a program that has just synchronized one of them makes the file
/// VARVE_WAIT_GATE.reached, and waits until somebody opens the pipe VARVE_WAIT_GATE to write to it.
extern "C" int fsync(int descriptor) {
  static auto* const real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fsync"));
  int const result = real(descriptor);
  int const error = errno;
  std::string const files = std::getenv("VARVE_WAIT_FILES");
  if (path_of(descriptor).starts_with(files) && bytes_of(files) >= std::atoll(std::getenv("VARVE_WAIT_BYTES"))) {
    std::string const gate = std::getenv("VARVE_WAIT_GATE");
    close(open((gate + ".reached").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    int pipe = -1;
    while ((pipe = open(gate.c_str(), O_RDONLY | O_CLOEXEC)) < 0 && errno == EINTR) {
    }
    if (pipe >= 0) close(pipe);
  }
  errno = error;
  return result;
}
