#include "passes/layer_rewrite.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>

namespace varve {

namespace {

constexpr std::size_t kMinRowsPerChunk = 256;
constexpr std::size_t kChunksPerThread = 4;
constexpr double kMaxSumOfWeights = std::numeric_limits<float>::max();

std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }

bool has_equal_bits(double one, double other) { return bits_of(one) == bits_of(other); }

/// Folds a word into a hash. Collisions are harmless: neurons with equal hashes are compared in full.
std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29U);
}

/// Consecutive rows with renamed inputs.
struct RowChunk {
  std::vector<EdgeOffset> row_pointers = {0};
  std::vector<NeuronIndex> inputs;
  std::vector<double> weights;
  std::vector<double> biases;
  bool is_in_range = true; ///< true if all sums of weights and all biases are within float's range
};

/// Adds up the edges of one output that read the same renamed input.
class EdgeSums {
public:
  explicit EdgeSums(std::size_t num_inputs) : places_(num_inputs, kNowhere) {}

  void add(NeuronIndex input, double weight) {
    if (places_[input] == kNowhere) {
      places_[input] = static_cast<NeuronIndex>(sums_.size());
      sums_.push_back({input, weight});
    } else {
      double& sum = sums_[places_[input]].weight;
      sum += weight;
      is_in_range_ = is_in_range_ && std::abs(sum) <= kMaxSumOfWeights;
    }
  }

  /// Appends the nonzero sums, ascending by input, to the last row of the chunk, and clears them here.
  void move_to(RowChunk& chunk) {
    if (!std::ranges::is_sorted(sums_, {}, &Sum::input)) std::ranges::sort(sums_, {}, &Sum::input);
    for (auto const& [input, weight] : sums_) {
      places_[input] = kNowhere;
      if (weight == 0.0) continue;
      chunk.inputs.push_back(input);
      chunk.weights.push_back(weight);
    }
    chunk.is_in_range = chunk.is_in_range && is_in_range_;
    sums_.clear();
  }

private:
  static constexpr NeuronIndex kNowhere = std::numeric_limits<NeuronIndex>::max();
  struct Sum {
    NeuronIndex input;
    double weight;
  };

  std::vector<NeuronIndex> places_; ///< position of each input in sums_
  std::vector<Sum> sums_;
  bool is_in_range_ = true;
};

/// Rewrites the rows of a layer one after the other.
class RowRewriter {
public:
  RowRewriter(Layer const& layer, NeuronMap const& inputs)
      : layer_(layer), inputs_(inputs), sums_(inputs.is_identity() ? 0 : inputs.width()) {}

  void append(std::size_t row) {
    double const constant = inputs_.is_identity() ? copy_edges(row) : rename_edges(row);
    double const bias = constant == 0.0 ? layer_.bias_of(row) : constant + layer_.bias_of(row);
    chunk_.is_in_range = chunk_.is_in_range && std::abs(bias) <= kMaxSumOfWeights;
    chunk_.biases.push_back(bias);
    chunk_.row_pointers.push_back(chunk_.inputs.size());
  }

  RowChunk take() { return std::move(chunk_); }

private:
  /// Appends the edges of a row whose inputs keep their numbers; no input is a constant.
  double copy_edges(std::size_t row) {
    auto const& weights = layer_.weights;
    for (EdgeOffset edge = weights.row_pointers[row]; edge < weights.row_pointers[row + 1]; ++edge) {
      double const weight = weights.value(edge);
      if (weight == 0.0) continue;
      chunk_.inputs.push_back(weights.column_indices[edge]);
      chunk_.weights.push_back(weight);
    }
    return 0.0;
  }

  /// Appends the renamed edges of a row; returns the sum of its edges from constants.
  double rename_edges(std::size_t row) {
    double constant = 0.0;
    auto const& weights = layer_.weights;
    for (EdgeOffset edge = weights.row_pointers[row]; edge < weights.row_pointers[row + 1]; ++edge) {
      NeuronIndex const input = weights.column_indices[edge];
      NeuronIndex const number = inputs_.number(input);
      if (number == NeuronMap::kConstant) {
        constant = std::fma(weights.value(edge), inputs_.constants[input], constant);
      } else if (number != NeuronMap::kUnread) {
        // an unread input has weights that add up to 0, or its row is dropped as well
        sums_.add(number, weights.value(edge));
      }
    }
    sums_.move_to(chunk_);
    return constant;
  }

