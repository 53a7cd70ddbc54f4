#include "passes/reduced_network.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace varve {
namespace {

constexpr std::size_t num_rows = 3000; // several chunks and shares
constexpr std::size_t num_kinds = 700;

/// Rows of some kinds in random order. All kinds have two edges: a kind differs from the next in an input, in a weight
/// or in the bias alone.
struct KindsOfRows {
  Layer layer;
  std::vector<NeuronIndex> firsts; ///< of each row

  KindsOfRows() {
    std::mt19937_64 random(11);
    layer.weights.num_rows = num_rows;
    layer.weights.num_columns = num_kinds;
    layer.bias.clear();
    constexpr auto none = std::numeric_limits<NeuronIndex>::max();
    std::vector<NeuronIndex> first_of_kind(num_kinds, none);
    for (NeuronIndex row = 0; row < num_rows; ++row) {
      auto const kind = static_cast<NeuronIndex>(random() % num_kinds);
      layer.weights.column_indices.insert(layer.weights.column_indices.end(), {kind / 3, num_kinds - 1});
      layer.weights.values.insert(layer.weights.values.end(), {0.5, kind % 3 == 1 ? 0.25 : 0.125});
      layer.weights.row_pointers.push_back(layer.weights.column_indices.size());
      layer.bias.push_back(kind % 3 == 2 ? -0.5 : -0.25);
      if (first_of_kind[kind] == none) first_of_kind[kind] = row;
      firsts.push_back(first_of_kind[kind]);
    }
    layer.activation = Activation::relu();
    require_valid(layer, 0);
  }
};

/// Hashes of which all, many or the upper or lower halves are equal.
std::vector<OutputHash> const hashes = {
    &output_hash, [](ComparedOutput const& /*output*/) { return std::uint64_t{7}; },
    [](ComparedOutput const& output) { return std::uint64_t{output.inputs[0] % 5} << 61U; },
    [](ComparedOutput const& output) { return output_hash(output) & 0xffffffffU; },
    [](ComparedOutput const& output) { return output_hash(output) | 0xffffffffU; }};

TEST(EqualNeurons, AreFoundWhateverTheHash) {
  KindsOfRows const given;
  for (auto const hash : hashes) EXPECT_EQ(firsts_of_equals(given.layer, hash), given.firsts);
}

TEST(EqualNeurons, AreFoundAmongRenamedRows) {
  KindsOfRows const given;
  std::vector<NeuronIndex> rows(num_rows);
  std::iota(rows.begin(), rows.end(), NeuronIndex{0});
  auto const inputs = NeuronMap::identity(num_kinds);
  for (std::size_t const num_chunks : {1U, 5U}) {
    RenamedRows const renamed(given.layer, inputs, rows, num_chunks);
    for (auto const hash : hashes) EXPECT_EQ(firsts_of_equals(renamed, hash), given.firsts);
  }
}

} // namespace
} // namespace varve
