#include "formats/output_order.hpp"
#include "radixnet/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

namespace varve {
namespace {

SparseMatrix matrix_of_lists(std::vector<std::vector<NeuronIndex>> const& lists) {
  SparseMatrix matrix;
  matrix.num_rows = lists.size();
  matrix.num_columns = 100;
  matrix.values = {1.0};
  for (auto const& list : lists) {
    matrix.column_indices.insert(matrix.column_indices.end(), list.begin(), list.end());
    matrix.row_pointers.push_back(matrix.num_entries());
  }
  return matrix;
}

bool share_a_list(SparseMatrix const& matrix, NeuronIndex one, NeuronIndex other) {
  return std::ranges::equal(matrix.row_columns(one), matrix.row_columns(other));
}

TEST(OutputOrder, IsEmptyWhereNothingIsGained) {
  EXPECT_TRUE(order_by_input_list(matrix_of_lists({}), 4).empty());
  EXPECT_TRUE(order_by_input_list(matrix_of_lists({{1}, {2}, {1, 2}}), 4).empty());
  EXPECT_TRUE(order_by_input_list(matrix_of_lists({{1, 2}, {1, 2}, {3}, {3}}), 2).empty());
}

TEST(OutputOrder, BringsEqualListsTogether) {
  auto const order = order_by_input_list(matrix_of_lists({{1, 2}, {3}, {1, 2}, {3}}), 2);
  EXPECT_EQ(order, (std::vector<NeuronIndex>{0, 2, 1, 3}));
}

TEST(OutputOrder, WholeBlocksComeFirst) {
  // Three outputs of one list make a block of two and a rest.
  auto const order = order_by_input_list(matrix_of_lists({{7}, {1, 2}, {1, 2}, {1, 2}, {5}, {5}}), 2);
  EXPECT_EQ(order, (std::vector<NeuronIndex>{1, 2, 4, 5, 0, 3}));
}

TEST(OutputOrder, EmptyListsAreListsToo) {
  auto const order = order_by_input_list(matrix_of_lists({{}, {1}, {}, {1}}), 2);
  EXPECT_EQ(order, (std::vector<NeuronIndex>{0, 2, 1, 3}));
}

TEST(OutputOrder, IsAPermutationThatMakesBlocksOfOneList) {
  for (std::size_t const neurons : {64U, 256U, 1024U}) {
    RadixNet const network(neurons, 9, 1);
    for (std::size_t number = 0; number < 9; ++number) {
      auto const weights = network.layer(number).weights;
      auto order = order_by_input_list(weights, 8);
      if (order.empty()) {
        order.resize(neurons);
        std::iota(order.begin(), order.end(), 0U);
      }
      for (std::size_t position = 0; position < neurons; ++position) {
        EXPECT_TRUE(share_a_list(weights, order[position], order[position / 8 * 8]));
      }
      std::ranges::sort(order);
      for (std::size_t neuron = 0; neuron < neurons; ++neuron) EXPECT_EQ(order[neuron], neuron);
    }
  }
}

} // namespace
} // namespace varve
