#include "passes/equal_neurons.hpp"

#include "core/host_threads.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>

namespace varve {
namespace {

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
           has_equal_bits(weights(one), weights(other));
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
  std::size_t const chunks = num_row_chunks(rows.size());
  for_each_on_host_threads(chunks, [&](std::size_t chunk) {
    std::size_t const last = (chunk + 1) * rows.size() / chunks;
    for (std::size_t row = chunk * rows.size() / chunks; row < last; ++row) hashes[row] = rows.hash_of(row, hash);
  });
  return hashes;
}

template <class AnyRows>
std::vector<NeuronIndex> firsts_of(AnyRows const& rows, NeuronHash hash) {
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

} // namespace

std::vector<NeuronIndex> firsts_of_equals(RenamedRows const& rows, NeuronHash hash) { return firsts_of(rows, hash); }

std::vector<NeuronIndex> firsts_of_equals(Layer const& layer, NeuronHash hash) {
  return firsts_of(SourceRows{layer}, hash);
}

} // namespace varve
