#include "passes/output_order.hpp"
#include "radixnet/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
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

TEST(OutputOrder, TellsListsOfOneHashApart) {
  // Found by search: both lists have the same 64-bit hash.
  std::vector<NeuronIndex> const one = {739310556, 754987065};
  std::vector<NeuronIndex> const other = {2500918239, 3657445355};
  auto matrix = matrix_of_lists({one, other, one, other});
  matrix.num_columns = std::size_t{1} << 32U;
  EXPECT_EQ(order_by_input_list(matrix, 2), (std::vector<NeuronIndex>{0, 2, 1, 3}));
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

TEST(ChainedBlocks, ShareInputsWithTheirNeighbours) {
  auto const pairs = matrix_of_lists({{1, 2}, {5, 6}, {2, 3}, {6, 7}});
  EXPECT_EQ(chain_blocks(pairs, {}, 1, 2), (std::vector<NeuronIndex>{0, 2, 1, 3}));
  EXPECT_EQ(chain_blocks(pairs, {3, 2, 1, 0}, 1, 2), (std::vector<NeuronIndex>{3, 1, 2, 0}))
      << "the blocks of the order that is given";
  // Blocks of two: {0, 1} and {4, 5} share input 9; the seventh output is part of a block and stays last.
  auto const blocks = matrix_of_lists({{1}, {9}, {5}, {6}, {9}, {3}, {1}});
  EXPECT_EQ(chain_blocks(blocks, {}, 2, 2), (std::vector<NeuronIndex>{0, 1, 4, 5, 2, 3, 6}));
  EXPECT_EQ(chain_blocks(matrix_of_lists({{1}}), {}, 2, 2), std::vector<NeuronIndex>{0});
}

/// Distinct inputs of the outputs at these positions.
std::size_t num_inputs_of(SparseMatrix const& weights, OutputStages const& stages, std::size_t stage) {
  std::set<NeuronIndex> inputs;
  for (std::size_t position = stages.pointers[stage]; position < stages.pointers[stage + 1]; ++position) {
    auto const list = weights.row_columns(stages.order[position]);
    inputs.insert(list.begin(), list.end());
  }
  return inputs.size();
}

void expect_stages(SparseMatrix const& weights, OutputStages const& stages, std::size_t unit, std::size_t max_inputs,
                   std::size_t max_outputs) {
  ASSERT_GE(stages.pointers.size(), 1U);
  EXPECT_EQ(stages.pointers.front(), 0U);
  EXPECT_EQ(stages.pointers.back(), weights.num_rows);
  for (std::size_t stage = 0; stage + 1 < stages.pointers.size(); ++stage) {
    std::size_t const outputs = stages.pointers[stage + 1] - stages.pointers[stage];
    EXPECT_GT(outputs, 0U);
    EXPECT_LT(outputs, std::max(max_outputs, unit) + unit);
    bool const is_last = stage + 2 == stages.pointers.size();
    EXPECT_TRUE(is_last || outputs % unit == 0);
    EXPECT_LE(num_inputs_of(weights, stages, stage), max_inputs);
  }
  auto order = stages.order;
  std::ranges::sort(order);
  for (std::size_t output = 0; output < order.size(); ++output) ASSERT_EQ(order[output], output);
}

TEST(OutputStages, OfARadixNetShareHalfOfTheirInputsWithTheNext) {
  RadixNet const network(1024, 6, 1);
  for (std::size_t number = 0; number < 6; ++number) {
    auto const weights = network.layer(number).weights;
    auto const stages = find_stages(weights, 8, 288, 128, 3.0);
    ASSERT_TRUE(stages);
    expect_stages(weights, *stages, 8, 288, 128);
    std::size_t inputs = 0;
    for (std::size_t stage = 0; stage + 1 < stages->pointers.size(); ++stage)
      inputs += num_inputs_of(weights, *stages, stage);
    EXPECT_LE(inputs, 8U * 9U * 16U + 64U) << "eight chains of eight lists, each with 16 new inputs";
  }
}

TEST(OutputStages, OfManyShapes) {
  for (std::size_t const unit : {1U, 3U, 8U}) {
    for (std::size_t const max_inputs : {4U, 9U, 100U}) {
      for (auto const& weights :
           {matrix_of_lists({}), matrix_of_lists({{}}), matrix_of_lists({{1}, {}, {1}, {2}, {}, {}, {}, {}, {}, {3}}),
            matrix_of_lists({{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {1, 2, 4}, {4, 5}, {2, 3}, {9}, {8, 9}, {1, 9}})}) {
        auto const stages = find_stages(weights, unit, max_inputs, 4, 0.0);
        bool const must_be = max_inputs == 100 || unit == 1;
        ASSERT_TRUE(stages || !must_be);
        if (stages) expect_stages(weights, *stages, unit, max_inputs, 4);
      }
    }
  }
}

TEST(OutputStages,
     TakeWhatAddsTheFewestInputsNext) { // 2, 3 and 1 are near the first output; of equals the first is taken
  auto const stages = find_stages(matrix_of_lists({{0, 1, 2}, {2, 3, 4, 5}, {1, 2, 3}, {0, 1, 6}}), 1, 100, 100, 0.0);
  ASSERT_TRUE(stages);
  EXPECT_EQ(stages->order, (std::vector<NeuronIndex>{0, 2, 3, 1}));
}

TEST(OutputStages, CountTheInputsOfWhatIsOver) {
  // Three outputs fill a stage, of which two are a whole unit: the third one's inputs are of the next stage.
  auto const apart = matrix_of_lists({{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}, {13, 14}});
  auto const stages = find_stages(apart, 2, 6, 100, 0.0);
  ASSERT_TRUE(stages);
  expect_stages(apart, *stages, 2, 6, 100);
  EXPECT_EQ(stages->pointers, (std::vector<std::size_t>{0, 2, 4, 7}));
}

TEST(OutputStages, AreNotFormedWhereTheyCannotOrDoNotPay) {
  auto const apart = matrix_of_lists({{1, 2}, {3, 4}, {5, 6}, {7, 8}});
  EXPECT_FALSE(find_stages(apart, 2, 3, 4, 0.0)) << "two outputs have four inputs";
  EXPECT_FALSE(find_stages(apart, 1, 1, 4, 0.0)) << "one output has two";
  EXPECT_FALSE(find_stages(matrix_of_lists({{1}, {2, 3, 4}}), 1, 2, 4, 0.0)) << "the second one has three";
  EXPECT_TRUE(find_stages(matrix_of_lists({{1}, {2, 3, 4}}), 1, 3, 4, 0.0));
  EXPECT_TRUE(find_stages(apart, 2, 4, 4, 1.0));
  EXPECT_FALSE(find_stages(apart, 2, 4, 4, 1.5)) << "each input is used once";
}

TEST(OutputStages, AreJudgedByAFewOfThem) {
  // So many stages of two outputs that share nothing, then eight outputs with the same two inputs.
  auto const stages_after = [](std::size_t num_apart) {
    std::vector<std::vector<NeuronIndex>> lists;
    for (NeuronIndex output = 0; output < 2 * num_apart; ++output) lists.push_back({2 * output, 2 * output + 1});
    lists.insert(lists.end(), 8 * num_apart, {98, 99});
    return find_stages(matrix_of_lists(lists), 1, 4, 2, 1.5);
  };
  EXPECT_TRUE(stages_after(1)) << "20 edges for 12 inputs, though only 4 for 4 in the first stage";
  EXPECT_FALSE(stages_after(4)) << "nothing is shared in four stages";
}

} // namespace
} // namespace varve