  Layer const& layer_;
  NeuronMap const& inputs_;
  EdgeSums sums_;
  RowChunk chunk_;
};

/// The renamed rows of a layer, in chunks that are built independently.
class Rows {
public:
  /// Renames the given rows of the layer; they get the numbers 0, 1, ...
  Rows(Layer const& layer, NeuronMap const& inputs, std::span<NeuronIndex const> rows, std::size_t num_chunks)
      : num_rows_(rows.size()),
        rows_per_chunk_(std::max<std::size_t>(1, (rows.size() + num_chunks - 1) / num_chunks)),
        chunks_((rows.size() + rows_per_chunk_ - 1) / rows_per_chunk_) {
    for_each_on_host_threads(chunks_.size(), [&](std::size_t number) {
      RowRewriter rewriter(layer, inputs);
      std::size_t const first = number * rows_per_chunk_;
      for (auto const row : rows.subspan(first, std::min(rows_per_chunk_, rows.size() - first))) rewriter.append(row);
      chunks_[number] = rewriter.take();
    });
  }

  std::size_t size() const { return num_rows_; }
  std::span<NeuronIndex const> inputs(std::size_t row) const { return part(row, chunk_of(row).inputs); }
  std::span<double const> weights(std::size_t row) const { return part(row, chunk_of(row).weights); }
  double bias(std::size_t row) const { return chunk_of(row).biases[row % rows_per_chunk_]; }

  bool are_in_range() const { return std::ranges::all_of(chunks_, &RowChunk::is_in_range); }
  std::uint64_t hash_of(std::size_t row, NeuronHash hash) const { return hash(inputs(row), weights(row), bias(row)); }
  bool are_equal(std::size_t one, std::size_t other) const {
    return has_equal_bits(bias(one), bias(other)) && std::ranges::equal(inputs(one), inputs(other)) &&
           std::ranges::equal(weights(one), weights(other), has_equal_bits);
  }

private:
  RowChunk const& chunk_of(std::size_t row) const { return chunks_[row / rows_per_chunk_]; }

  template <class Element>
  std::span<Element const> part(std::size_t row, std::vector<Element> const& elements) const {
    auto const& pointers = chunk_of(row).row_pointers;
    auto const begin = static_cast<std::size_t>(pointers[row % rows_per_chunk_]);
    return {elements.data() + begin, static_cast<std::size_t>(pointers[row % rows_per_chunk_ + 1]) - begin};
  }

  std::size_t num_rows_;
  std::size_t rows_per_chunk_;
  std::vector<RowChunk> chunks_;
};

std::size_t num_chunks(std::size_t rows) {
  return std::clamp<std::size_t>(rows / kMinRowsPerChunk, 1, kChunksPerThread * num_host_threads());
}

std::vector<NeuronIndex> ascending(std::size_t count) {
  std::vector<NeuronIndex> numbers(count);
  std::iota(numbers.begin(), numbers.end(), NeuronIndex{0});
  return numbers;
}

/// The source neurons that remain, ascending: the first of each set of merged neurons.
std::vector<NeuronIndex> kept_neurons(NeuronMap const& map) {
  if (map.is_identity()) return ascending(map.num_before);
  std::vector<NeuronIndex> neurons;
  neurons.reserve(map.num_numbered);
  for (std::size_t neuron = 0; neuron < map.num_before; ++neuron) {
    if (map.numbers[neuron] == neurons.size()) neurons.push_back(static_cast<NeuronIndex>(neuron));
  }
  return neurons;
}

/// The unchanged rows of a layer.
struct SourceRows {
  Layer const& layer;

  std::size_t size() const { return layer.num_outputs(); }
  std::uint64_t hash_of(std::size_t row, NeuronHash hash) const {
    return hash(layer.weights.row_columns(row), weights(row), layer.bias_of(row));
  }
  bool are_equal(std::size_t one, std::size_t other) const {
    return has_equal_bits(layer.bias_of(one), layer.bias_of(other)) &&
           std::ranges::equal(layer.weights.row_columns(one), layer.weights.row_columns(other)) &&
           std::ranges::equal(weights(one), weights(other), has_equal_bits);
  }

private:
  /// The weights of a row; empty if all weights of the layer are equal.
  std::span<double const> weights(std::size_t row) const {
    if (layer.weights.values.size() == 1) return {};
    return {layer.weights.values.data() + layer.weights.row_pointers[row],
            static_cast<std::size_t>(layer.weights.row_size(row))};
  }
};

