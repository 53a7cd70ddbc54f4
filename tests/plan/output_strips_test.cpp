#include "plan/memory.hpp"

#include "radixnet/network.hpp"

#include <gmock/gmock.h>
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

/// Strips hold all outputs in order, each at least one.
void expect_all_outputs(std::vector<OutputStrip> const& strips, std::size_t num_outputs) {
  std::size_t next = 0;
  for (auto const& strip : strips) {
    ASSERT_EQ(strip.first_output, next);
    ASSERT_GE(strip.num_outputs, 1U);
    next += strip.num_outputs;
  }
  EXPECT_EQ(next, num_outputs);
}

TEST(OutputStrips, OfRowsTakeWhatTheirEdgesTake) {
  std::vector<std::size_t> sizes(100, 500);
  sizes[40] = 5000;
  sizes[99] = 0;
  auto const matrix = rows_of_sizes(sizes, 5000);
  StripShape const shape{.edge_bytes = 6};
  std::size_t const least = min_strip_bytes(matrix, shape);
  EXPECT_GE(least, 5000U * 6U);
  EXPECT_LE(least, 5000U * 6U + 2048U);
  auto const strips = cut_into_strips(matrix, shape, least);
  expect_all_outputs(strips, 100);
  EXPECT_EQ(strips[0].num_outputs, 9U) << "ten have as many edges as the longest row, but more biases and pointers";
  for (auto const& strip : strips)
    EXPECT_LE(min_strip_bytes(rows_of(matrix, strip.first_output, strip.first_output + strip.num_outputs), shape),
              least);
  EXPECT_EQ(cut_into_strips(matrix, shape, 1U << 20U).size(), 1U);
}

TEST(OutputStrips, OfDenseLayersEndWithBlocks) {
  auto const matrix = rows_of_sizes(std::vector<std::size_t>(75, 30), 30);
  StripShape const shape{.block_outputs = 16, .dense_block_bytes = 30 * 16 * 4};
  std::size_t const least = min_strip_bytes(matrix, shape);
  EXPECT_EQ(cut_into_strips(matrix, shape, least).size(), 5U);
  auto const strips = cut_into_strips(matrix, shape, least + 2 * 30 * 16 * 4 + 600);
  expect_all_outputs(strips, 75);
  ASSERT_EQ(strips.size(), 2U);
  EXPECT_EQ(strips[0].num_outputs, 48U);
  EXPECT_EQ(strips[1].num_outputs, 27U) << "the last block has fewer outputs";
}

TEST(OutputStrips, AreLayersOfTheirOutputs) {
  RandomNetworkRecipe recipe;
  recipe.widths = {20, 31};
  recipe.density = 0.4;
  Layer whole = RandomNetwork(recipe).layer(0);
  Layer const part = layer_of(whole, {7, 5});
  EXPECT_EQ(part.weights, rows_of(whole.weights, 7, 12));
  EXPECT_EQ(part.activation, whole.activation);
  ASSERT_EQ(part.bias.size(), 5U);
  for (std::size_t output = 0; output < 5; ++output) EXPECT_EQ(part.bias_of(output), whole.bias_of(7 + output));
  whole.bias = {0.25};
  EXPECT_EQ(layer_of(whole, {7, 5}).bias, whole.bias);
}

} // namespace
} // namespace varve
