#include "passes/equal_neurons.hpp"

#include "core/host_threads.hpp"
#include "core/spare_vectors.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

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

/// Calls work(first, last) for parts of the rows on all host threads.
template <class Work>
void for_parts_of_rows(std::size_t num_rows, Work const& work) {
  std::size_t const chunks = num_row_chunks(num_rows);
  for_each_on_host_threads(
      chunks, [&](std::size_t chunk) { work(chunk * num_rows / chunks, (chunk + 1) * num_rows / chunks); });
}

template <class AnyRows>
std::vector<std::uint64_t> hashes_of(AnyRows const& rows, NeuronHash hash) {
  auto hashes = SpareVectors<std::uint64_t>::of_process().take(rows.size());
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
  auto table = SpareVectors<NeuronIndex>::of_process().take(std::size_t{1} << bits); // at least half of it stays empty
  std::ranges::fill(table, nobody);
  auto firsts = SpareVectors<NeuronIndex>::of_process().take(hashes.size());
  for (NeuronIndex row = 0; row < hashes.size(); ++row) {
    auto place = static_cast<std::size_t>((hashes[row] * mix) >> (64 - bits));
    while (table[place] != nobody && hashes[table[place]] != hashes[row]) place = (place + 1) % table.size();
    if (table[place] == nobody) table[place] = row;
    firsts[row] = table[place];
  }
  SpareVectors<NeuronIndex>::of_process().give_back(std::move(table));
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
  SpareVectors<std::uint64_t>::of_process().give_back(std::move(hashes));
  return firsts;
}

} // namespace

std::vector<NeuronIndex> firsts_of_equals(RenamedRows const& rows, NeuronHash hash) { return firsts_of(rows, hash); }

std::vector<NeuronIndex> firsts_of_equals(Layer const& layer, NeuronHash hash) {
  return firsts_of(SourceRows{layer}, hash);
}

} // namespace varve
