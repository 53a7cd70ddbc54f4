#pragma once

#include "core/backend.hpp"

#include <string>
#include <vector>

namespace varve {

/// What one rank of a job computes on. Kokkos gives the ranks of a host its devices in turn, by their local rank.
struct RankDevice {
  std::string host;
  std::string device;   ///< for people: "NVIDIA H200 (device 0)"
  std::string identity; ///< of a device that ranks should not share, unique in the world; empty for processors
};

RankDevice device_of_this_rank(Backend backend);

/// Throws ResourceError, naming both ranks, if two of them use one device.
void require_own_devices(std::vector<RankDevice> const& devices);

} // namespace varve
