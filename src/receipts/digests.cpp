#include "receipts/digests.hpp"

#include "core/host_threads.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace varve {
namespace {

using namespace std::string_view_literals;

static_assert(std::endian::native == std::endian::little, "numbers are hashed as they lie in memory");

/// Hashes numbers one after the other, as little-endian bytes.
class NumberHash {
public:
  explicit NumberHash(std::string_view kind) { hash_.add(kind); }

  template <class Number>
  void add(Number number) {
    add(std::span<Number const>(&number, 1));
  }
  template <class Number>
  void add(std::span<Number const> numbers) {
    hash_.add({reinterpret_cast<char const*>(numbers.data()), numbers.size_bytes()});
  }
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    hash_.add(text);
  }
  /// Numbers of which the first alone is hashed if all have its bits. One may stand for all of `count`.
  void add_each(std::span<double const> numbers, std::size_t count) {
    if (count == 0) return;
    bool const are_equal = std::ranges::all_of(numbers, [&](double number) { return same_bits(number, numbers[0]); });
    add(numbers.first(are_equal ? 1 : numbers.size()));
  }

  Digest finish() { return hash_.finish(); }

private:
  Sha256 hash_;
};

Digest layer_digest(Layer const& layer) {
  NumberHash hash("varve layer 1\n");
  auto const& weights = layer.weights;
  for (std::size_t const size : {weights.num_rows, weights.num_columns, std::size_t{weights.num_entries()}})
    hash.add(std::uint64_t{size});
  auto const& activation = entry_of(layer.activation.kind);
  hash.add(std::string_view(activation.name));
  hash.add(activation.parameter == nullptr ? 0.0 : layer.activation.*activation.value);
  hash.add_each(layer.bias, weights.num_rows);
  hash.add(std::span<EdgeOffset const>(weights.row_pointers));
  hash.add(std::span<NeuronIndex const>(weights.column_indices));
  hash.add_each(weights.values, weights.num_entries());
  return hash.finish();
}

/// The digest of a sample with these nonzero numbers. One may stand for all.
Digest leaf_digest(std::string_view kind, SampleIndex sample, std::span<NeuronIndex const> neurons,
                   std::span<double const> numbers) {
  NumberHash hash(kind);
  hash.add(std::uint64_t{sample});
  hash.add(std::uint64_t{neurons.size()});
  hash.add(neurons);
  hash.add_each(numbers, neurons.size());
  return hash.finish();
}

/// The same of a row of a matrix, whose row pointers, columns and values (one each, or one for all) are given.
template <class Column>
Digest row_digest(std::string_view kind, SampleIndex sample, std::span<EdgeOffset const> row_pointers, std::size_t row,
                  Column const* columns, std::span<double const> values) {
  auto const first = row_pointers[row];
  auto const count = row_pointers[row + 1] - first;
  bool const is_one = values.size() == 1;
  auto const numbers = is_one ? values : values.subspan(first, count);
  if constexpr (std::is_same_v<Column, NeuronIndex>) {
    if (std::ranges::find(numbers, 0.0) == numbers.end())
      return leaf_digest(kind, sample, {columns + first, count}, numbers);
  }
  thread_local std::vector<NeuronIndex> kept_neurons;
  thread_local std::vector<double> kept_numbers;
  kept_neurons.clear();
  kept_numbers.clear();
  for (EdgeOffset entry = 0; entry < count; ++entry) {
    double const number = numbers[is_one ? 0 : entry];
    if (number == 0.0) continue;
    kept_neurons.push_back(columns[first + entry]);
    kept_numbers.push_back(number);
  }
  return leaf_digest(kind, sample, kept_neurons, kept_numbers);
}

/// digest_of(number) for all numbers below `count`, by all host threads.
template <class DigestOf>
std::vector<Digest> digests_of_each(std::size_t count, DigestOf const& digest_of) {
  std::vector<Digest> digests(count);
  for_each_on_host_threads(count, [&](std::size_t number) { digests[number] = digest_of(number); });
  return digests;
}

/// The digest of an inner node.
Digest node_digest(Digest const& left, Digest const& right) {
  NumberHash hash("\x01");
  hash.add(std::span<unsigned char const>(left));
  hash.add(std::span<unsigned char const>(right));
  return hash.finish();
}

/// The nodes above those of a level; a last one without neighbour goes up as it is.
std::vector<Digest> level_above(std::vector<Digest> const& level) {
  constexpr std::size_t at_a_time = 512;
  std::vector<Digest> above((level.size() + 1) / 2, level.back());
  auto const num_pairs = level.size() / 2;
  for_each_on_host_threads((num_pairs + at_a_time - 1) / at_a_time, [&](std::size_t block) {
    for (auto pair = block * at_a_time; pair < std::min(num_pairs, (block + 1) * at_a_time); ++pair)
      above[pair] = node_digest(level[2 * pair], level[2 * pair + 1]);
  });
  return above;
}

} // namespace

DigestedNetwork::DigestedNetwork(std::unique_ptr<NetworkSource> source)
    : source_(std::move(source)), digests_(source_->num_layers()) {}

