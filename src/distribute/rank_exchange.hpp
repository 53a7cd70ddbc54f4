#pragma once

#include "engine/activation_exchange.hpp"

#include <memory>

namespace varve {

/// Exchange between all ranks of the job, by messages of its own. Activations go from device to device where the MPI
/// library says that it can do so, unless `through_host`. Collective, as the destructor.
std::shared_ptr<ActivationExchange> exchange_between_ranks(bool through_host);

} // namespace varve
