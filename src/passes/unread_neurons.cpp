#include "passes/unread_neurons.hpp"

#include "core/error.hpp"
#include "passes/layer_rewrite.hpp"

#include <algorithm>
#include <utility>

namespace varve {
namespace {

std::size_t num_marked(std::vector<bool> const& is_kept) {
  return static_cast<std::size_t>(std::ranges::count(is_kept, true));
}

/// For each neuron the number of marked neurons before it.
std::vector<NeuronIndex> numbers_of_kept(std::vector<bool> const& is_kept) {
  std::vector<NeuronIndex> numbers(is_kept.size());
  NeuronIndex next = 0;
  for (std::size_t neuron = 0; neuron < is_kept.size(); ++neuron) {
    numbers[neuron] = next;
    if (is_kept[neuron]) ++next;
  }
  return numbers;
}

} // namespace

std::vector<bool> unless_all_read(SparseMatrix const& weights) {
  std::vector<bool> is_read(weights.num_columns, false);
  for (auto const input : weights.column_indices) is_read[input] = true;
  if (std::ranges::find(is_read, false) == is_read.end()) is_read.clear();
  return is_read;
}

void keep_outputs(Layer& layer, std::vector<bool> const& is_kept) {
  VARVE_REQUIRE(is_kept.size() == layer.num_outputs(), "one mark for each output");
  if (std::ranges::find(is_kept, true) == is_kept.end()) {
    layer = stand_in(layer.num_inputs(), layer.activation);
    return;
  }
  auto const& weights = layer.weights;
  Layer kept;
  kept.weights.num_columns = weights.num_columns;
  kept.bias.clear();
  kept.activation = layer.activation;
  for (std::size_t output = 0; output < is_kept.size(); ++output) {
    if (!is_kept[output]) continue;
    for (EdgeOffset edge = weights.row_pointers[output]; edge < weights.row_pointers[output + 1]; ++edge) {
      kept.weights.column_indices.push_back(weights.column_indices[edge]);
      kept.weights.values.push_back(weights.value(edge));
    }
    kept.weights.row_pointers.push_back(kept.weights.num_entries());
    kept.bias.push_back(layer.bias_of(output));
  }
  kept.weights.num_rows = kept.bias.size();
  layer = std::move(kept);
  make_canonical(layer);
}

void keep_inputs(Layer& layer, std::vector<bool> const& is_kept) {
  VARVE_REQUIRE(is_kept.size() == layer.num_inputs(), "one mark for each input");
  auto const numbers = numbers_of_kept(is_kept);
  for (auto& input : layer.weights.column_indices) input = numbers[input];
  layer.weights.num_columns = std::max<std::size_t>(1, num_marked(is_kept));
}

void keep_neurons(NeuronMap& map, std::vector<bool> const& is_kept) {
  VARVE_REQUIRE(is_kept.size() == map.width(), "one mark for each neuron that is left");
  auto const numbers = numbers_of_kept(is_kept);
  if (map.numbers.empty()) map.numbers = ascending(map.num_before);
  for (auto& number : map.numbers) {
    if (number == NeuronMap::kConstant || number == NeuronMap::kUnread) continue;
    number = is_kept[number] ? numbers[number] : NeuronMap::kUnread;
  }
  map.num_numbered = num_marked(is_kept);
}

} // namespace varve
