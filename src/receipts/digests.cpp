#include "receipts/digests.hpp"

#include "core/host_threads.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <string_view>

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
  /// As many numbers as `count`, of which one may stand for all.
  void add_each(std::vector<double> const& numbers, std::size_t count) {
    if (numbers.size() == count) return add(std::span<double const>(numbers));
    std::vector<double> const block(std::min<std::size_t>(count, 4096), numbers.front());
    for (std::size_t left = count; left > 0; left -= std::min(left, block.size()))
      add(std::span<double const>(block).first(std::min(left, block.size())));
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

/// The digest of the nonzero numbers of a sample, which column() and value() give by entry.
template <class Column, class Value>
Digest leaf_digest(std::string_view kind, SampleIndex sample, EdgeOffset first, EdgeOffset last, Column const& column,
                   Value const& value) {
  std::vector<NeuronIndex> columns;
  std::vector<double> values;
  for (auto entry = first; entry < last; ++entry) {
    if (value(entry) == 0.0) continue;
    columns.push_back(column(entry));
    values.push_back(value(entry));
  }
  NumberHash hash(kind);
  hash.add(std::uint64_t{sample});
  hash.add(std::uint64_t{columns.size()});
  hash.add(std::span<NeuronIndex const>(columns));
  hash.add(std::span<double const>(values));
  return hash.finish();
}

/// The root of the digests of some samples.
Digest root_of_part(std::span<SampleLeaves const> leaves, Digest SampleLeaves::*digest) {
  if (leaves.empty()) return sha256({});
  if (leaves.size() == 1) return leaves.front().*digest;
  auto const half = std::bit_floor(leaves.size() - 1);
  NumberHash hash("\x01");
  hash.add(std::span<unsigned char const>(root_of_part(leaves.first(half), digest)));
  hash.add(std::span<unsigned char const>(root_of_part(leaves.subspan(half), digest)));
  return hash.finish();
}

} // namespace

Digest network_digest(NetworkSource const& network) {
  std::vector<Digest> layers(network.num_layers());
  for_each_on_host_threads(layers.size(),
                           [&](std::size_t number) { layers[number] = layer_digest(network.layer(number)); });
  NumberHash hash("varve network 1\n");
  hash.add(std::uint64_t{layers.size()});
  for (auto const& layer : layers) hash.add(std::span<unsigned char const>(layer));
  return hash.finish();
}

std::vector<Digest> input_digests(SampleBatch const& samples) {
  std::vector<Digest> digests(samples.num_samples());
  std::size_t done = 0;
  for (auto const& rows : samples.rows()) {
    auto const values = rows.values();
    for_each_on_host_threads(rows.num_samples(), [&](std::size_t row) {
      auto const pointers = rows.row_pointers().subspan(rows.first + row, 2);
      digests[done + row] = leaf_digest(
          "\0varve input 1\n"sv, samples.first_sample() + done + row, pointers[0], pointers[1],
          [&](EdgeOffset entry) { return rows.column(entry); },
          [&](EdgeOffset entry) { return values.size() == 1 ? values[0] : values[entry]; });
    });
    done += rows.num_samples();
  }
  return digests;
}

Digest output_digest(SparseMatrix const& activations, std::size_t row, SampleIndex number) {
  return leaf_digest(
      "\0varve output 1\n"sv, number, activations.row_pointers[row], activations.row_pointers[row + 1],
      [&](EdgeOffset entry) { return activations.column_indices[entry]; },
      [&](EdgeOffset entry) { return activations.value(entry); });
}

std::vector<SampleLeaves> leaves_of(SampleBatch const& samples, SparseMatrix const& activations) {
  auto const inputs = input_digests(samples);
  std::vector<SampleLeaves> leaves(inputs.size());
  for_each_on_host_threads(leaves.size(), [&](std::size_t row) {
    leaves[row] = {inputs[row], output_digest(activations, row, samples.first_sample() + row)};
  });
  return leaves;
}

Digest root_of(std::span<SampleLeaves const> leaves, Digest SampleLeaves::*digest) {
  return root_of_part(leaves, digest);
}

} // namespace varve
