#include "network/analysis.hpp"

#include "core/buffer_pool.hpp"
#include "core/error.hpp"
#include "core/host_threads.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <unordered_set>
#include <utility>

namespace varve {

namespace {

/// Folds a word into a hash. Collisions are harmless: outputs with equal hashes are compared in full.
std::uint64_t hash_with(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29U);
}

bool are_equal(ComparedOutput const& one, ComparedOutput const& other) {
  return same_bits(one.bias, other.bias) && std::ranges::equal(one.inputs, other.inputs) &&
         std::ranges::equal(one.weights, other.weights, same_bits);
}

/// Calls work(output) for all outputs on all host threads.
template <class Work>
void for_each_output(std::size_t num_outputs, Work const& work) {
  constexpr std::size_t at_a_time = 256;
  for_each_on_host_threads((num_outputs + at_a_time - 1) / at_a_time, [&](std::size_t part) {
    auto const last = std::min(num_outputs, (part + 1) * at_a_time);
    for (auto output = part * at_a_time; output < last; ++output) work(output);
  });
}

/// For each output the first one with the same hash.
std::vector<NeuronIndex> firsts_of_hashes(std::vector<std::uint64_t> const& hashes) {
  constexpr auto nobody = std::numeric_limits<NeuronIndex>::max();
  constexpr std::uint64_t mix = 0x9e3779b97f4a7c15U; // 2^64 / golden ratio: takes all bits of a hash into the highest
  auto const bits = static_cast<int>(std::bit_width(2 * hashes.size()));
  auto table = BufferPool<NeuronIndex>::of_process().take(std::size_t{1} << bits); // at least half of it stays empty
  std::ranges::fill(table, nobody);
  auto firsts = BufferPool<NeuronIndex>::of_process().take(hashes.size());
  for (NeuronIndex output = 0; output < hashes.size(); ++output) {
    auto place = static_cast<std::size_t>((hashes[output] * mix) >> (64 - bits));
    while (table[place] != nobody && hashes[table[place]] != hashes[output]) place = (place + 1) % table.size();
    if (table[place] == nobody) table[place] = output;
    firsts[output] = table[place];
  }
  BufferPool<NeuronIndex>::of_process().recycle(std::move(table));
  return firsts;
}

/// For each output the first equal one, if outputs of one hash may differ.
std::vector<NeuronIndex> firsts_of_colliding(std::vector<std::uint64_t> const& hashes, CompareOutput const& output) {
  auto const hash_of = [&](NeuronIndex number) { return static_cast<std::size_t>(hashes[number]); };
  auto const is_same = [&](NeuronIndex one, NeuronIndex other) {
    return hashes[one] == hashes[other] && are_equal(output(one), output(other));
  };
  std::unordered_set<NeuronIndex, decltype(hash_of), decltype(is_same)> distinct(0, hash_of, is_same);
  std::vector<NeuronIndex> firsts(hashes.size());
  for (NeuronIndex number = 0; number < firsts.size(); ++number) firsts[number] = *distinct.insert(number).first;
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
  return std::ranges::all_of(weights.values, [&](double value) { return same_bits(value, weights.values.front()); });
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

std::uint64_t output_hash(ComparedOutput const& output) {
  auto hash = hash_with(output.inputs.size(), std::bit_cast<std::uint64_t>(output.bias));
  for (NeuronIndex const input : output.inputs) hash = hash_with(hash, input);
  for (double const weight : output.weights) hash = hash_with(hash, std::bit_cast<std::uint64_t>(weight));
  return hash;
}

std::vector<NeuronIndex> firsts_of_equals(std::size_t num_outputs, CompareOutput const& output, OutputHash hash) {
  auto hashes = BufferPool<std::uint64_t>::of_process().take(num_outputs);
  for_each_output(num_outputs, [&](std::size_t number) { hashes[number] = hash(output(number)); });
  auto firsts = firsts_of_hashes(hashes);
  std::atomic<bool> do_differ = false; // hardly ever do two outputs of one hash differ
  for_each_output(num_outputs, [&](std::size_t number) {
    if (firsts[number] != number && !do_differ && !are_equal(output(number), output(firsts[number]))) do_differ = true;
  });
  if (do_differ) firsts = firsts_of_colliding(hashes, output);
  BufferPool<std::uint64_t>::of_process().recycle(std::move(hashes));
  return firsts;
}

std::vector<NeuronIndex> firsts_of_equals(Layer const& layer, OutputHash hash) {
  bool const shares_weight = layer.weights.values.size() == 1;
  auto const output = [&](std::size_t number) -> ComparedOutput {
    auto const list = layer.weights.row_columns(number);
    if (shares_weight) return {list, {}, layer.bias_of(number)};
    return {
        list, {layer.weights.values.data() + layer.weights.row_pointers[number], list.size()}, layer.bias_of(number)};
  };
  return firsts_of_equals(layer.num_outputs(), output, hash);
}

std::vector<NeuronIndex> firsts_of_equal_lists(SparseMatrix const& matrix) {
  return firsts_of_equals(matrix.num_rows, [&](std::size_t row) { return ComparedOutput{matrix.row_columns(row)}; });
}

LayerAnalysis analyse(Layer const& layer) {
  LayerAnalysis analysis;
  analysis.num_inputs = layer.num_inputs();
  analysis.num_outputs = layer.num_outputs();
  analysis.num_edges = layer.num_edges();
  measure_degrees(layer.weights, analysis);
  auto const patterns = group_sizes(firsts_of_equal_lists(layer.weights));
  analysis.num_pattern_groups = num_groups(patterns);
  if (!patterns.empty()) analysis.largest_pattern_group = std::ranges::max(patterns);
  analysis.num_distinct_neurons = num_groups(group_sizes(firsts_of_equals(layer)));
  analysis.num_unread_inputs = count_unread_inputs(layer.weights);
  analysis.is_iso = has_equal_weights(layer.weights);
  analysis.keeps_zero = keeps_zero(layer);
  return analysis;
}

NetworkAnalysis analyse(NetworkSource const& source) {
  std::vector<LayerAnalysis> layers(source.num_layers());
  for_each_on_host_threads(layers.size(), [&](std::size_t number) { layers[number] = analyse(source.layer(number)); });
  for (std::size_t number = 1; number < layers.size(); ++number) {
    if (layers[number].num_inputs != layers[number - 1].num_outputs)
      fail<InputError>("layer {} takes {} inputs, but layer {} has {} outputs", number, layers[number].num_inputs,
                       number - 1, layers[number - 1].num_outputs);
  }
  return sum_of(std::move(layers));
}

} // namespace varve
