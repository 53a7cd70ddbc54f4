#include "passes/edge_order.hpp"

#include "engine/random_case.hpp"
#include "passes/output_order.hpp"
#include "passes/patterns.hpp"
#include "radixnet/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace varve {
namespace {

SparseMatrix balanced(SparseMatrix matrix) {
  balance_edges(matrix);
  return matrix;
}

/// Wavefronts in the order in which layers with balanced edges are stored.
BankUse balanced_use(SparseMatrix matrix) {
  auto const order = balance_edges(matrix);
  EXPECT_EQ(order, balance_outputs(matrix));
  return bank_use(matrix, order);
}

/// A lower bound of the wavefronts of any order of edges, for these groups of four outputs.
std::size_t min_wavefronts(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order) {
  std::size_t least = 0;
  for (std::size_t first = 0; first < order.size(); first += 4) {
    std::vector<std::set<NeuronIndex>> inputs(4); // distinct inputs of the four outputs, by bank
    std::size_t most = 0;
    for (std::size_t position = first; position < std::min(first + 4, order.size()); ++position) {
      auto const list = matrix.row_columns(order[position]);
      most = std::max(most, list.size());
      for (NeuronIndex const input : list) inputs[input % 4].insert(input);
    }
    for (auto const& of_bank : inputs) most = std::max(most, of_bank.size());
    least += most;
  }
  return least;
}

void expect_same_edges(SparseMatrix const& one, SparseMatrix const& other) {
  ASSERT_EQ(one.row_pointers, other.row_pointers);
  ASSERT_EQ(one.num_columns, other.num_columns);
  ASSERT_EQ(one.values.size(), other.values.size());
  for (std::size_t row = 0; row < one.num_rows; ++row) {
    std::set<std::pair<NeuronIndex, double>> edges;
    std::set<std::pair<NeuronIndex, double>> other_edges;
    for (EdgeOffset entry = one.row_pointers[row]; entry < one.row_pointers[row + 1]; ++entry) {
      edges.emplace(one.column_indices[entry], one.value(entry));
      other_edges.emplace(other.column_indices[entry], other.value(entry));
    }
    ASSERT_EQ(edges, other_edges) << "row " << row;
  }
}

TEST(BankUse, CountsLinesOfTheSameBank) {
  // Inputs 0 and 4 are in bank 0; all read 8 at the end.
  auto const matrix = matrix_of_lists(9, {{0, 8}, {1, 8}, {4, 8}, {3, 8}, {0, 4, 8}});
  EXPECT_EQ(bank_use(matrix, {}), (BankUse{5, 2 + 1 + 3}));
  EXPECT_EQ(bank_use(matrix, {0, 1, 3, 4, 2}), (BankUse{3 + 2, 1 + 2 + 1 + 2}))
      << "0 twice is one line, 8 and 4 are two";
  EXPECT_EQ(bank_use(matrix_of_lists(9, {{}, {}}), {}), BankUse());
  EXPECT_DOUBLE_EQ(bank_use(matrix, {}).wavefronts_per_step(), 1.2);
  EXPECT_EQ(BankUse().wavefronts_per_step(), 0.0);
}

TEST(BalancedEdges, OfRandomPatternsHaveFewConflicts) {
  struct Case {
    std::size_t width;
    std::optional<std::size_t> degree;
    std::optional<double> density;
    double most; ///< wavefronts per step
  };
  for (auto const& [width, degree, density, most] :
       {Case{1024, 32, std::nullopt, 1.08}, Case{1024, 16, std::nullopt, 1.10}, Case{1001, 64, std::nullopt, 1.06},
        Case{1024, std::nullopt, 0.1, 1.04}, Case{1024, std::nullopt, 0.03, 1.07},
        Case{512, std::nullopt, 0.3, 1.03}}) {
    SCOPED_TRACE(testing::Message() << width << " neurons, " << degree.value_or(0) << " edges, density "
                                    << density.value_or(0.0));
    auto const matrix = random_layer(width, degree, density).weights;
    auto const before = bank_use(matrix, {});
    auto const after = balanced_use(matrix);
    RecordProperty("wavefronts_per_step_before", std::to_string(before.wavefronts_per_step()));
    RecordProperty("wavefronts_per_step_after", std::to_string(after.wavefronts_per_step()));
    EXPECT_GT(before.wavefronts_per_step(), 1.8);
    EXPECT_LT(after.wavefronts_per_step(), most);
    EXPECT_LE(after.num_steps, before.num_steps) << "outputs of like degrees go together";
  }
}

TEST(BalancedEdges, HaveNoConflictWhereEveryBankIsReadEquallyOften) {
  // Every output reads two inputs of each bank, in an order that puts one bank after the other.
  std::vector<std::vector<NeuronIndex>> lists;
  for (NeuronIndex output = 0; output < 16; ++output) {
    lists.emplace_back();
    for (NeuronIndex const bank : {0U, 1U, 2U, 3U}) {
      for (NeuronIndex const line : {output, output + 16}) lists.back().push_back(4 * line + bank);
    }
    std::ranges::sort(lists.back());
  }
  auto const matrix = matrix_of_lists(128, lists);
  EXPECT_EQ(bank_use(matrix, {}), (BankUse{4 * 8, 4 * 8 * 4}));
  EXPECT_EQ(balanced_use(matrix), (BankUse{4 * 8, 4 * 8}));
}

TEST(BalancedEdges, WhereOneBankIsReadOnlyNothingCanBeGained) {
  auto const matrix = matrix_of_lists(64, {{0, 4, 8}, {12, 16, 20}, {24, 28, 32}, {36, 40, 44}});
  EXPECT_EQ(balanced_use(matrix), (BankUse{3, 12}));
  EXPECT_EQ(balanced(matrix), matrix) << "as it was: ascending";
}

TEST(BalancedEdges, AreTheSameEdges) {
  test::RandomCases random(5);
  for (int i = 0; i < 40; ++i) {
    auto const matrix = random.draw_matrix(random.below(150), 1 + random.below(150), 40, 1.0);
    auto const ordered = balanced(matrix);
    expect_same_edges(matrix, ordered);
    EXPECT_LE(balanced_use(matrix).num_wavefronts, bank_use(matrix, balance_outputs(matrix)).num_wavefronts + 4)
        << "never much worse than the ascending order, and far better where there are many edges";
  }
  Layer const layer = random_layer(700, 20, std::nullopt);
  expect_same_edges(layer.weights, balanced(layer.weights));
}

TEST(BalancedEdges, AreNearlyAsFewAsCanBe) {
  for (std::size_t const degree : {16U, 32U, 64U}) {
    auto const matrix = random_layer(512, degree, std::nullopt).weights;
    auto const least = min_wavefronts(matrix, balance_outputs(matrix));
    EXPECT_LE(static_cast<double>(balanced_use(matrix).num_wavefronts), 1.06 * static_cast<double>(least));
  }
}

TEST(BalancedEdges, DependOnTheSetsOfInputsOnly) {
  auto const matrix = random_layer(300, std::nullopt, 0.1).weights;
  auto const once = balanced(matrix);
  EXPECT_NE(once, matrix);
  EXPECT_EQ(balanced(once), once);
  auto backwards = matrix;
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    auto const first = static_cast<std::ptrdiff_t>(matrix.row_pointers[row]);
    auto const last = static_cast<std::ptrdiff_t>(matrix.row_pointers[row + 1]);
    std::reverse(backwards.column_indices.begin() + first, backwards.column_indices.begin() + last);
    std::reverse(backwards.values.begin() + first, backwards.values.begin() + last);
  }
  EXPECT_EQ(balanced(backwards), once);
  EXPECT_EQ(balance_outputs(backwards), balance_outputs(matrix));
}

