#include "network/optimizer.hpp"

#include "core/error.hpp"

#include <fmt/ranges.h>

#include <cmath>

namespace varve {
namespace {

/// base^exponent by squaring: libraries' pow() differ in last bits.
double power(double base, std::uint64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

} // namespace

OptimizerKind parse_optimizer(std::string const& name) {
  for (auto const& entry : all_optimizers)
    if (name == entry.name) return entry.kind;
  fail<UsageError>("there is no optimizer '{}'; there are: {}", name, fmt::join(names_of(all_optimizers), ", "));
}

void require_valid(Optimizer const& optimizer) {
  auto const require_below_1 = [](char const* name, double number) {
    if (number >= 0.0 && number < 1.0) return;
    fail<UsageError>("{} is {}, expected a number from 0 to below 1", name, number);
  };
  require_below_1("the momentum", optimizer.momentum);
  require_below_1("beta1 of Adam", optimizer.beta1);
  require_below_1("beta2 of Adam", optimizer.beta2);
  if (!(optimizer.epsilon > 0.0 && std::isfinite(optimizer.epsilon)))
    fail<UsageError>("epsilon of Adam is {}, expected a positive number", optimizer.epsilon);
  if (!(optimizer.l2 >= 0.0 && std::isfinite(optimizer.l2)))
    fail<UsageError>("l2 is {}, expected 0 or a positive number", optimizer.l2);
}

template <class Scalar>
UpdateFactors<Scalar> update_factors(Optimizer const& optimizer, double rate, std::size_t num_samples,
                                     std::uint64_t step) {
  bool const decays_apart = optimizer.kind == OptimizerKind::adamw;
  double const correction1 = 1.0 - power(optimizer.beta1, step);
  double const correction2 = 1.0 - power(optimizer.beta2, step);
  auto const rounded = [](double number) { return static_cast<Scalar>(number); };
  UpdateFactors<Scalar> factors{};
  factors.inverse_batch = rounded(1.0 / static_cast<double>(num_samples));
  factors.l2 = rounded(decays_apart ? 0.0 : optimizer.l2);
  factors.decay = rounded(decays_apart ? rate * optimizer.l2 : 0.0);
  factors.rate = rounded(optimizer.is_adaptive() ? rate / correction1 : rate);
  factors.momentum = rounded(optimizer.momentum);
  factors.beta1 = rounded(optimizer.beta1);
  factors.rest1 = rounded(1.0 - optimizer.beta1);
  factors.beta2 = rounded(optimizer.beta2);
  factors.rest2 = rounded(1.0 - optimizer.beta2);
  factors.root_correction = rounded(std::sqrt(correction2));
  factors.epsilon = rounded(optimizer.epsilon);
  return factors;
}

UpdateFactors<double> bias_update_factors(Optimizer optimizer, double rate, std::size_t num_samples,
                                          std::uint64_t step) {
  optimizer.l2 = 0.0;
  return update_factors<double>(optimizer, rate, num_samples, step);
}

template UpdateFactors<float> update_factors(Optimizer const&, double, std::size_t, std::uint64_t);
template UpdateFactors<double> update_factors(Optimizer const&, double, std::size_t, std::uint64_t);

void require_shape(OptimizerState const& state, std::vector<Layer> const& layers, Optimizer const& optimizer) {
  auto const moments = static_cast<std::size_t>(optimizer.num_moments());
  bool fits = state.layers.size() == layers.size();
  for (std::size_t number = 0; fits && number < layers.size(); ++number) {
    auto const& given = state.layers[number];
    fits = given.weights.size() == moments && given.bias.size() == moments;
    for (std::size_t moment = 0; fits && moment < moments; ++moment)
      fits = given.weights[moment].size() == layers[number].num_edges() &&
             given.bias[moment].size() == layers[number].num_outputs();
  }
  if (!fits)
    throw InputError("the state of the optimizer does not fit the network and the optimizer " +
                     to_string(optimizer.kind));
}

} // namespace varve
