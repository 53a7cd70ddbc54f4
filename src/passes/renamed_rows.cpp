#include "passes/layer_rewrite.hpp"

#include "core/host_threads.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

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

} // namespace varve
