#include "network/network.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "network/sample_set.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace varve {

bool Activation::keeps_zero(double bias) const {
  if (curved(curve(), 0.0) != 0.0) return false;
  return slope > 0.0 ? bias == 0.0 : bias <= 0.0;
}

Layer outputs_of(Layer const& layer, std::span<NeuronIndex const> outputs) {
  SparseMatrix const& all = layer.weights;
  Layer part{{outputs.size(), all.num_columns, {0}, {}, {}}, {}, layer.activation};
  SparseMatrix& weights = part.weights;
  bool const shares_weight = all.values.size() == 1;
  if (shares_weight) weights.values = all.values;
  for (NeuronIndex const output : outputs) {
    auto const inputs = all.row_columns(output);
    weights.column_indices.insert(weights.column_indices.end(), inputs.begin(), inputs.end());
    weights.row_pointers.push_back(weights.num_entries());
    part.bias.push_back(layer.bias_of(output));
    if (shares_weight) continue;
    auto const first = all.values.begin() + static_cast<std::ptrdiff_t>(all.row_pointers[output]);
    weights.values.insert(weights.values.end(), first, first + static_cast<std::ptrdiff_t>(inputs.size()));
  }
  return part;
}

bool keeps_zero(Layer const& layer) {
  return std::ranges::all_of(layer.bias, [&](double bias) { return layer.activation.keeps_zero(bias); });
}

void require_valid(Activation const& activation, std::string const& place) {
  auto const& entry = entry_of(activation.kind);
  if (entry.parameter == nullptr) return;
  double const value = activation.*entry.value;
  if (value > entry.least && value < entry.most) return;
  fail<InputError>("{}: the {} is {}, expected {}", place, entry.parameter, value,
                   entry.most == Activation::no_cap
                       ? "a positive finite number"
                       : fmt::format("a number between {} and {}", entry.least, entry.most));
}

void require_valid(Layer const& layer, std::size_t number) {
  require_valid(layer.weights, fmt::format("layer {}", number).c_str());
  if (layer.bias.size() != 1 && layer.bias.size() != layer.num_outputs())
    fail<InputError>("layer {}: {} biases for {} outputs (expected one each, or one for all)", number,
                     layer.bias.size(), layer.num_outputs());
  auto const bad = std::ranges::find_if(layer.bias, [](double bias) { return !std::isfinite(bias); });
  if (bad != layer.bias.end())
    fail<InputError>("layer {}: the bias of output {} is {}, expected a finite number", number,
                     bad - layer.bias.begin(), *bad);
  require_valid(layer.activation, fmt::format("layer {}", number));
}

void require_fit(std::size_t outputs_before, Layer const& layer, std::size_t number) {
  if (layer.num_inputs() != outputs_before)
    fail<InputError>("layer {} takes {} inputs, but layer {} has {} outputs", number, layer.num_inputs(), number - 1,
                     outputs_before);
}

Network::Network(std::vector<Layer> layers, std::string name) : layers_(std::move(layers)), name_(std::move(name)) {
  if (layers_.empty()) fail<InputError>("{}: a network needs at least one layer", name_);
  for_each_on_host_threads(layers_.size(), [&](std::size_t number) {
    require_valid(layers_[number], number);
    if (number > 0) require_fit(layers_[number - 1].num_outputs(), layers_[number], number);
  });
}

EdgeOffset Network::num_edges() const {
  EdgeOffset edges = 0;
  for (auto const& layer : layers_) edges += layer.num_edges();
  return edges;
}

Network load(NetworkSource const& source) {
  std::vector<Layer> layers(source.num_layers());
  for_each_on_host_threads(layers.size(), [&](std::size_t number) { layers[number] = source.layer(number); });
  return Network(std::move(layers), source.name());
}

namespace {

/// The index of the first number that rounds to infinity; numbers.size() if there is none.
std::size_t find_too_large(std::span<double const> numbers, Precision precision) {
  if (precision == Precision::double_precision) return numbers.size();
  double largest = 0.0;
  for (double const number : numbers) largest = std::max(largest, std::abs(number));
  if (std::isfinite(static_cast<float>(largest))) return numbers.size();
  auto const found =
      std::ranges::find_if(numbers, [](double number) { return !std::isfinite(static_cast<float>(number)); });
  return static_cast<std::size_t>(found - numbers.begin());
}

/// The row that contains an entry.
std::size_t row_of(std::span<EdgeOffset const> row_pointers, EdgeOffset entry) {
  auto const above = std::ranges::upper_bound(row_pointers, entry);
  return static_cast<std::size_t>(above - row_pointers.begin()) - 1;
}

/// The end of an error sentence about a number that single precision cannot hold.
std::string beyond_single_precision() {
  return fmt::format("beyond {:.9g}, the largest number of single precision; --precision double can hold it",
                     std::numeric_limits<float>::max());
}

} // namespace

void require_representable(Layer const& layer, std::size_t number, Precision precision, std::string const& network) {
  auto const& weights = layer.weights;
  auto const edge = find_too_large(weights.values, precision);
  if (edge < weights.values.size() && weights.num_entries() > 0)
    fail<InputError>("{}: layer {}: the weight from input {} to output {} is {}, {}", network, number,
                     weights.column_indices[edge], row_of(weights.row_pointers, edge), weights.values[edge],
                     beyond_single_precision());
  auto const output = find_too_large(layer.bias, precision);
  if (output < layer.bias.size())
    fail<InputError>("{}: layer {}: the bias of output {} is {}, {}", network, number, output, layer.bias[output],
                     beyond_single_precision());
}

void require_representable(SampleBatch const& samples, Precision precision, std::string const& input) {
  SampleIndex first_sample = samples.first_sample();
  for (auto const& rows : samples.rows()) {
    bool const has_one_value = rows.values().size() == 1;
    EdgeOffset const first = has_one_value ? 0 : rows.first_entry();
    std::size_t const count = has_one_value ? 1 : rows.num_entries();
    auto const values = rows.values().subspan(first, rows.num_entries() == 0 ? 0 : count);
    auto const found = find_too_large(values, precision);
    if (found < values.size()) {
      EdgeOffset const entry = has_one_value ? rows.first_entry() : first + found;
      fail<InputError>("{}: sample {}: the value of neuron {} is {}, {}", input,
                       first_sample + (row_of(rows.row_pointers(), entry) - rows.first) + 1, rows.column(entry) + 1,
                       values[found], beyond_single_precision());
    }
    first_sample += rows.num_samples();
  }
}

Layer RepresentableNetwork::layer(std::size_t number) const {
  Layer layer = source_.layer(number);
  require_representable(layer, number, precision_, name());
  return layer;
}

std::uint64_t weights_hash(Network const& network) {
  std::uint64_t sum = 0;
  for (std::size_t number = 0; number < network.num_layers(); ++number) {
    auto const& layer = network.layers()[number];
    auto const& weights = layer.weights;
    for (std::size_t output = 0; output < layer.num_outputs(); ++output) {
      for (EdgeOffset edge = weights.row_pointers[output]; edge < weights.row_pointers[output + 1]; ++edge) {
        sum += activation_fingerprint(2 * number, output * layer.num_inputs() + weights.column_indices[edge],
                                      std::bit_cast<std::uint64_t>(weights.value(edge)));
      }
      sum += activation_fingerprint(2 * number + 1, output, std::bit_cast<std::uint64_t>(layer.bias_of(output)));
    }
  }
  return sum;
}

} // namespace varve
