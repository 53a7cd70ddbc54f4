#include "reference/train.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace varve {
namespace {

/// Numbers [position][neuron] of a layer.
template <class Scalar>
struct Plane {
  std::size_t num_neurons;
  std::vector<Scalar> numbers;

  Plane(std::size_t positions, std::size_t neurons) : num_neurons(neurons), numbers(positions * neurons) {}
  Scalar& at(std::size_t position, std::size_t neuron) { return numbers[position * num_neurons + neuron]; }
  Scalar at(std::size_t position, std::size_t neuron) const { return numbers[position * num_neurons + neuron]; }
};

template <class Scalar>
Plane<Scalar> plane_of(SparseMatrix const& samples) {
  Plane<Scalar> plane(samples.num_rows, samples.num_columns);
  for (std::size_t row = 0; row < samples.num_rows; ++row)
    for (EdgeOffset entry = samples.row_pointers[row]; entry < samples.row_pointers[row + 1]; ++entry)
      plane.at(row, samples.column_indices[entry]) = static_cast<Scalar>(samples.value(entry));
  return plane;
}

template <class Scalar>
Plane<Scalar> forward(TrainedLayer<Scalar> const& layer, Plane<Scalar> const& inputs, std::size_t num_positions) {
  auto const& pattern = layer.pattern;
  Plane<Scalar> outputs(num_positions, pattern.num_rows);
  for (std::size_t position = 0; position < num_positions; ++position) {
    for (std::size_t output = 0; output < pattern.num_rows; ++output) {
      Scalar sum = 0;
      for (EdgeOffset edge = pattern.row_pointers[output]; edge < pattern.row_pointers[output + 1]; ++edge)
        sum = std::fma(layer.weights[edge], inputs.at(position, pattern.column_indices[edge]), sum);
      outputs.at(position, output) = activated<Scalar>(layer.activation, static_cast<double>(sum) + layer.bias[output]);
    }
  }
  return outputs;
}

/// error * act'(x)
template <class Scalar>
Scalar through(Activation const& activation, Scalar x, Scalar error) {
  if (activation.curve() != Curve::none) return error * curve_derivative(activation.curve(), x);
  if (x > 0) return !activation.has_cap() || x < finite_cap<Scalar>(activation) ? error : Scalar{0};
  return activation.slope > 0 ? error * static_cast<Scalar>(activation.slope) : Scalar{0};
}

/// Whether the only output distinguishes two classes: its target is the label, and it is positive for class 1.
bool distinguishes_two(Loss const& loss, std::size_t num_outputs) {
  return loss.kind == Loss::logistic && num_outputs == 1;
}

/// The last activations of one position, and the wanted ones.
template <class Scalar>
struct Outcome {
  std::vector<double> outputs;
  std::vector<double> wanted; ///< the target, or 1 at the label and 0 elsewhere
};

template <class Scalar>
Outcome<Scalar> outcome_of(Plane<Scalar> const& last, std::size_t position, Answers const& answers, Loss const& loss) {
  Outcome<Scalar> outcome{std::vector<double>(last.num_neurons), std::vector<double>(last.num_neurons)};
  for (std::size_t j = 0; j < last.num_neurons; ++j) outcome.outputs[j] = static_cast<double>(last.at(position, j));
  if (answers.are_labels()) {
    if (distinguishes_two(loss, last.num_neurons)) {
      outcome.wanted[0] = answers.labels[position];
    } else {
      outcome.wanted[answers.labels[position]] = 1.0;
    }
    return outcome;
  }
  auto const& values = answers.values;
  for (EdgeOffset entry = values.row_pointers[position]; entry < values.row_pointers[position + 1]; ++entry)
    outcome.wanted[values.column_indices[entry]] = static_cast<double>(static_cast<Scalar>(values.value(entry)));
  return outcome;
}

/// Adds the loss of an output to its chain and returns the derivative, for the losses that take targets.
double add_loss(Loss const& loss, double x, double wanted, double& chain) {
  double const difference = x - wanted;
  if (loss.kind == Loss::mean_square) {
    chain = std::fma(difference, difference, chain);
    return 2.0 * difference;
  }
  if (loss.kind == Loss::huber) {
    bool const is_square = std::abs(difference) <= loss.delta;
    chain += is_square ? 0.5 * difference * difference : loss.delta * (std::abs(difference) - 0.5 * loss.delta);
    return is_square ? difference : std::copysign(loss.delta, difference);
  }
  double const e = exponential(-std::abs(x));
  chain += std::fma(-x, wanted, std::max(x, 0.0)) + softplus(-std::abs(x));
  return (x > 0.0 ? 1.0 : e) / (1.0 + e) - wanted;
}

/// Returns the loss of a position and writes weight * d loss / d output to `slopes`.
template <class Scalar>
double loss_of(Outcome<Scalar> const& outcome, Loss const& loss, double weight, std::vector<Scalar>& slopes) {
  auto const& [outputs, wanted] = outcome;
  slopes.resize(outputs.size());
  OutputSum sum;
  if (loss.kind != Loss::cross_entropy) {
    auto const count = static_cast<double>(outputs.size());
    for (std::size_t j = 0; j < outputs.size(); ++j)
      slopes[j] = static_cast<Scalar>(add_loss(loss, outputs[j], wanted[j], sum.chain_of(j)) / count * weight);
    return sum.total() / count;
  }
  double const most = *std::ranges::max_element(outputs);
  for (std::size_t j = 0; j < outputs.size(); ++j) sum.chain_of(j) += exponential(outputs[j] - most);
  double const total = sum.total();
  double at_label = 0.0;
  for (std::size_t j = 0; j < outputs.size(); ++j) {
    if (wanted[j] == 1.0) at_label = outputs[j] - most;
    slopes[j] = static_cast<Scalar>((exponential(outputs[j] - most) / total - wanted[j]) * weight);
  }
  return logarithm(total) - at_label;
}

/// Returns the errors of the last layer's outputs; adds losses, leaf by leaf, and right answers to the gradient's loss.
template <class Scalar>
Plane<Scalar> output_errors(Plane<Scalar> const& last, Activation const& activation, Answers const& answers,
                            Loss const& loss, LossSum& sum) {
  std::size_t const num_positions = answers.num_samples();
  Plane<Scalar> errors(num_positions, last.num_neurons);
  std::vector<double> losses(num_leaves<Scalar>(num_positions), 0.0);
  std::vector<Scalar> slopes;
  for (std::size_t position = 0; position < num_positions; ++position) {
    auto const outcome = outcome_of(last, position, answers, loss);
    double const weight = answers.weights.empty() ? 1.0 : answers.weights[position];
    losses[position / kLeafSamples<Scalar>] += weight * loss_of(outcome, loss, weight, slopes);
    for (std::size_t j = 0; j < slopes.size(); ++j)
      errors.at(position, j) = through(activation, last.at(position, j), slopes[j]);
    auto const largest = std::ranges::max_element(outcome.outputs) - outcome.outputs.begin();
    auto predicted = static_cast<NeuronIndex>(largest);
    if (distinguishes_two(loss, last.num_neurons)) predicted = outcome.outputs[0] > 0.0 ? 1 : 0;
    if (answers.are_labels() && predicted == answers.labels[position]) ++sum.num_right;
  }
  sum.num_samples = num_positions;
  if (num_positions > 0) sum.loss = leaf_tree(0, losses.size(), [&](std::size_t leaf) { return losses[leaf]; });
  return errors;
}

/// The sum over all positions of first(position) * second(position), in the order of network/leaf.hpp.
template <class Scalar>
Scalar sum_over_positions(std::size_t num_positions, std::function<Scalar(std::size_t)> const& first,
                          std::function<Scalar(std::size_t)> const& second) {
  constexpr auto chains = static_cast<std::size_t>(kLeafChains<Scalar>);
  auto const leaf_sum = [&](std::size_t leaf) {
    Scalar sums[chains] = {};
    for (std::size_t i = 0; i < kLeafSamples<Scalar>; ++i) {
      std::size_t const position = leaf * kLeafSamples<Scalar> + i;
      if (position < num_positions) sums[i % chains] = std::fma(first(position), second(position), sums[i % chains]);
    }
    for (std::size_t distance = chains / 2; distance > 0; distance /= 2)
      for (std::size_t chain = 0; chain < distance; ++chain) sums[chain] += sums[chain + distance];
    return sums[0];
  };
  if (num_positions == 0) return Scalar{0};
  return leaf_tree(0, num_leaves<Scalar>(num_positions), leaf_sum) + Scalar{0};
}

template <class Scalar>
LayerGradient<Scalar> layer_gradient(SparseMatrix const& pattern, Plane<Scalar> const& inputs,
                                     Plane<Scalar> const& errors, std::size_t num_positions) {
  LayerGradient<Scalar> gradient;
  for (std::size_t output = 0; output < pattern.num_rows; ++output) {
    auto const error = [&](std::size_t position) { return errors.at(position, output); };
    for (EdgeOffset edge = pattern.row_pointers[output]; edge < pattern.row_pointers[output + 1]; ++edge) {
      std::size_t const input = pattern.column_indices[edge];
      auto const activation = [&](std::size_t position) { return inputs.at(position, input); };
      gradient.weights.push_back(sum_over_positions<Scalar>(num_positions, activation, error));
    }
    gradient.bias.push_back(sum_over_positions<Scalar>(
        num_positions, [](std::size_t) { return Scalar{1}; }, error));
  }
  return gradient;
}

/// The errors of a layer's inputs. activation: that of the layer before, whose outputs they are.
template <class Scalar>
Plane<Scalar> backward(TrainedLayer<Scalar> const& layer, Activation const& activation, Plane<Scalar> const& inputs,
                       Plane<Scalar> const& errors, std::size_t num_positions) {
  auto const& pattern = layer.pattern;
  Plane<Scalar> sums(num_positions, pattern.num_columns);
  for (std::size_t output = 0; output < pattern.num_rows; ++output)
    for (EdgeOffset edge = pattern.row_pointers[output]; edge < pattern.row_pointers[output + 1]; ++edge)
      for (std::size_t position = 0; position < num_positions; ++position) {
        Scalar& sum = sums.at(position, pattern.column_indices[edge]);
        sum = std::fma(layer.weights[edge], errors.at(position, output), sum);
      }
  for (std::size_t i = 0; i < sums.numbers.size(); ++i)
    sums.numbers[i] = through(activation, inputs.numbers[i], sums.numbers[i]);
  return sums;
}

/// One optimizer step of one number and its moments from the sum of its gradients.
template <class Number>
void update(Number& number, std::vector<std::vector<Number>>& moments, std::size_t place, Number sum,
            Optimizer const& optimizer, UpdateFactors<Number> const& factors) {
  Number const gradient = std::fma(factors.l2, number, sum * factors.inverse_batch);
  if (optimizer.kind == OptimizerKind::sgd) {
    number = std::fma(-factors.rate, gradient, number);
  } else if (optimizer.is_adaptive()) {
    if (optimizer.kind == OptimizerKind::adamw) number = std::fma(-factors.decay, number, number);
    Number& first = moments[0][place];
    Number& second = moments[1][place];
    first = std::fma(factors.beta1, first, factors.rest1 * gradient);
    second = std::fma(factors.beta2, second, factors.rest2 * (gradient * gradient));
    Number const size = std::sqrt(second) / factors.root_correction + factors.epsilon;
    number = std::fma(-factors.rate, first / size, number);
  } else {
    Number& velocity = moments[0][place];
    velocity = std::fma(factors.momentum, velocity, gradient);
    bool const looks_ahead = optimizer.kind == OptimizerKind::nesterov;
    number = std::fma(-factors.rate, looks_ahead ? std::fma(factors.momentum, velocity, gradient) : velocity, number);
  }
}

} // namespace

