#pragma once

#include "engine/gradient_exchange.hpp"

#include <memory>

namespace varve {

/// An exchange between all ranks of the job over its own MPI communicator; null if there is only one rank. Collective,
/// as is the destructor.
std::shared_ptr<GradientExchange> gradient_exchange_between_ranks();

} // namespace varve
