#include "engine/training.hpp"

#include "core/config.hpp"
#include "engine/backends.hpp"

namespace varve {

std::unique_ptr<Training> prepare_training(Network const& network, TrainingOptions const& options) {
  return on_chosen_backend<VARVE_BACKENDS>(
      options, [&]<Backend backend, class Scalar>() { return train_on_backend<backend, Scalar>(network, options); });
}

} // namespace varve