TEST(BalancedEdges, AreTheSameInEveryProcess) {
  // The order is part of what is computed: a change of it changes last bits of published answers.
  auto const matrix = matrix_of_lists(12, {{0, 1, 4, 8}, {0, 2, 4, 9}, {3, 7, 8, 11}, {1, 5, 6}, {2, 10}});
  EXPECT_EQ(balance_outputs(matrix), (std::vector<NeuronIndex>{0, 1, 2, 3, 4}));
  auto const ordered = balanced(matrix);
  EXPECT_EQ(ordered.column_indices, (std::vector<NeuronIndex>{0, 1, 4, 8, 2, 0, 9, 4, 3, 7, 8, 11, 1, 6, 5, 2, 10}));
}

TEST(BalancedOutputs, ArePermutationsInFoursOfDifferentBanks) {
  for (std::size_t const outputs : {0U, 1U, 3U, 4U, 5U, 64U, 131U}) {
    test::RandomCases random(outputs);
    auto order = balance_outputs(random.draw_matrix(outputs, 100, 30, 1.0));
    ASSERT_EQ(order.size(), outputs);
    for (std::size_t first = 0; first + 4 <= outputs; first += 4) {
      std::set<NeuronIndex> banks;
      for (std::size_t i = 0; i < 4; ++i) banks.insert(order[first + i] % 4);
      EXPECT_EQ(banks.size(), 4U);
    }
    std::ranges::sort(order);
    for (std::size_t output = 0; output < outputs; ++output) ASSERT_EQ(order[output], output);
  }
}