template <class AnyRows>
std::vector<std::uint64_t> hashes_of(AnyRows const& rows, NeuronHash hash) {
  std::vector<std::uint64_t> hashes(rows.size());
  std::size_t const chunks = num_chunks(rows.size());
  for_each_on_host_threads(chunks, [&](std::size_t chunk) {
    std::size_t const last = (chunk + 1) * rows.size() / chunks;
    for (std::size_t row = chunk * rows.size() / chunks; row < last; ++row) hashes[row] = rows.hash_of(row, hash);
  });
  return hashes;
}

/// For each row the first row that equals it. Candidates are found by hash and compared in full.
template <class AnyRows>
std::vector<NeuronIndex> firsts_of_equals(AnyRows const& rows, NeuronHash hash) {
  auto const hashes = hashes_of(rows, hash);
  auto const hash_of = [&](NeuronIndex row) { return static_cast<std::size_t>(hashes[row]); };
  auto const are_equal = [&](NeuronIndex one, NeuronIndex other) {
    return hashes[one] == hashes[other] && rows.are_equal(one, other);
  };
  std::unordered_set<NeuronIndex, decltype(hash_of), decltype(are_equal)> distinct(0, hash_of, are_equal);
  std::vector<NeuronIndex> firsts(rows.size());
  for (NeuronIndex row = 0; row < rows.size(); ++row) firsts[row] = *distinct.insert(row).first;
  return firsts;
}

/// Decides what each row becomes, and counts merged and constant neurons.
void map_outputs(Rows const& rows, Activation const& activation, OutputPasses passes, NeuronHash hash,
                 RewrittenLayer& result) {
  auto& map = result.outputs;
  map.num_before = rows.size();
  map.numbers.resize(rows.size());
  auto const firsts = passes.merge_neurons ? firsts_of_equals(rows, hash) : ascending(rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (passes.fold_constants && rows.inputs(row).empty()) {
      map.constants.resize(rows.size());
      map.constants[row] = activated<double>(activation, rows.bias(row));
      map.numbers[row] = NeuronMap::kConstant;
      ++result.constant_neurons;
    } else if (firsts[row] == row) {
      map.numbers[row] = static_cast<NeuronIndex>(map.num_numbered++);
    } else {
      map.numbers[row] = map.numbers[firsts[row]];
      ++result.merged_neurons;
    }
  }
  if (map.num_numbered == map.num_before) map.numbers.clear();
  if (map.is_stand_in()) --result.constant_neurons;
}

/// Extends the map of the distinct outputs to all outputs: each output goes where the first output equal to it goes.
void map_repetitions(std::vector<NeuronIndex> const& firsts, RewrittenLayer& result) {
  auto const distinct = std::exchange(result.outputs, {});
  auto& map = result.outputs;
  map.num_before = firsts.size();
  map.num_numbered = distinct.num_numbered;
  map.numbers.resize(firsts.size());
  if (!distinct.constants.empty()) map.constants.resize(firsts.size());
  std::size_t next = 0;
  for (std::size_t output = 0; output < firsts.size(); ++output) {
    std::size_t const first = firsts[output];
    bool const is_first = first == output;
    map.numbers[output] = is_first ? distinct.number(next) : map.numbers[first];
    bool const is_constant = map.numbers[output] == NeuronMap::kConstant;
    if (is_constant) map.constants[output] = is_first ? distinct.constants[next] : map.constants[first];
    if (is_first) ++next;
    if (!is_first) ++(is_constant ? result.constant_neurons : result.merged_neurons);
  }
}

/// The neurons that are the first among their equals, ascending.
std::vector<NeuronIndex> distinct_neurons(std::vector<NeuronIndex> const& firsts) {
  std::vector<NeuronIndex> neurons;
  for (NeuronIndex neuron = 0; neuron < firsts.size(); ++neuron) {
    if (firsts[neuron] == neuron) neurons.push_back(neuron);
  }
  return neurons;
}

/// True if folding, or removing edges of weight 0, changes a layer whose inputs keep their numbers.
bool has_constants_or_zeros(Layer const& layer, OutputPasses passes) {
  auto const& pointers = layer.weights.row_pointers;
  if (passes.fold_constants && std::ranges::adjacent_find(pointers) != pointers.end()) return true;
  return std::ranges::find(layer.weights.values, 0.0) != layer.weights.values.end();
}

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

