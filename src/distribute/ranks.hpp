#pragma once

#include "core/backend.hpp"
#include "core/error.hpp"
#include "distribute/communicator.hpp"
#include "engine/rank_exchange.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace varve {

/// Throws an error of this kind unless all ranks pass the same values, by name. Its sentence says the first that
/// differs and ends with `ending`. Each rank has its own command line and its own files, so all that outputs or the
/// number of messages between ranks depend on is compared before work begins. Collective.
void require_agreement(Communicator const& communicator, nlohmann::ordered_json const& mine, ErrorKind kind,
                       std::string const& ending);

/// What all ranks pass, in rank order, on rank 0; other ranks get an empty list. Collective.
std::vector<nlohmann::ordered_json> gather_json(Communicator const& communicator, nlohmann::ordered_json const& mine);

/// An input of a command: the option that names it, with its value, and the files that it consists of.
struct RankInput {
  std::string name;
  std::vector<std::filesystem::path> files;
};

/// Throws InputError unless all ranks found the same facts and read the same bytes. Files that are seen to be one file,
/// on one machine or on a file system of the network, are not read for that; others are, once on each machine. Throws
/// InputError, too, if a file cannot be read. Collective; costs one rank nothing.
void require_same_inputs(Communicator const& communicator, nlohmann::ordered_json facts,
                         std::vector<RankInput> const& inputs);

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
  std::vector<RankDevice> devices;     ///< of all ranks, in rank order, on rank 0; empty on others
  std::size_t num_ranks_on_device = 1; ///< with this rank; a CPU is the device of all ranks that compute on it
  std::size_t num_ranks_on_host = 1;   ///< with this rank
};

/// Finds out where all ranks compute with a backend. Throws ResourceError if two of them use one device, unless
/// `share_devices`. Collective.
RankPlaces place_ranks(Communicator const& communicator, Backend backend, bool share_devices);

/// An exchange between all ranks of the job over its own MPI communicator. Activations go directly from device to
/// device if the MPI library supports it, unless `through_host` is set. Collective, as is the destructor.
std::shared_ptr<RankExchange> exchange_between_ranks(bool through_host = false);

/// During the lifetime of this object, SIGTERM and SIGUSR1 (sent by batch systems before the time limit) do not end the
/// process but are remembered, so that the current batch can be finished. Only one object may exist at a time.
class StopSignal {
public:
  StopSignal();
  ~StopSignal();
  StopSignal(StopSignal const&) = delete;
  StopSignal& operator=(StopSignal const&) = delete;

  /// True once one of the signals has arrived.
  static bool has_come();

private:
  std::array<struct sigaction, 2> before_{}; ///< the previous signal handlers, restored on destruction
};

} // namespace varve