TEST(BalancedOutputs, HaveFewerAndFewerEdgesThereAndBack) {
  auto const matrix = random_layer(600, std::nullopt, 0.1).weights;
  auto const order = balance_outputs(matrix);
  auto const longest = [&](std::size_t first) {
    EdgeOffset most = 0;
    for (std::size_t position = first; position < first + 4; ++position)
      most = std::max(most, matrix.row_size(order[position]));
    return most;
  };
  for (std::size_t first = 4; first < 256; first += 4) EXPECT_LE(longest(first), longest(first - 4));
  for (std::size_t first = 260; first < 512; first += 4) EXPECT_GE(longest(first), longest(first - 4));
  for (std::size_t first = 516; first < 600; first += 4) EXPECT_LE(longest(first), longest(first - 4));
  EXPECT_GT(longest(0), longest(596) + 10);
  EXPECT_GT(longest(252), longest(256)) << "there and back, not twice the same";
}

TEST(SuitsBalancedEdges, LayersOfManyNeuronsWithoutSharing) {
  EXPECT_TRUE(suits_balanced_edges(random_layer(1024, 32, std::nullopt).weights));
  EXPECT_TRUE(suits_balanced_edges(random_layer(257, 16, std::nullopt).weights));
  EXPECT_TRUE(suits_balanced_edges(random_layer(1024, std::nullopt, 0.1).weights));
  EXPECT_FALSE(suits_balanced_edges(random_layer(256, 16, std::nullopt).weights)) << "too narrow to have conflicts";
  EXPECT_TRUE(suits_balanced_edges(random_layer(4096, 32, std::nullopt).weights));
  EXPECT_FALSE(suits_balanced_edges(random_layer(4097, 32, std::nullopt).weights)) << "too wide for a tile in scratch";
  EXPECT_FALSE(suits_balanced_edges(random_layer(1024, 7, std::nullopt).weights)) << "hardly a step to choose in";
  EXPECT_TRUE(suits_balanced_edges(random_layer(512, std::nullopt, 0.2).weights));
  EXPECT_FALSE(suits_balanced_edges(random_layer(512, std::nullopt, 0.4).weights)) << "a dense product may be faster";
  EXPECT_TRUE(suits_balanced_edges(random_layer(512, std::nullopt, 0.3).weights));
  EXPECT_FALSE(suits_balanced_edges(random_layer(512, std::nullopt, 0.6).weights)) << "blocks are mostly full";
  EXPECT_FALSE(suits_balanced_edges(SparseMatrix()));
  for (std::size_t number = 0; number < 6; ++number)
    EXPECT_FALSE(suits_balanced_edges(RadixNet(1024, 6, 1).layer(number).weights)) << "outputs share whole input lists";
}

