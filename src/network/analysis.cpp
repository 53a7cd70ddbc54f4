#include "network/analysis.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <unordered_set>
#include <utility>

namespace varve {

namespace {

std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }

/// Folds a word into a hash. Collisions are harmless: outputs with equal hashes are compared in full.
std::uint64_t hash_with(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29U);
}

/// Two outputs of a layer have the same pattern if they read the same inputs.
struct PatternIdentity {
  Layer const& layer;

  std::uint64_t hash(std::size_t output) const {
    std::uint64_t hash = 0;
    for (auto const input : layer.weights.row_columns(output)) hash = hash_with(hash, input);
    return hash;
  }
  bool equal(std::size_t one, std::size_t other) const {
    return std::ranges::equal(layer.weights.row_columns(one), layer.weights.row_columns(other));
  }
};

/// Two outputs of a layer are the same neuron if they have the same inputs, weights and bias.
struct NeuronIdentity {
  Layer const& layer;

  std::uint64_t hash(std::size_t output) const {
    std::uint64_t hash = hash_with(PatternIdentity{layer}.hash(output), bits_of(layer.bias_of(output)));
    if (layer.weights.values.size() == 1) return hash;
    auto const& pointers = layer.weights.row_pointers;
    for (EdgeOffset edge = pointers[output]; edge < pointers[output + 1]; ++edge) {
      hash = hash_with(hash, bits_of(layer.weights.values[edge]));
    }
    return hash;
  }
  bool equal(std::size_t one, std::size_t other) const {
    if (bits_of(layer.bias_of(one)) != bits_of(layer.bias_of(other))) return false;
    if (!PatternIdentity{layer}.equal(one, other)) return false;
    EdgeOffset const first = layer.weights.row_pointers[one];
    EdgeOffset const second = layer.weights.row_pointers[other];
    for (EdgeOffset edge = 0; edge < layer.weights.row_size(one); ++edge) {
      if (bits_of(layer.weights.value(first + edge)) != bits_of(layer.weights.value(second + edge))) return false;
    }
    return true;
  }
};

/// For each output the first one that equals it. Each output is hashed once; outputs with equal hashes are compared in
/// full.
template <class Identity>
std::vector<NeuronIndex> firsts_of(std::size_t num_outputs, Identity const& identity) {
  std::vector<std::uint64_t> hashes(num_outputs);
  for (std::size_t output = 0; output < num_outputs; ++output) hashes[output] = identity.hash(output);
  auto const hash = [&](NeuronIndex output) { return static_cast<std::size_t>(hashes[output]); };
  auto const equal = [&](NeuronIndex one, NeuronIndex other) {
    return hashes[one] == hashes[other] && identity.equal(one, other);
  };
  std::unordered_set<NeuronIndex, decltype(hash), decltype(equal)> distinct(0, hash, equal);
  std::vector<NeuronIndex> firsts(num_outputs);
  for (NeuronIndex output = 0; output < num_outputs; ++output) firsts[output] = *distinct.insert(output).first;
  return firsts;
}

/// The sizes of the groups of equal outputs: one for each first output of a group, 0 for the others.
std::vector<std::size_t> group_sizes(std::vector<NeuronIndex> const& firsts) {
  std::vector<std::size_t> sizes(firsts.size(), 0);
  for (auto const first : firsts) ++sizes[first];
  return sizes;
}

std::size_t num_groups(std::vector<std::size_t> const& sizes) {
  return sizes.size() - static_cast<std::size_t>(std::ranges::count(sizes, 0U));
}

void measure_degrees(SparseMatrix const& weights, LayerAnalysis& analysis) {
  if (weights.num_rows == 0) return;
  analysis.min_degree = weights.row_size(0);
  for (std::size_t output = 0; output < weights.num_rows; ++output) {
    EdgeOffset const degree = weights.row_size(output);
    analysis.min_degree = std::min(analysis.min_degree, degree);
    analysis.max_degree = std::max(analysis.max_degree, degree);
    if (degree == 0) ++analysis.num_empty_outputs;
  }
  analysis.mean_degree = static_cast<double>(weights.num_entries()) / static_cast<double>(weights.num_rows);
}

std::size_t count_unread_inputs(SparseMatrix const& weights) {
  std::vector<bool> is_read(weights.num_columns, false);
  for (auto const input : weights.column_indices) is_read[input] = true;
  return static_cast<std::size_t>(std::ranges::count(is_read, false));
}

bool has_equal_weights(SparseMatrix const& weights) {
  if (weights.num_entries() < 2) return false;
  auto const first = bits_of(weights.values.front());
  return std::ranges::all_of(weights.values, [&](double value) { return bits_of(value) == first; });
}

NetworkAnalysis sum_of(std::vector<LayerAnalysis> layers) {
  NetworkAnalysis sum;
  sum.min_degree = layers.front().min_degree;
  sum.keeps_zero = true;
  for (auto const& layer : layers) {
    sum.num_edges += layer.num_edges;
    sum.num_neurons += layer.num_outputs;
    sum.num_distinct_neurons += layer.num_distinct_neurons;
    sum.num_empty_outputs += layer.num_empty_outputs;
    sum.num_unread_inputs += layer.num_unread_inputs;
    sum.min_degree = std::min(sum.min_degree, layer.min_degree);
    sum.max_degree = std::max(sum.max_degree, layer.max_degree);
    sum.keeps_zero = sum.keeps_zero && layer.keeps_zero;
  }
  if (sum.num_neurons > 0) {
    sum.mean_degree = static_cast<double>(sum.num_edges) / static_cast<double>(sum.num_neurons);
  }
  sum.layers = std::move(layers);
  return sum;
}

} // namespace

LayerAnalysis analyse(Layer const& layer) {
  LayerAnalysis analysis;
  analysis.num_inputs = layer.num_inputs();
  analysis.num_outputs = layer.num_outputs();
  analysis.num_edges = layer.num_edges();
  measure_degrees(layer.weights, analysis);
  auto const patterns = group_sizes(firsts_of(layer.num_outputs(), PatternIdentity{layer}));
  analysis.num_pattern_groups = num_groups(patterns);
  if (!patterns.empty()) analysis.largest_pattern_group = std::ranges::max(patterns);
  analysis.num_distinct_neurons = num_groups(group_sizes(firsts_of_equal_outputs(layer)));
  analysis.num_unread_inputs = count_unread_inputs(layer.weights);
  analysis.is_iso = has_equal_weights(layer.weights);
  analysis.keeps_zero = keeps_zero(layer);
  return analysis;
}

std::vector<NeuronIndex> firsts_of_equal_outputs(Layer const& layer) {
  return firsts_of(layer.num_outputs(), NeuronIdentity{layer});
}

NetworkAnalysis analyse(NetworkSource const& source) {
  std::vector<LayerAnalysis> layers(source.num_layers());
  for_each_on_host_threads(layers.size(), [&](std::size_t number) { layers[number] = analyse(source.layer(number)); });
  for (std::size_t number = 1; number < layers.size(); ++number) {
    if (layers[number].num_inputs != layers[number - 1].num_outputs) {
      throw InputError(fmt::format("layer {} takes {} inputs, but layer {} has {} outputs", number,
                                   layers[number].num_inputs, number - 1, layers[number - 1].num_outputs));
    }
  }
  return sum_of(std::move(layers));
}

} // namespace varve
