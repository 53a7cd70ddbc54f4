#include "passes/equal_neurons.hpp"

#include "core/buffer_pool.hpp"
#include "core/host_threads.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

namespace varve {

std::vector<NeuronIndex> ascending(std::size_t count) {
  std::vector<NeuronIndex> numbers(count);
  std::iota(numbers.begin(), numbers.end(), NeuronIndex{0});
  return numbers;
}

std::vector<NeuronIndex> kept_neurons(NeuronMap const& map) {
  if (map.is_identity()) return ascending(map.num_before);
  std::vector<NeuronIndex> neurons;
  neurons.reserve(map.num_numbered);
  for (std::size_t neuron = 0; neuron < map.num_before; ++neuron) {
    if (map.numbers[neuron] == neurons.size()) neurons.push_back(static_cast<NeuronIndex>(neuron));
  }
  return neurons;
}

namespace {

/// Folds a word into a hash. Collisions are harmless: neurons with equal hashes are compared in full.
std::uint64_t hash_of_both(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29U);
}

} // namespace

std::uint64_t neuron_hash(std::span<NeuronIndex const> inputs, std::span<double const> weights, double bias) {
  std::uint64_t hash = hash_of_both(inputs.size(), std::bit_cast<std::uint64_t>(bias));
  for (NeuronIndex const input : inputs) hash = hash_of_both(hash, input);
  for (double const weight : weights) hash = hash_of_both(hash, std::bit_cast<std::uint64_t>(weight));
  return hash;
}

bool same_bits(std::span<double const> one, std::span<double const> other) {
  return std::ranges::equal(one, other, [](double left, double right) { return same_bits(left, right); });
}

namespace {

constexpr std::size_t kMinRowsPerChunk = 256;
constexpr std::size_t kChunksPerThread = 4;
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

} // namespace

std::size_t num_row_chunks(std::size_t rows) {
  return std::clamp<std::size_t>(rows / kMinRowsPerChunk, 1, kChunksPerThread * num_host_threads());
}

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

bool RenamedRows::are_equal(std::size_t one, std::size_t other) const {
  return same_bits(bias(one), bias(other)) && std::ranges::equal(inputs(one), inputs(other)) &&
         same_bits(weights(one), weights(other));
}

namespace {

/// The unchanged rows of a layer.
struct SourceRows {
  Layer const& layer;

  std::size_t size() const { return layer.num_outputs(); }
  std::uint64_t hash_of(std::size_t row, NeuronHash hash) const {
    return hash(layer.weights.row_columns(row), weights(row), layer.bias_of(row));
  }
  bool are_equal(std::size_t one, std::size_t other) const {
    return same_bits(layer.bias_of(one), layer.bias_of(other)) &&
           std::ranges::equal(layer.weights.row_columns(one), layer.weights.row_columns(other)) &&
           same_bits(weights(one), weights(other));
  }

private:
  /// The weights of a row; empty if all weights of the layer are equal.
  std::span<double const> weights(std::size_t row) const {
    if (layer.weights.values.size() == 1) return {};
    return {layer.weights.values.data() + layer.weights.row_pointers[row],
            static_cast<std::size_t>(layer.weights.row_size(row))};
  }
};

/// Calls work(first, last) for parts of the rows on all host threads.
template <class Work>
void for_parts_of_rows(std::size_t num_rows, Work const& work) {
  std::size_t const chunks = num_row_chunks(num_rows);
  for_each_on_host_threads(
      chunks, [&](std::size_t chunk) { work(chunk * num_rows / chunks, (chunk + 1) * num_rows / chunks); });
}

template <class AnyRows>
std::vector<std::uint64_t> hashes_of(AnyRows const& rows, NeuronHash hash) {
  auto hashes = BufferPool<std::uint64_t>::of_process().take(rows.size());
  for_parts_of_rows(rows.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) hashes[row] = rows.hash_of(row, hash);
  });
  return hashes;
}

/// For each row the first one with the same hash.
std::vector<NeuronIndex> firsts_of_hashes(std::vector<std::uint64_t> const& hashes) {
  constexpr auto nobody = std::numeric_limits<NeuronIndex>::max();
  constexpr std::uint64_t mix = 0x9e3779b97f4a7c15U; // 2^64 / golden ratio: takes all bits of a hash into the highest
  auto const bits = static_cast<int>(std::bit_width(2 * hashes.size()));
  auto table = BufferPool<NeuronIndex>::of_process().take(std::size_t{1} << bits); // at least half of it stays empty
  std::ranges::fill(table, nobody);
  auto firsts = BufferPool<NeuronIndex>::of_process().take(hashes.size());
  for (NeuronIndex row = 0; row < hashes.size(); ++row) {
    auto place = static_cast<std::size_t>((hashes[row] * mix) >> (64 - bits));
    while (table[place] != nobody && hashes[table[place]] != hashes[row]) place = (place + 1) % table.size();
    if (table[place] == nobody) table[place] = row;
    firsts[row] = table[place];
  }
  BufferPool<NeuronIndex>::of_process().recycle(std::move(table));
  return firsts;
}

/// For each row the first equal one, if rows of one hash may differ.
template <class AnyRows>
std::vector<NeuronIndex> firsts_of_colliding(AnyRows const& rows, std::vector<std::uint64_t> const& hashes) {
  auto const hash_of = [&](NeuronIndex row) { return static_cast<std::size_t>(hashes[row]); };
  auto const are_equal = [&](NeuronIndex one, NeuronIndex other) {
    return hashes[one] == hashes[other] && rows.are_equal(one, other);
  };
  std::unordered_set<NeuronIndex, decltype(hash_of), decltype(are_equal)> distinct(0, hash_of, are_equal);
  std::vector<NeuronIndex> firsts(rows.size());
  for (NeuronIndex row = 0; row < rows.size(); ++row) firsts[row] = *distinct.insert(row).first;
  return firsts;
}

/// Rows are compared on all threads, each with the first one of its hash. Hardly ever do two rows of one hash differ.
template <class AnyRows>
std::vector<NeuronIndex> firsts_of(AnyRows const& rows, NeuronHash hash) {
  auto hashes = hashes_of(rows, hash);
  auto firsts = firsts_of_hashes(hashes);
  std::atomic<bool> do_differ = false;
  for_parts_of_rows(rows.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last && !do_differ; ++row)
      if (firsts[row] != row && !rows.are_equal(row, firsts[row])) do_differ = true;
  });
  if (do_differ) firsts = firsts_of_colliding(rows, hashes);
  BufferPool<std::uint64_t>::of_process().recycle(std::move(hashes));
  return firsts;
}

} // namespace

std::vector<NeuronIndex> firsts_of_equals(RenamedRows const& rows, NeuronHash hash) { return firsts_of(rows, hash); }

std::vector<NeuronIndex> firsts_of_equals(Layer const& layer, NeuronHash hash) {
  return firsts_of(SourceRows{layer}, hash);
}

} // namespace varve