Layer DigestedNetwork::layer(std::size_t number) const {
  auto layer = source_->layer(number);
  std::unique_lock lock(guard_);
  if (digests_.at(number)) return layer;
  lock.unlock();
  auto const digest = layer_digest(layer);
  lock.lock();
  digests_[number] = digest;
  return layer;
}

Digest DigestedNetwork::digest() const {
  return network_digest(digests_of_each(num_layers(), [&](std::size_t number) {
    if (!digests_[number]) static_cast<void>(layer(number));
    return *digests_[number];
  }));
}

std::vector<Digest> layer_digests(Network const& network) {
  return digests_of_each(network.num_layers(),
                         [&](std::size_t number) { return layer_digest(network.layers()[number]); });
}

Digest network_digest(std::vector<Digest> const& layers) {
  NumberHash hash("varve network 1\n");
  hash.add(std::uint64_t{layers.size()});
  for (auto const& layer : layers) hash.add(std::span<unsigned char const>(layer));
  return hash.finish();
}

Digest network_digest(NetworkSource const& network) {
  return network_digest(
      digests_of_each(network.num_layers(), [&](std::size_t number) { return layer_digest(network.layer(number)); }));
}

std::vector<Digest> moment_digests(OptimizerState const& state) {
  return digests_of_each(state.layers.size(), [&](std::size_t number) {
    auto const& weights = state.layers[number].weights;
    auto const& bias = state.layers[number].bias;
    NumberHash hash("varve moments 1\n");
    hash.add(std::uint64_t{weights.size()});
    for (auto const* const moments : {&weights, &bias})
      for (auto const& moment : *moments) hash.add_each(moment, moment.size());
    return hash.finish();
  });
}

Digest answers_digest(Answers const& answers, SampleIndex first_sample) {
  if (!answers.are_labels()) {
    return root_of(digests_of_each(answers.num_samples(), [&](std::size_t row) {
      return row_digest("\0varve target 1\n"sv, first_sample + row, answers.values.row_pointers, row,
                        answers.values.column_indices.data(), answers.values.values);
    }));
  }
  NumberHash hash("varve labels 1\n");
  hash.add(std::uint64_t{answers.labels.size()});
  hash.add(std::span<NeuronIndex const>(answers.labels));
  return hash.finish();
}

Digest order_digest(Digest const& before, std::span<std::uint64_t const> rows) {
  NumberHash hash("varve order 1\n");
  hash.add(std::span<unsigned char const>(before));
  hash.add(rows);
  return hash.finish();
}

std::vector<Digest> input_digests(SampleBatch const& samples) {
  std::vector<Digest> digests(samples.num_samples());
  std::size_t done = 0;
  for (auto const& rows : samples.rows()) {
    std::visit(
        [&](auto const* columns) {
          for_each_on_host_threads(rows.num_samples(), [&](std::size_t row) {
            digests[done + row] = row_digest("\0varve input 1\n"sv, samples.first_sample() + done + row,
                                             rows.row_pointers(), rows.first + row, columns, rows.values());
          });
        },
        rows.columns());
    done += rows.num_samples();
  }
  return digests;
}

std::vector<Digest> output_digests(SampleSet const& activations) {
  return digests_of_each(activations.num_samples(), [&](std::size_t row) {
    return output_digest(activations.matrix, row, activations.first_sample + row);
  });
}

Digest output_digest(SparseMatrix const& activations, std::size_t row, SampleIndex number) {
  return row_digest("\0varve output 1\n"sv, number, activations.row_pointers, row, activations.column_indices.data(),
                    activations.values);
}

Digest root_of(std::vector<Digest> leaves) {
  if (leaves.empty()) return sha256({});
  while (leaves.size() > 1) leaves = level_above(leaves);
  return leaves.front();
}

std::vector<Digest> path_of(std::vector<Digest> leaves, std::size_t place) {
  std::vector<Digest> path;
  for (; leaves.size() > 1; leaves = level_above(leaves), place /= 2)
    if ((place ^ 1U) < leaves.size()) path.push_back(leaves[place ^ 1U]);
  return path;
}

std::size_t path_length(std::size_t place, std::size_t count) {
  std::size_t length = 0;
  for (; count > 1; place /= 2, count -= count / 2) length += (place ^ 1U) < count ? 1 : 0;
  return length;
}

Digest root_by(Digest const& leaf, std::size_t place, std::size_t count, std::span<Digest const> path) {
  auto node = leaf;
  for (; count > 1; place /= 2, count -= count / 2) {
    if ((place ^ 1U) >= count) continue;
    node = place % 2 == 0 ? node_digest(node, path.front()) : node_digest(path.front(), node);
    path = path.subspan(1);
  }
  return node;
}

Digest root_of(std::span<SampleLeaves const> leaves, Digest SampleLeaves::*digest) {
  return root_of(digests_of(leaves, digest));
}

std::vector<Digest> digests_of(std::span<SampleLeaves const> leaves, Digest SampleLeaves::*digest) {
  std::vector<Digest> digests(leaves.size());
  std::ranges::transform(leaves, digests.begin(), digest);
  return digests;
}

} // namespace varve
