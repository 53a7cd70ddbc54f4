#include "apps/command.hpp"

#include "apps/standard_streams.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace varve {

void check_files(FileRoles const& files) {
  files.require_sound();
  for (auto const& left : files.remove_leftovers()) {
    say(fmt::format(
        "varve: {} was left by a run that was killed, or belongs to one that still runs; remove it if none does",
        left.string()));
  }
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

} // namespace varve
