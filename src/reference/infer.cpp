#include "reference/infer.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "network/analysis.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace varve {

namespace {

/// The activations of one sample, one per neuron; an empty vector if all are zero.
template <class Scalar>
using Activations = std::vector<Scalar>;

template <class Scalar>
bool has_nonzero(Activations<Scalar> const& activations) {
  return std::ranges::any_of(activations, [](Scalar activation) { return activation != Scalar{0}; });
}

template <class Scalar>
Scalar next_activation(Layer const& layer, std::size_t output, Activations<Scalar> const& previous) {
  auto const& weights = layer.weights;
  Scalar sum = 0;
  for (EdgeOffset edge = weights.row_pointers[output]; edge < weights.row_pointers[output + 1]; ++edge) {
    sum = std::fma(static_cast<Scalar>(weights.value(edge)), previous[weights.column_indices[edge]], sum);
  }
  return activated<Scalar>(layer.activation, static_cast<double>(sum) + layer.bias_of(output));
}

/// Advances one sample through one layer.
template <class Scalar>
Activations<Scalar> forward(Layer const& layer, Activations<Scalar> previous) {
  if (previous.empty()) previous.assign(layer.num_inputs(), Scalar{0});
  Activations<Scalar> next(layer.num_outputs());
  for (std::size_t output = 0; output < next.size(); ++output) next[output] = next_activation(layer, output, previous);
  if (!has_nonzero(next)) next.clear();
  return next;
}

template <class Scalar>
Activations<Scalar> activations_of_row(SparseMatrix const& matrix, std::size_t row) {
  Activations<Scalar> activations(matrix.num_columns);
  for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
    activations[matrix.column_indices[entry]] = static_cast<Scalar>(matrix.value(entry));
  }
  if (!has_nonzero(activations)) return {};
  return activations;
}

} // namespace

Layer fitting_layer(NetworkSource const& network, std::size_t number, std::size_t num_neurons) {
  Layer layer = network.layer(number);
  if (number > 0) require_fit(num_neurons, layer, number);
  if (layer.num_inputs() != num_neurons)
    fail<InputError>("the samples have {} neurons, but layer 0 of {} takes {} inputs", num_neurons, network.name(),
                     layer.num_inputs());
  return layer;
}

DistinctLayer distinct_layer(Layer const& layer) {
  auto const firsts = firsts_of_equals(layer);
  std::vector<NeuronIndex> distinct;
  std::vector<NeuronIndex> place(firsts.size());
  for (NeuronIndex output = 0; output < firsts.size(); ++output) {
    bool const is_first = firsts[output] == output;
    place[output] = is_first ? static_cast<NeuronIndex>(distinct.size()) : place[firsts[output]];
    if (is_first) distinct.push_back(output);
  }
  return {outputs_of(layer, distinct), std::move(place)};
}

template <class Scalar>
SparseMatrix nonzeros_of(std::vector<std::vector<Scalar>> const& rows, std::size_t num_columns) {
  SparseMatrix matrix{rows.size(), num_columns, {0}, {}, {}};
  for (auto const& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      if (row[column] == Scalar{0}) continue;
      matrix.column_indices.push_back(static_cast<NeuronIndex>(column));
      matrix.values.push_back(static_cast<double>(row[column]));
    }
    matrix.row_pointers.push_back(matrix.num_entries());
  }
  return matrix;
}

template SparseMatrix nonzeros_of(std::vector<std::vector<double>> const&, std::size_t);

template <class Scalar>
SampleSet infer(NetworkSource const& network, SampleSet const& samples) {
  require_valid(samples.matrix, "samples");
  std::vector<Activations<Scalar>> activations(samples.num_samples());
  for_each_on_host_threads(activations.size(), [&](std::size_t sample) {
    activations[sample] = activations_of_row<Scalar>(samples.matrix, sample);
  });

  std::size_t num_neurons = samples.num_neurons();
  for (std::size_t number = 0; number < network.num_layers(); ++number) {
    Layer const layer = fitting_layer(network, number, num_neurons);
    bool const dead_samples_stay_dead = keeps_zero(layer);
    for_each_on_host_threads(activations.size(), [&](std::size_t sample) {
      if (activations[sample].empty() && dead_samples_stay_dead) return;
      activations[sample] = forward(layer, std::move(activations[sample]));
    });
    num_neurons = layer.num_outputs();
  }
  return {nonzeros_of(activations, num_neurons), samples.first_sample};
}

template SampleSet infer<float>(NetworkSource const&, SampleSet const&);
template SampleSet infer<double>(NetworkSource const&, SampleSet const&);

std::vector<SampleIndex> categories(SampleSet const& activations) {
  std::vector<SampleIndex> numbers;
  auto const& matrix = activations.matrix;
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
      if (matrix.value(entry) == 0.0) continue;
      numbers.push_back(activations.first_sample + row);
      break;
    }
  }
  return numbers;
}

} // namespace varve
