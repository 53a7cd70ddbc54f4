#include "engine/training.hpp"

#include "core/config.hpp"
#include "engine/backends.hpp"
#include "engine/trained_network.hpp"

namespace varve {
namespace {

template <class Scalar>
std::unique_ptr<TrainingKernels<Scalar>> kernels_of(Backend backend) {
  return on_chosen_backend<VARVE_BACKENDS>(backend, []<Backend one>() { return training_kernels_of<one, Scalar>(); });
}

template <class Scalar>
std::unique_ptr<Training> prepare_in(Network const& network, TrainingOptions const& options) {
  auto kernels = kernels_of<Scalar>(options.backend);
  auto const formats = choose_trained_formats(network, options);
  auto const plan = TrainingSizesOf<Scalar>::plan(*kernels, network, options, formats);
  bool const has_own_host = plan.streams_weights && !kernels->memory().is_host();
  auto host_kernels = has_own_host ? kernels_of<Scalar>(backend_of_host(options.backend)) : nullptr;
  return std::make_unique<TrainedNetwork<Scalar>>(std::move(kernels), std::move(host_kernels), network, options, plan,
                                                  formats);
}

} // namespace

std::unique_ptr<Training> prepare_training(Network const& network, TrainingOptions const& options) {
  bool const in_double = options.precision == Precision::double_precision;
  return in_double ? prepare_in<double>(network, options) : prepare_in<float>(network, options);
}

} // namespace varve