template <class Scalar>
std::vector<TrainedLayer<Scalar>> trained_layers(Network const& network) {
  std::vector<TrainedLayer<Scalar>> layers;
  for (auto const& layer : network.layers()) {
    TrainedLayer<Scalar> trained{layer.weights, {}, {}, layer.activation};
    for (EdgeOffset edge = 0; edge < layer.num_edges(); ++edge)
      trained.weights.push_back(static_cast<Scalar>(layer.weights.value(edge)));
    for (std::size_t output = 0; output < layer.num_outputs(); ++output) trained.bias.push_back(layer.bias_of(output));
    layers.push_back(std::move(trained));
  }
  return layers;
}

template <class Scalar>
Network to_network(std::vector<TrainedLayer<Scalar>> const& layers) {
  std::vector<Layer> network;
  for (auto const& trained : layers) {
    Layer layer{trained.pattern, trained.bias, trained.activation};
    layer.weights.values.assign(trained.weights.begin(), trained.weights.end());
    if (layer.bias.empty()) layer.bias = {0.0}; // a layer without outputs; valid layers have a bias
    network.push_back(std::move(layer));
  }
  return Network(std::move(network));
}

template <class Scalar>
Gradient<Scalar> gradient_of(std::vector<TrainedLayer<Scalar>> const& layers, SampleSet const& samples,
                             Answers const& answers, Loss const& loss) {
  std::size_t const num_positions = samples.num_samples();
  if (samples.num_neurons() != layers.front().pattern.num_columns) {
    throw InputError(fmt::format("the samples have {} neurons, but layer 0 takes {} inputs", samples.num_neurons(),
                                 layers.front().pattern.num_columns));
  }
  require_fit(answers, num_positions, layers.back().pattern.num_rows, loss, "answers");
  std::vector<Plane<Scalar>> planes = {plane_of<Scalar>(samples.matrix)}; // inputs of each layer, and the last outputs
  for (auto const& layer : layers) planes.push_back(forward(layer, planes.back(), num_positions));

  Gradient<Scalar> gradient;
  gradient.layers.resize(layers.size());
  auto errors = output_errors(planes.back(), layers.back().activation, answers, loss, gradient.loss);
  for (std::size_t number = layers.size(); number-- > 0;) {
    auto const& layer = layers[number];
    auto const& inputs = planes[number];
    gradient.layers[number] = layer_gradient(layer.pattern, inputs, errors, num_positions);
    if (number > 0) errors = backward(layer, layers[number - 1].activation, inputs, errors, num_positions);
  }
  return gradient;
}

