#include "engine/training.hpp"

#include "core/config.hpp"
#include "core/error.hpp"
#include "engine/backends.hpp"

namespace varve {
namespace {

template <Backend... Compiled>
std::unique_ptr<Training> train_on_one_of(Network const& network, TrainingOptions const& options) {
  std::unique_ptr<Training> training;
  ((options.backend == Compiled ? void(training = train_on_backend<Compiled>(network, options)) : void()), ...);
  if (training == nullptr) throw UsageError("this build has no backend " + to_string(options.backend));
  return training;
}

} // namespace

std::unique_ptr<Training> prepare_training(Network const& network, TrainingOptions const& options) {
  return train_on_one_of<VARVE_BACKENDS>(network, options);
}

} // namespace varve
