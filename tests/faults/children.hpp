#pragma once

#include <sys/types.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

namespace varve::test {

/// The processes that a process has started.
inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code error;
  for (auto const& entry : std::filesystem::directory_iterator("/proc", error)) {
    auto const name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string line; // empty if the process has just ended
    std::getline(std::ifstream(entry.path() / "stat"), line);
    auto const end_of_name = line.rfind(") "); // "pid (name) state parent ..."
    if (end_of_name == std::string::npos || line.size() < end_of_name + 4) continue;
    if (std::atoi(line.c_str() + end_of_name + 4) == parent) children.push_back(std::stoi(name));
  }
  return children;
}

} // namespace varve::test