template <class Scalar>
ReferenceTraining<Scalar>::ReferenceTraining(Network const& network, Loss const& loss, Optimizer const& optimizer)
    : layers_(trained_layers<Scalar>(network)), loss_(loss), optimizer_(optimizer) {
  require_valid(optimizer);
  auto const count = static_cast<std::size_t>(optimizer.num_moments());
  for (auto const& layer : layers_) {
    moments_.push_back({std::vector(count, std::vector<Scalar>(layer.weights.size())),
                        std::vector(count, std::vector<double>(layer.bias.size()))});
  }
}

template <class Scalar>
LossSum ReferenceTraining<Scalar>::step(SampleSet const& samples, Answers const& answers, double rate) {
  auto const gradient = gradient_of(layers_, samples, answers, loss_);
  ++num_steps_;
  auto const factors = update_factors<Scalar>(optimizer_, rate, samples.num_samples(), num_steps_);
  auto const bias_factors = bias_update_factors(optimizer_, rate, samples.num_samples(), num_steps_);
  for (std::size_t number = 0; number < layers_.size(); ++number) {
    auto& layer = layers_[number];
    auto const& sums = gradient.layers[number];
    for (std::size_t edge = 0; edge < layer.weights.size(); ++edge)
      update(layer.weights[edge], moments_[number].weights, edge, sums.weights[edge], optimizer_, factors);
    for (std::size_t output = 0; output < layer.bias.size(); ++output) {
      update(layer.bias[output], moments_[number].bias, output, static_cast<double>(sums.bias[output]), optimizer_,
             bias_factors);
    }
  }
  return gradient.loss;
}

template std::vector<TrainedLayer<float>> trained_layers(Network const&);
template std::vector<TrainedLayer<double>> trained_layers(Network const&);
template Network to_network(std::vector<TrainedLayer<float>> const&);
template Network to_network(std::vector<TrainedLayer<double>> const&);
template Gradient<float> gradient_of(std::vector<TrainedLayer<float>> const&, SampleSet const&, Answers const&,
                                     Loss const&);
template Gradient<double> gradient_of(std::vector<TrainedLayer<double>> const&, SampleSet const&, Answers const&,
                                      Loss const&);
template class ReferenceTraining<float>;
template class ReferenceTraining<double>;

} // namespace varve
