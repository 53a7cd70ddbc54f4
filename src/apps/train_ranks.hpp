#pragma once

#include "apps/train_options.hpp"
#include "distribute/communicator.hpp"
#include "distribute/ranks.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace varve {

/// Finds out which rank computes where, and gives the engine of each rank its exchange with the others and, if the user
/// gave no limit, its share of the memory. Returns the devices in rank order on rank 0. Throws ResourceError if two
/// ranks use one device without --share-devices. Collective.
std::vector<RankDevice> place_ranks(Communicator const& communicator, TrainOptions const& options,
                                    TrainingOptions& engine);

/// Throws InputError unless all ranks begin with the same state, read from the same files: recipe, number of steps
/// taken and weights. Collective.
void require_same_start(Communicator const& communicator, TrainOptions const& options, std::string const& recipe,
                        std::uint64_t num_steps, Network const& network);

} // namespace varve
