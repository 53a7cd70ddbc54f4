#pragma once

#include "io/challenge.hpp"

#include <cstddef>
#include <filesystem>
#include <vector>

namespace varve {

/// The width of a network and its files in layer order.
struct ChallengeFiles {
  std::size_t neurons = 0;
  std::vector<std::filesystem::path> paths;
};

/// Finds the files that open_challenge_network reads. Throws as it does.
ChallengeFiles find_challenge_files(std::filesystem::path const& folder, ChallengeOptions const& options);

} // namespace varve
