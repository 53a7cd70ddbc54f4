#pragma once

#include "engine/activation_exchange.hpp"
#include "engine/gradient_exchange.hpp"

#include <memory>

namespace varve {

/// An exchange of activations between all ranks of the job over its own MPI communicator. Activations go directly from
/// device to device if the MPI library supports it, unless `through_host` is set. Collective, as is the destructor.
std::shared_ptr<ActivationExchange> exchange_between_ranks(bool through_host);

/// An exchange between all ranks of the job over its own MPI communicator; null if there is only one rank. Collective,
/// as is the destructor.
std::shared_ptr<GradientExchange> gradient_exchange_between_ranks();

} // namespace varve