/// A square layer whose outputs read `per_row` inputs each, chosen by every output from the `pool` inputs that
/// `sharers` neighbouring outputs have in common. If the pool is as small as a list, these outputs read the same
/// inputs.
SparseMatrix shared_lists(std::size_t width, std::size_t per_row, std::size_t sharers, std::size_t pool) {
  std::mt19937 random(7);
  std::vector<NeuronIndex> inputs(width);
  std::iota(inputs.begin(), inputs.end(), NeuronIndex(0));
  std::vector<std::vector<NeuronIndex>> lists;
  for (std::size_t output = 0; output < width; ++output) {
    if (output % sharers == 0) std::ranges::shuffle(inputs, random);
    std::vector<NeuronIndex> list(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(pool));
    std::ranges::shuffle(list, random);
    list.resize(per_row);
    std::ranges::sort(list);
    lists.push_back(list);
  }
  return matrix_of_lists(width, lists);
}

TEST(SuitsBalancedEdges, EachConditionDecidesSomeLayer) {
  EXPECT_TRUE(suits_balanced_edges(random_layer(1024, 8, std::nullopt).weights)) << "the fewest edges that suffice";
  EXPECT_FALSE(suits_balanced_edges(shared_lists(516, 16, 3, 16))) << "blocks of four store two weights an edge";
  EXPECT_FALSE(suits_balanced_edges(shared_lists(1024, 64, 8, 143))) << "with 64 edges, blocks of eight with 2.2 do";
  EXPECT_TRUE(suits_balanced_edges(shared_lists(1024, 60, 8, 134))) << "with fewer edges they do not";
}

TEST(IsAscending, LooksAtEveryRow) {
  auto matrix = matrix_of_lists(9, {{}, {1, 5}, {0}, {2, 3, 8}});
  EXPECT_TRUE(is_ascending(matrix));
  std::swap(matrix.column_indices[4], matrix.column_indices[5]);
  EXPECT_FALSE(is_ascending(matrix));
}

/// Sums are added up in this order, so it is part of every answer: another version of Varve must choose the same.
std::uint64_t fingerprint(SparseMatrix const& balanced, std::vector<NeuronIndex> const& order) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  auto const take = [&hash](std::uint64_t number) { hash = (hash ^ number) * 0x100000001b3U; };
  for (auto const input : balanced.column_indices) take(input);
  for (auto const output : order) take(output);
  return hash;
}

/// Half as many outputs as inputs, which read inputs of two banks only: every step has conflicts.
SparseMatrix of_two_banks(SparseMatrix matrix) {
  for (auto& input : matrix.column_indices) input = 4 * (input / 2) + input % 2;
  matrix.num_columns *= 2;
  return matrix;
}

TEST(BalancedEdges, HaveTheOrderThatTheyAlwaysHad) {
  std::vector<std::uint64_t> found;
  for (auto matrix : {random_layer(512, 32, std::nullopt).weights, random_layer(300, std::nullopt, 0.1).weights,
                      random_layer(1024, std::nullopt, 0.03).weights, random_layer(64, std::nullopt, 0.5).weights,
                      of_two_banks(random_layer(64, std::nullopt, 0.5).weights)}) {
    auto const order = balance_edges(matrix);
    found.push_back(fingerprint(matrix, order));
  }
  EXPECT_EQ(found, (std::vector<std::uint64_t>{10429575053948249888U, 18242753122421416584U, 9750434181152196809U,
                                               714804240593250715U, 13489594497457467083U}));
}

} // namespace
} // namespace varve
