#pragma once

#include "core/backend.hpp"
#include "distribute/communicator.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace varve {

/// The device on which one rank of a job computes. Kokkos assigns the devices of a host to its ranks in turn, by local
/// rank.
struct RankDevice {
  std::string host;
  std::string device;   ///< readable name, such as "NVIDIA H200 (device 0)"
  std::string identity; ///< worldwide unique identity of a GPU, which ranks should not share; empty for processors
};

/// The device that Kokkos has chosen on this rank for a backend.
RankDevice device_of_this_rank(Backend backend);

/// The number of ranks that pass this text. Collective.
std::size_t num_ranks_with(Communicator const& communicator, std::string const& text);

/// The name of a device without its number: equal for devices that are equally fast.
std::string kind_of(RankDevice const& device);

/// Throws ResourceError, naming both ranks, if two ranks use one device.
void require_own_devices(std::vector<RankDevice> const& devices);

/// Which rank of a job computes where.
struct RankPlaces {
  RankDevice own;
  std::vector<RankDevice> devices;   ///< of all ranks, in rank order, on rank 0; empty on others
  std::size_t num_ranks_on_device;   ///< with this rank; a CPU is the device of all ranks that compute on it
  std::size_t num_ranks_on_host = 1; ///< with this rank
};

/// Finds out where all ranks compute with a backend. Throws ResourceError if two of them use one device, unless
/// `share_devices`. Collective.
RankPlaces place_ranks(Communicator const& communicator, Backend backend, bool share_devices);

} // namespace varve
