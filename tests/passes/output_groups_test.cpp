#include "passes/edge_order.hpp"

#include "passes/patterns.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <vector>

namespace varve {
namespace {

using Order = std::vector<NeuronIndex>;

TEST(GroupedOutputs, AreAPermutation) {
  for (auto const& matrix : {random_layer(257, 5, std::nullopt).weights, random_layer(64, std::nullopt, 0.3).weights,
                             matrix_of_lists(4, {{}, {1}, {}}), matrix_of_lists(4, {}), SparseMatrix()}) {
    Order order = group_outputs(matrix);
    std::ranges::sort(order);
    Order all(matrix.num_rows);
    std::iota(all.begin(), all.end(), NeuronIndex(0));
    EXPECT_EQ(order, all);
  }
}

TEST(GroupedOutputs, MeetInFewerBanks) {
  auto const of = [](std::size_t width, std::size_t degree) {
    auto const matrix = random_layer(width, degree, std::nullopt).weights;
    double const before = bank_use(matrix, {}).wavefronts_per_step();
    EXPECT_GT(before, 2.0);
    return bank_use(matrix, group_outputs(matrix)).wavefronts_per_step() / before;
  };
  EXPECT_LT(of(2048, 32), 0.82);
  EXPECT_LT(of(2048, 8), 0.65);
  EXPECT_LT(of(1030, 100), 0.93) << "steps of several words";
}

TEST(GroupedOutputs, CompleteAnOutputByThoseThatMeetItLeast) {
  // banks of 4: outputs 0 and 1 meet in every step, 0 and 2 in one, 0 and 3 in none, 4 meets 3 in one
  auto const matrix = matrix_of_lists(64, {{0, 4, 8}, {12, 16, 20}, {0, 5, 9}, {1, 6, 11}, {2, 10, 15}});
  EXPECT_EQ(group_outputs(matrix), (Order{0, 3, 2, 4, 1}));
}

TEST(GroupedOutputs, HaveFewerAndFewerEdges) {
  auto const matrix = random_layer(512, std::nullopt, 0.05).weights;
  Order const order = group_outputs(matrix);
  auto const longest = [&](std::size_t first) {
    EdgeOffset most = 0;
    for (std::size_t position = first; position < first + kOutputsAtATime; ++position)
      most = std::max(most, matrix.row_size(order[position]));
    return most;
  };
  auto const candidates = longest(0);
  EXPECT_GT(candidates, longest(order.size() - kOutputsAtATime));
  for (std::size_t first = kOutputsAtATime; first < order.size(); first += kOutputsAtATime)
    EXPECT_LE(matrix.row_size(order[first]), matrix.row_size(order[first - kOutputsAtATime]))
        << "a group begins with the output of most edges that is left";
}

TEST(GroupedOutputs, LookAtTheOrderOfEdges) {
  auto matrix = random_layer(512, 16, std::nullopt).weights;
  Order const before = group_outputs(matrix);
  balance_edges(matrix);
  EXPECT_NE(group_outputs(matrix), before);
}

} // namespace
} // namespace varve
