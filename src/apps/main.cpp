#include "apps/report.hpp"
#include "apps/session.hpp"
#include "core/error.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>

namespace {

/// Raises the limit of open files if it is too low: MPI ends a process that lacks descriptors without an error of ours.
/// Returns a sentence if the limit cannot be raised.
std::string obstacle_of_descriptors() {
  constexpr rlim_t fewest = 64;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= fewest) return {};
  limit.rlim_cur = std::min(fewest, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= fewest) return {};
  return fmt::format("varve: this process may have {} files open at a time (ulimit -n), expected at least {}",
                     limit.rlim_max, fewest);
}

} // namespace

int main(int num_arguments, char** arguments) {
  varve::open_missing_streams();
  // writing beyond the file size limit then fails with an error instead of ending the process
  std::signal(SIGXFSZ, SIG_IGN);
  int exit_code = static_cast<int>(varve::ErrorKind::resource);
  if (auto const obstacle = obstacle_of_descriptors(); !obstacle.empty()) {
    varve::say(obstacle);
  } else {
    exit_code = varve::Session().run(num_arguments, arguments);
  }
  return varve::exit_code_of_streams(exit_code);
}
