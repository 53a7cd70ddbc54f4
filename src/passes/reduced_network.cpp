#include "passes/reduced_network.hpp"

#include "core/buffer_pool.hpp"
#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "core/stopwatch.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace varve {

/// A layer whose inputs have been renamed and whose outputs have been folded and merged.
struct RewrittenLayer {
  Layer layer;
  NeuronMap outputs;
  std::size_t merged_neurons = 0;   ///< number of outputs merged into an earlier one
  std::size_t constant_neurons = 0; ///< number of outputs folded into constants
};

namespace {

/// The numbers 0 to count - 1.
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

constexpr double kMaxSumOfWeights = std::numeric_limits<float>::max();

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
  void move_to(RenamedRows::Chunk& chunk) {
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

  RenamedRows::Chunk take() { return std::move(chunk_); }

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
  RenamedRows::Chunk chunk_;
};

/// The number of chunks into which `rows` rows are divided among host threads.
std::size_t num_row_chunks(std::size_t rows) {
  constexpr std::size_t min_rows_per_chunk = 256;
  constexpr std::size_t chunks_per_thread = 4;
  return std::clamp<std::size_t>(rows / min_rows_per_chunk, 1, chunks_per_thread * num_host_threads());
}

/// Decides what each row becomes, and counts merged and constant neurons.
void map_outputs(RenamedRows const& rows, Activation const& activation, NetworkPasses passes, OutputHash hash,
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
bool has_constants_or_zeros(Layer const& layer, NetworkPasses passes) {
  auto const& pointers = layer.weights.row_pointers;
  if (passes.fold_constants && std::ranges::adjacent_find(pointers) != pointers.end()) return true;
  return std::ranges::find(layer.weights.values, 0.0) != layer.weights.values.end();
}

/// Stores equal weights once, equal biases once, and no weight if there is no edge.
void make_canonical(Layer& layer) {
  make_iso_if_equal(layer.weights);
  if (layer.num_edges() == 0) layer.weights.values.clear();
  if (layer.bias.empty()) layer.bias = {0.0};
  auto const first = layer.bias.front();
  if (std::ranges::all_of(layer.bias, [&](double bias) { return same_bits(bias, first); })) layer.bias.resize(1);
}

/// A layer of one neuron that reads nothing and is always 0.
Layer stand_in(std::size_t num_inputs, Activation const& activation) {
  return {SparseMatrix{1, num_inputs, {0, 0}, {}, {}}, {0.0}, activation};
}

/// The layer that consists of the rows in `kept`.
Layer layer_of(RenamedRows const& rows, std::span<NeuronIndex const> kept, std::size_t num_inputs,
               Activation const& activation) {
  Layer layer{SparseMatrix{kept.size(), num_inputs, std::vector<EdgeOffset>(kept.size() + 1), {}, {}},
              std::vector<double>(kept.size()), activation};
  auto& weights = layer.weights;
  for (std::size_t output = 0; output < kept.size(); ++output) {
    weights.row_pointers[output + 1] = weights.row_pointers[output] + rows.inputs(kept[output]).size();
    layer.bias[output] = rows.bias(kept[output]);
  }
  auto const num_edges = static_cast<std::size_t>(weights.row_pointers.back());
  weights.column_indices.reserve(num_edges); // it is kept, so not a larger one that is to spare
  weights.values = BufferPool<double>::of_process().take(num_edges);
  for (std::size_t output = 0; output < kept.size(); ++output) {
    auto const inputs = rows.inputs(kept[output]);
    weights.column_indices.insert(weights.column_indices.end(), inputs.begin(), inputs.end());
    std::ranges::copy(rows.weights(kept[output]),
                      weights.values.begin() + static_cast<std::ptrdiff_t>(weights.row_pointers[output]));
  }
  make_canonical(layer);
  weights.values.shrink_to_fit();
  return layer;
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

} // namespace

RenamedRows::RenamedRows(Layer const& layer, NeuronMap const& inputs, std::span<NeuronIndex const> rows,
                         std::size_t num_chunks)
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

bool RenamedRows::are_in_range() const { return std::ranges::all_of(chunks_, &Chunk::is_in_range); }

std::vector<NeuronIndex> firsts_of_equals(RenamedRows const& rows, OutputHash hash) {
  auto const output = [&](std::size_t row) {
    return ComparedOutput{rows.inputs(row), rows.weights(row), rows.bias(row)};
  };
  return firsts_of_equals(rows.size(), output, hash);
}

namespace {

/// Rewrites a valid layer on all host threads, in time linear in its edges, outputs and inputs:
///   - Inputs get the numbers of the map; edges whose inputs were merged are added up in ascending order of the
///     input.
///   - Edges from constants join the bias: bias + (fma-chain of weight * constant from 0, ascending).
///   - Edges of weight 0, summed or not, are removed.
///   - fold_constants: outputs without edges become constants, activation(bias).
///   - merge_neurons: outputs with equal inputs, weights and bias, bit for bit, are merged into the first of them.
/// `firsts` are firsts_of_equals() the layer, or none to merge nothing.
/// The result is canonical: equal weights and equal biases are stored once. Returns nullopt if a sum of weights or a
/// bias exceeds float's range: then the previous layer must stay as it was.
std::optional<RewrittenLayer> rewrite(Layer layer, std::vector<NeuronIndex> firsts, NeuronMap const& inputs,
                                      NetworkPasses passes, OutputHash hash) {
  // Outputs that are equal in the source are merged first: this saves renaming each of them.
  std::size_t const num_outputs = layer.num_outputs();
  if (!passes.merge_neurons || firsts.empty()) firsts = ascending(num_outputs);
  auto const distinct = distinct_neurons(firsts);
  RewrittenLayer result;
  if (inputs.is_identity() && distinct.size() == num_outputs && !has_constants_or_zeros(layer, passes)) {
    result.layer = std::move(layer);
    make_canonical(result.layer);
    result.outputs = NeuronMap::identity(num_outputs);
    return result;
  }

  RenamedRows const rows(layer, inputs, distinct, num_row_chunks(distinct.size()));
  if (!rows.are_in_range()) return std::nullopt;
  map_outputs(rows, layer.activation, passes, hash, result);
  if (result.outputs.is_stand_in()) {
    result.layer = stand_in(inputs.width(), layer.activation);
  } else {
    result.layer = layer_of(rows, kept_neurons(result.outputs), inputs.width(), layer.activation);
  }
  if (distinct.size() < num_outputs) map_repetitions(firsts, result);
  BufferPool<NeuronIndex>::of_process().recycle(std::move(firsts));
  recycle(std::move(layer));
  return result;
}

/// For each input of the layer whether any output reads it; empty if all inputs are read.
std::vector<bool> unless_all_read(SparseMatrix const& weights) {
  std::vector<bool> is_read(weights.num_columns, false);
  for (auto const input : weights.column_indices) is_read[input] = true;
  if (std::ranges::find(is_read, false) == is_read.end()) is_read.clear();
  return is_read;
}

/// Drops the outputs of a canonical layer that are not marked. If none is marked, one output that reads nothing
/// remains.
void keep_outputs(Layer& layer, std::vector<bool> const& is_kept) {
  VARVE_REQUIRE(is_kept.size() == layer.num_outputs(), "one mark for each output");
  std::vector<NeuronIndex> kept;
  for (NeuronIndex output = 0; output < is_kept.size(); ++output)
    if (is_kept[output]) kept.push_back(output);
  layer = kept.empty() ? stand_in(layer.num_inputs(), layer.activation) : outputs_of(layer, kept);
  make_canonical(layer);
}

/// Removes the inputs that are not marked, which no output may read, and renumbers the rest; at least one input
/// remains.
void keep_inputs(Layer& layer, std::vector<bool> const& is_kept) {
  VARVE_REQUIRE(is_kept.size() == layer.num_inputs(), "one mark for each input");
  auto const numbers = numbers_of_kept(is_kept);
  for (auto& input : layer.weights.column_indices) input = numbers[input];
  layer.weights.num_columns = std::max<std::size_t>(1, num_marked(is_kept));
}

/// Maps the neurons that are not marked to kUnread; is_kept has one element for each of the map's width().
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

std::vector<NeuronIndex> numbers_of(NeuronMap const& map) {
  std::vector<NeuronIndex> numbers(map.num_before);
  for (std::size_t neuron = 0; neuron < numbers.size(); ++neuron) numbers[neuron] = map.number(neuron);
  return numbers;
}

bool any(NetworkPasses passes) { return passes.merge_neurons || passes.fold_constants || passes.drop_unread; }

} // namespace

ReducedNetwork::ReducedNetwork(NetworkSource const& source, NetworkPasses passes, std::size_t keep_bytes,
                               std::size_t ahead_bytes, OutputHash hash)
    : source_(source) {
  Stopwatch const stopwatch;
  bool const is_rewritten = any(passes) && sweep_forwards(passes, keep_bytes, ahead_bytes, hash);
  if (is_rewritten) sweep_backwards();
  if (!is_rewritten) take_source(ahead_bytes);
  if (!found_any()) entries_.clear();
  report_.seconds = stopwatch.seconds();
}

Layer ReducedNetwork::layer(std::size_t number) const {
  VARVE_REQUIRE(number < num_layers(), "layer number lies outside the network");
  if (entries_.empty()) return source_.layer(number);
  auto const& kept = entries_[number].layer;
  return kept ? passing_copy(*kept) : rewritten(number);
}

Layer ReducedNetwork::rewritten(std::size_t number) const {
  auto const& entry = entries_[number];
  if (entry.layer) return *entry.layer;
  Layer const layer = source_.layer(number);
  auto const as_they_are = NeuronMap::identity(layer.num_inputs());
  auto const& inputs = number == 0 ? as_they_are : *entries_[number - 1].outputs;
  auto const& outputs = *entry.outputs;
  VARVE_REQUIRE(layer.num_inputs() == inputs.num_before && layer.num_outputs() == outputs.num_before,
                "the layer is not the one that the maps were made for");
  if (outputs.is_stand_in()) return stand_in(inputs.width(), layer.activation);
  RenamedRows const rows(layer, inputs, kept_neurons(outputs), 1);
  return layer_of(rows, ascending(rows.size()), inputs.width(), layer.activation);
}

LayersAhead::StudiedLayer ReducedNetwork::next_of_source(LayersAhead& ahead, std::size_t number,
                                                         std::size_t outputs_before) {
  Stopwatch const stopwatch;
  auto next = ahead.next();
  report_.read_seconds += stopwatch.seconds();
  if (number > 0) require_fit(outputs_before, next.layer, number);
  report_.neurons_before += next.layer.num_outputs();
  report_.edges_before += next.layer.num_edges();
  return next;
}

bool ReducedNetwork::sweep_forwards(NetworkPasses passes, std::size_t keep_bytes, std::size_t ahead_bytes,
                                    OutputHash hash) {
  entries_.resize(num_layers());
  LayersAhead ahead(source_, ahead_bytes, [&](Layer const& layer) {
    return passes.merge_neurons ? firsts_of_equals(layer, hash) : std::vector<NeuronIndex>();
  });
  NeuronMap inputs;
  for (std::size_t number = 0; number < num_layers(); ++number) {
    auto [layer, firsts] = next_of_source(ahead, number, inputs.num_before);
    if (number == 0) inputs = NeuronMap::identity(layer.num_inputs());
    bool const is_last = number + 1 == num_layers();
    NetworkPasses const output_passes{passes.merge_neurons && (passes.merge_outputs || !is_last),
                                      passes.fold_constants && !is_last};
    auto result = rewrite(std::move(layer), std::move(firsts), inputs, output_passes, hash);
    if (!result) return false;
    inputs = result->outputs;
    if (passes.drop_unread && number > 0) entries_[number - 1].is_read = unless_all_read(result->layer.weights);
    count(*result);
    keep_bytes -= store(std::move(*result), number, keep_bytes);
  }
  output_map_ = numbers_of(inputs);
  return true;
}

void ReducedNetwork::count(RewrittenLayer const& rewritten) {
  report_.neurons_after += rewritten.layer.num_outputs();
  report_.edges_after += rewritten.layer.num_edges();
  report_.merged_neurons += rewritten.merged_neurons;
  report_.constant_neurons += rewritten.constant_neurons;
}

std::size_t ReducedNetwork::store(RewrittenLayer rewritten, std::size_t number, std::size_t keep_bytes) {
  auto& entry = entries_[number];
  entry.outputs = std::move(rewritten.outputs);
  std::size_t const bytes = bytes_of(rewritten.layer);
  if (bytes > keep_bytes) return 0;
  entry.layer = std::move(rewritten.layer);
  bool const is_last = number + 1 == num_layers();
  if (is_last) entry.outputs.reset();
  if (number > 0 && entries_[number - 1].layer) entries_[number - 1].outputs.reset();
  return bytes;
}

void ReducedNetwork::sweep_backwards() {
  for (std::size_t number = num_layers() - 1; number-- > 0;) {
    auto const is_read = std::exchange(entries_[number].is_read, {});
    if (!is_read.empty()) drop_outputs(number, is_read);
  }
}

void ReducedNetwork::drop_outputs(std::size_t number, std::vector<bool> const& is_read) {
  Layer layer = rewritten(number);
  report_.neurons_after -= layer.num_outputs();
  report_.edges_after -= layer.num_edges();
  report_.unread_neurons += layer.num_outputs();
  keep_outputs(layer, is_read);
  report_.neurons_after += layer.num_outputs();
  report_.edges_after += layer.num_edges();
  report_.unread_neurons -= layer.num_outputs();

  auto& entry = entries_[number];
  if (entry.outputs) keep_neurons(*entry.outputs, is_read);
  if (entries_[number + 1].layer) keep_inputs(*entries_[number + 1].layer, is_read);
  if (number > 0) entries_[number - 1].is_read = unless_all_read(layer.weights);
  if (entry.layer) entry.layer = std::move(layer);
}

void ReducedNetwork::take_source(std::size_t ahead_bytes) {
  report_ = {.read_seconds = report_.read_seconds};
  LayersAhead ahead(source_, ahead_bytes, [](Layer const&) { return std::vector<NeuronIndex>(); });
  std::size_t outputs = 0;
  for (std::size_t number = 0; number < num_layers(); ++number)
    outputs = next_of_source(ahead, number, outputs).layer.num_outputs();
  report_.neurons_after = report_.neurons_before;
  report_.edges_after = report_.edges_before;
  output_map_ = numbers_of(NeuronMap::identity(outputs));
}

} // namespace varve
