#include "network/representable.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace varve {
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
  if (edge < weights.values.size() && weights.num_entries() > 0) {
    throw InputError(fmt::format("{}: layer {}: the weight from input {} to output {} is {}, {}", network, number,
                                 weights.column_indices[edge], row_of(weights.row_pointers, edge), weights.values[edge],
                                 beyond_single_precision()));
  }
  auto const output = find_too_large(layer.bias, precision);
  if (output < layer.bias.size()) {
    throw InputError(fmt::format("{}: layer {}: the bias of output {} is {}, {}", network, number, output,
                                 layer.bias[output], beyond_single_precision()));
  }
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
      throw InputError(fmt::format("{}: sample {}: the value of neuron {} is {}, {}", input,
                                   first_sample + (row_of(rows.row_pointers(), entry) - rows.first) + 1,
                                   rows.column(entry) + 1, values[found], beyond_single_precision()));
    }
    first_sample += rows.num_samples();
  }
}

Layer RepresentableNetwork::layer(std::size_t number) const {
  Layer layer = source_.layer(number);
  require_representable(layer, number, precision_, name());
  return layer;
}

} // namespace varve
