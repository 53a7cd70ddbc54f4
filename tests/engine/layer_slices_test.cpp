#include "engine/neuron_split.hpp"

#include "engine/hand_made.hpp"
#include "engine/random_case.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace varve {
namespace {

/// A matrix whose rows have these numbers of entries, in the first columns.
SparseMatrix rows_of_sizes(std::vector<std::size_t> const& sizes, std::size_t num_columns) {
  SparseMatrix matrix;
  matrix.num_rows = sizes.size();
  matrix.num_columns = num_columns;
  matrix.values = {1.0};
  for (auto const size : sizes) {
    for (std::size_t column = 0; column < size; ++column)
      matrix.column_indices.push_back(static_cast<NeuronIndex>(column));
    matrix.row_pointers.push_back(matrix.num_entries());
  }
  return matrix;
}

using Bounds = std::vector<std::size_t>;

TEST(CutOutputs, GivesEachPartItsShareOfTheEdges) {
  EXPECT_EQ(cut_outputs(rows_of_sizes({31, 31, 31, 31}, 40), 2), (Bounds{0, 2, 4}));
  EXPECT_EQ(cut_outputs(rows_of_sizes({31, 10, 10, 10}, 40), 2), (Bounds{0, 1, 4})) << "one heavy, three light";
  EXPECT_EQ(cut_outputs(rows_of_sizes(std::vector<std::size_t>(99, 3), 40), 3), (Bounds{0, 33, 66, 99}));
}

TEST(CutOutputs, CountsOutputsWithoutEdges) {
  EXPECT_EQ(cut_outputs(rows_of_sizes(std::vector<std::size_t>(8, 0), 5), 4), (Bounds{0, 2, 4, 6, 8}));
}

TEST(CutOutputs, LeavesPartsEmptyWhereOutputsAreFew) {
  EXPECT_EQ(cut_outputs(rows_of_sizes({4}, 5), 3), (Bounds{0, 1, 1, 1}));
  auto const bounds = cut_outputs(rows_of_sizes({4, 1}, 5), 4);
  EXPECT_EQ(bounds.size(), 5U);
  EXPECT_EQ(bounds.back(), 2U);
}

TEST(CutOutputs, NeverOverloadsAPartByMoreThanAnOutput) {
  test::RandomCases random(7);
  for (int trial = 0; trial < 50; ++trial) {
    auto const matrix = random.draw_matrix(1 + random.below(200), 60, 60, 1.0);
    int const parts = 1 + static_cast<int>(random.below(9));
    auto const bounds = cut_outputs(matrix, parts);
    ASSERT_EQ(bounds.size(), static_cast<std::size_t>(parts) + 1);
    EXPECT_EQ(bounds.front(), 0U);
    EXPECT_EQ(bounds.back(), matrix.num_rows);
    double const share = static_cast<double>(matrix.num_entries() + matrix.num_rows) / parts;
    for (std::size_t part = 0; part + 1 < bounds.size(); ++part) {
      ASSERT_LE(bounds[part], bounds[part + 1]);
      auto const edges = matrix.row_pointers[bounds[part + 1]] - matrix.row_pointers[bounds[part]];
      EXPECT_LE(static_cast<double>(edges + bounds[part + 1] - bounds[part]), share + 61.0 + 1.0);
    }
  }
}

TEST(LayerSlices, TogetherAreTheLayer) {
  auto const network = test::random_case(11).network;
  int constexpr ranks = 3;
  for (std::size_t number = 0; number < network.num_layers(); ++number) {
    Layer const all = network.layer(number);
    std::size_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      LayerSlices const slices(network, rank, ranks);
      Layer const own = slices.layer(number);
      EXPECT_EQ(slices.whole(number).num_edges, all.num_edges());
      EXPECT_EQ(slices.whole(number).num_outputs(), all.num_outputs());
      EXPECT_EQ(slices.whole(number).keeps_zero, keeps_zero(all));
      EXPECT_EQ(own.num_inputs(), all.num_inputs());
      EXPECT_EQ(own.activation, all.activation);
      EXPECT_EQ(own.weights, rows_of(all.weights, next, next + own.num_outputs()));
      for (std::size_t output = 0; output < own.num_outputs(); ++output)
        EXPECT_EQ(own.bias_of(output), all.bias_of(next + output));
      next += own.num_outputs();
    }
    EXPECT_EQ(next, all.num_outputs());
  }
}

TEST(LayerSlices, KnowThatAnotherRankRevivesTheDead) {
  std::vector<double> bias(4, -1.0);
  bias.back() = 1.0;
  Network const network({test::diagonal_layer(4, 1.0, bias, Activation::relu())});
  LayerSlices const first(network, 0, 2);
  EXPECT_TRUE(keeps_zero(first.layer(0)));
  EXPECT_FALSE(first.whole(0).keeps_zero);
  EXPECT_EQ(first.num_edges(), 4U);
}

} // namespace
} // namespace varve