/// A layer of one neuron that reads nothing and is always 0.
Layer stand_in(std::size_t num_inputs, Activation const& activation) {
  Layer layer;
  layer.weights.num_rows = 1;
  layer.weights.num_columns = num_inputs;
  layer.weights.row_pointers = {0, 0};
  layer.activation = activation;
  return layer;
}

/// The layer that consists of the rows in `kept`.
Layer layer_of(Rows const& rows, std::span<NeuronIndex const> kept, std::size_t num_inputs,
               Activation const& activation) {
  Layer layer;
  auto& weights = layer.weights;
  weights.num_rows = kept.size();
  weights.num_columns = num_inputs;
  weights.row_pointers.resize(kept.size() + 1);
  layer.bias.resize(kept.size());
  layer.activation = activation;
  for (std::size_t output = 0; output < kept.size(); ++output) {
    weights.row_pointers[output + 1] = weights.row_pointers[output] + rows.inputs(kept[output]).size();
    layer.bias[output] = rows.bias(kept[output]);
  }
  weights.column_indices.reserve(static_cast<std::size_t>(weights.row_pointers.back()));
  weights.values.reserve(static_cast<std::size_t>(weights.row_pointers.back()));
  for (auto const row : kept) {
    weights.column_indices.insert(weights.column_indices.end(), rows.inputs(row).begin(), rows.inputs(row).end());
    weights.values.insert(weights.values.end(), rows.weights(row).begin(), rows.weights(row).end());
  }
  make_canonical(layer);
  return layer;
}

} // namespace

std::uint64_t neuron_hash(std::span<NeuronIndex const> inputs, std::span<double const> weights, double bias) {
  std::uint64_t hash = mixed(inputs.size(), bits_of(bias));
  for (NeuronIndex const input : inputs) hash = mixed(hash, input);
  for (double const weight : weights) hash = mixed(hash, bits_of(weight));
  return hash;
}

std::optional<RewrittenLayer> rewrite(Layer layer, NeuronMap const& inputs, OutputPasses passes, NeuronHash hash) {
  // Find outputs that are equal in the source first: this saves renaming each of them.
  std::size_t const num_outputs = layer.num_outputs();
  auto const firsts = passes.merge_neurons ? firsts_of_equals(SourceRows{layer}, hash) : ascending(num_outputs);
  auto const distinct = distinct_neurons(firsts);
  RewrittenLayer result;
  if (inputs.is_identity() && distinct.size() == num_outputs && !has_constants_or_zeros(layer, passes)) {
    result.layer = std::move(layer);
    make_canonical(result.layer);
    result.outputs = NeuronMap::identity(num_outputs);
    return result;
  }

  Rows const rows(layer, inputs, distinct, num_chunks(distinct.size()));
  if (!rows.are_in_range()) return std::nullopt;
  map_outputs(rows, layer.activation, passes, hash, result);
  if (result.outputs.is_stand_in()) {
    result.layer = stand_in(inputs.width(), layer.activation);
  } else {
    result.layer = layer_of(rows, kept_neurons(result.outputs), inputs.width(), layer.activation);
  }
  if (distinct.size() < num_outputs) map_repetitions(firsts, result);
  return result;
}

Layer rewrite(Layer const& layer, NeuronMap const& inputs, NeuronMap const& outputs) {
  VARVE_REQUIRE(layer.num_inputs() == inputs.num_before && layer.num_outputs() == outputs.num_before,
                "the layer is not the one that the maps were made for");
  if (outputs.is_stand_in()) return stand_in(inputs.width(), layer.activation);
  Rows const rows(layer, inputs, kept_neurons(outputs), 1);
  return layer_of(rows, ascending(rows.size()), inputs.width(), layer.activation);
}

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

void make_canonical(Layer& layer) {
  make_iso_if_equal(layer.weights);
  if (layer.num_edges() == 0) layer.weights.values.clear();
  if (layer.bias.empty()) layer.bias = {0.0};
  auto const first = bits_of(layer.bias.front());
  if (std::ranges::all_of(layer.bias, [&](double bias) { return bits_of(bias) == first; })) layer.bias.resize(1);
}

} // namespace varve
