#include "network/sparse_matrix.hpp"

#include "reference/training_case.hpp"

#include <gtest/gtest.h>

namespace varve {
namespace {

TEST(TransposedEdges, AreThoseOfTheMatrixByColumn) {
  SparseMatrix const matrix{3, 4, {0, 2, 2, 5}, {1, 3, 0, 1, 3}, {1.0, 2.0, 3.0, 4.0, 5.0}};
  auto const by_input = transposed(matrix);
  EXPECT_EQ(by_input.row_pointers, (std::vector<EdgeOffset>{0, 1, 3, 3, 5}));
  EXPECT_EQ(by_input.outputs, (std::vector<NeuronIndex>{2, 0, 2, 0, 2}));
  EXPECT_EQ(by_input.edges, (std::vector<EdgeOffset>{2, 0, 3, 1, 4}));
}

TEST(TransposedEdges, OfTheTransposedAreTheFirst) {
  RandomStream random(5, 5);
  auto const matrix = test::draw_matrix(random, 37, 23, 0.3, 1.0);
  auto const once = transposed(matrix);
  SparseMatrix other{23, 37, once.row_pointers, once.outputs, {1.0}};
  auto const twice = transposed(other);
  EXPECT_EQ(twice.row_pointers, matrix.row_pointers);
  EXPECT_EQ(twice.outputs, matrix.column_indices);
  for (std::size_t edge = 0; edge < once.edges.size(); ++edge) EXPECT_EQ(twice.edges[once.edges[edge]], edge);
}

TEST(TransposedEdges, OfNothingAreNone) {
  EXPECT_EQ(transposed({2, 3, {0, 0, 0}, {}, {}}).row_pointers, std::vector<EdgeOffset>(4, 0));
  EXPECT_EQ(transposed({0, 0, {0}, {}, {}}).row_pointers, std::vector<EdgeOffset>(1, 0));
}

} // namespace
} // namespace varve
