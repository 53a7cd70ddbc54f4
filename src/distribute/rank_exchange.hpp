#pragma once

#include "engine/rank_exchange.hpp"

#include <memory>

namespace varve {

/// An exchange between all ranks of the job over its own MPI communicator. Activations go directly from device to
/// device if the MPI library supports it, unless `through_host` is set. Collective, as is the destructor.
std::shared_ptr<RankExchange> exchange_between_ranks(bool through_host = false);

} // namespace varve
