#include "passes/regrow.hpp"

#include "core/error.hpp"
#include "io/random_data.hpp"
#include "radixnet/random.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace varve {
namespace {

using test::Generator;
using test::random_matrix;
using test::Values;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Places = std::vector<PlaceNumber>;
using Edges = std::vector<EdgeOffset>;

/// A layer of 2 outputs and 3 inputs without an edge at places 1 and 5; edges 0 to 3 are at places 0, 2, 3, 4.
SparseMatrix small_matrix() { return {2, 3, {0, 2, 4}, {0, 2, 0, 1}, {0.5, -2.0, 0.5, 3.0}}; }

/// The places of all edges, one by one.
Places all_places(SparseMatrix const& matrix) {
  Places places;
  for (std::size_t row = 0; row < matrix.num_rows; ++row)
    for (auto const column : matrix.row_columns(row)) places.push_back(row * matrix.num_columns + column);
  return places;
}

TEST(SmallestEdges, AreFoundWithTiesByNumber) {
  EXPECT_THAT(smallest_edges(small_matrix(), 0), IsEmpty());
  EXPECT_THAT(smallest_edges(small_matrix(), 1), ElementsAre(2)) << "of equal ones, the lowest numbers stay";
  EXPECT_THAT(smallest_edges(small_matrix(), 2), ElementsAre(0, 2));
  EXPECT_THAT(smallest_edges(small_matrix(), 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(smallest_edges(small_matrix(), 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THROW(smallest_edges(small_matrix(), 5), std::logic_error);
  Generator generator(3);
  auto matrix = random_matrix(generator, 20, 30, 0.4, Values::doubles);
  for (auto& value : matrix.values) value = std::round(2 * value); // many ties, of both signs
  Edges sorted(matrix.num_entries());
  std::iota(sorted.begin(), sorted.end(), EdgeOffset{0});
  std::ranges::reverse(sorted);
  std::ranges::stable_sort(sorted, {}, [&](EdgeOffset edge) { return std::abs(matrix.value(edge)); });
  for (EdgeOffset const count : {1U, 17U, 60U, 101U}) {
    Edges expected(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count));
    std::ranges::sort(expected);
    EXPECT_EQ(smallest_edges(matrix, count), expected) << count;
  }
}

TEST(PlacesOf, SkipEmptyRows) {
  SparseMatrix const matrix{5, 4, {0, 0, 2, 2, 3, 3}, {1, 3, 0}, {1, 2, 3}};
  EXPECT_THAT(places_of(matrix, Edges{0, 1, 2}), ElementsAre(5, 7, 12));
  EXPECT_THAT(places_of(matrix, Edges{2}), ElementsAre(12));
  EXPECT_THAT(places_of(matrix, {}), IsEmpty());
}

TEST(BestCandidates, AreTheLargestWithTiesByPlace) {
  double const nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<GrowthCandidate> candidates = {{7, 1.0}, {3, 2.0}, {9, 2.0}, {4, nan}, {5, 0.0}, {1, 0.0}};
  std::vector<Places> const expected = {{}, {3}, {3, 9}, {3, 7, 9}, {1, 3, 7, 9}, {1, 3, 4, 7, 9}, {1, 3, 4, 5, 7, 9}};
  for (int order = 0; order < 4; ++order) {
    for (std::size_t count = 0; count < 9; ++count) {
      SCOPED_TRACE(::testing::Message() << count << " in order " << order);
      BestCandidates all(count), one_by_one(count);
      all.add(candidates);
      for (auto const& candidate : candidates) one_by_one.add({&candidate, 1});
      auto const& places = expected[std::min<std::size_t>(count, 6)];
      EXPECT_EQ(all.places(), places);
      EXPECT_EQ(one_by_one.places(), places);
      EXPECT_EQ(one_by_one.limit(), all.limit());
    }
    std::ranges::rotate(candidates, candidates.begin() + 2);
    if (order == 2) std::ranges::reverse(candidates);
  }
}

TEST(BestCandidates, TellWhatOthersMustExceed) {
  BestCandidates best(2);
  EXPECT_EQ(best.limit(), std::nullopt);
  best.add(std::vector<GrowthCandidate>{{0, 3.0}});
  EXPECT_EQ(best.limit(), std::nullopt);
  best.add(std::vector<GrowthCandidate>{{1, 5.0}});
  EXPECT_EQ(best.limit(), 3.0);
  best.add(std::vector<GrowthCandidate>{{2, 4.0}, {3, 4.0}});
  EXPECT_EQ(best.limit(), 4.0);
  EXPECT_THAT(best.places(), ElementsAre(1, 2));
  EXPECT_EQ(BestCandidates(0).limit(), std::numeric_limits<double>::infinity());
}

/// What random_places() must give, from a list of all free places.
Places shuffled_places(SparseMatrix const& matrix, Edges const& dropped, PatternEvent const& event, std::size_t layer) {
  auto const edges = all_places(matrix);
  std::set<PlaceNumber> taken(edges.begin(), edges.end());
  for (auto const edge : dropped) taken.erase(edges[edge]);
  Places free;
  for (PlaceNumber place = 0; place < matrix.num_rows * matrix.num_columns; ++place)
    if (!taken.contains(place)) free.push_back(place);
  RandomStream random(event.seed, growth_stream(event, layer));
  for (std::size_t i = 0; i < dropped.size(); ++i) std::swap(free[i], free[i + random.below(free.size() - i)]);
  free.resize(dropped.size());
  std::ranges::sort(free);
  return free;
}

TEST(RandomPlaces, AreAShuffleOfTheFreeOnes) {
  Generator generator(5);
  for (double const density : {0.05, 0.5, 0.97}) {
    auto const matrix = random_matrix(generator, 15, 21, density, Values::doubles);
    for (EdgeOffset const part : {1U, 2U, 7U}) {
      auto const dropped = smallest_edges(matrix, matrix.num_entries() / part);
      PatternEvent const event{PatternKind::set, 0.3, 11 + part, part};
      for (std::size_t const layer : {0U, 6U})
        EXPECT_EQ(random_places(matrix, dropped, event, layer), shuffled_places(matrix, dropped, event, layer))
            << density << " 1/" << part;
    }
  }
  SparseMatrix const full{1, 2, {0, 2}, {0, 1}, {1, 2}};
  EXPECT_THAT(random_places(full, Edges{1}, {}, 0), ElementsAre(1)) << "the only free place";
}

TEST(RandomPlaces, DependOnSeedEventAndLayerAndAreUniform) {
  Generator generator(7);
  auto const matrix = random_matrix(generator, 30, 30, 0.2, Values::doubles);
  auto const dropped = smallest_edges(matrix, 40);
  PatternEvent const event{PatternKind::set, 0.3, 1, 1};
  auto const places = random_places(matrix, dropped, event, 0);
  EXPECT_NE(random_places(matrix, dropped, event, 1), places);
  EXPECT_NE(random_places(matrix, dropped, {PatternKind::set, 0.3, 2, 1}, 0), places);
  EXPECT_NE(random_places(matrix, dropped, {PatternKind::set, 0.3, 1, 2}, 0), places);
  SparseMatrix const row{1, 6, {0, 3}, {0, 2, 3}, {3, 1, 2}};
  std::map<PlaceNumber, int> times;
  for (std::uint64_t number = 0; number < 4000; ++number)
    ++times[random_places(row, Edges{1}, {PatternKind::set, 0.3, 1, number}, 0).front()];
  ASSERT_EQ(times.size(), 4U);
  for (PlaceNumber const place : {1U, 2U, 4U, 5U}) EXPECT_NEAR(times[place], 1000, 110) << place;
}

TEST(Regrow, RewritesPatternWeightsAndMoments) {
  Layer layer{small_matrix(), {1.0}, Activation::relu()};
  std::vector<std::vector<double>> moments = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  auto const count = regrow(layer, moments, Edges{0, 2}, Places{3, 5}); // place 3 returns, place 5 is new
  EXPECT_EQ(count, (PatternCount{2, 1}));
  EXPECT_EQ(layer.weights, (SparseMatrix{2, 3, {0, 1, 4}, {2, 0, 1, 2}, {-2.0, 0.0, 3.0, 0.0}}));
  EXPECT_THAT(moments, ElementsAre(ElementsAre(2, 0, 4, 0), ElementsAre(6, 0, 8, 0)));
  EXPECT_THAT(layer.bias, ElementsAre(1.0));
  std::vector<std::vector<double>> none;
  auto const before = layer;
  EXPECT_EQ(regrow(layer, none, {}, {}), PatternCount{});
  EXPECT_EQ(layer, before);
}

TEST(Regrow, LeavesRowsEmptyAndFillsEmptyOnes) {
  Layer layer{{5, 4, {0, 0, 2, 2, 3, 3}, {1, 3, 0}, {1, 2, 3}}, {0.0}, Activation::relu()};
  std::vector<std::vector<double>> none;
  EXPECT_EQ(regrow(layer, none, Edges{2}, Places{17}), (PatternCount{1, 0}));
  EXPECT_EQ(layer.weights, (SparseMatrix{5, 4, {0, 0, 2, 2, 2, 3}, {1, 3, 1}, {1, 2, 0}}));
}

TEST(Regrow, KeepsEveryOtherEdgeOfRandomLayers) {
  Generator generator(8);
  for (std::uint64_t round = 0; round < 20; ++round) {
    Layer layer{random_matrix(generator, 9, 14, 0.3, Values::doubles), {0.0}, Activation::relu()};
    std::map<PlaceNumber, double> expected;
    auto const places = all_places(layer.weights);
    for (EdgeOffset edge = 0; edge < places.size(); ++edge) expected[places[edge]] = layer.weights.value(edge);
    auto const dropped = smallest_edges(layer.weights, layer.num_edges() * round / 20);
    auto const grown = random_places(layer.weights, dropped, {PatternKind::set, 0.3, 4, round}, 0);
    std::uint64_t returned = 0;
    for (auto const edge : dropped) expected.erase(places[edge]);
    for (auto const place : grown) {
      expected[place] = 0.0;
      returned += std::ranges::count(places, place) > 0 ? 1 : 0;
    }
    std::vector<std::vector<double>> moments;
    EXPECT_EQ(regrow(layer, moments, dropped, grown), (PatternCount{dropped.size(), returned}));
    EXPECT_NO_THROW(require_valid(layer, 0));
    std::map<PlaceNumber, double> found;
    auto const now = all_places(layer.weights);
    for (EdgeOffset edge = 0; edge < now.size(); ++edge) found[now[edge]] = layer.weights.value(edge);
    EXPECT_EQ(found, expected);
  }
}

TEST(PatternChange, DropsNothingWhereNothingIsFree) {
  EXPECT_EQ(edges_to_drop(0.3, 10, 10), 0U);
  EXPECT_EQ(edges_to_drop(0.3, 10, 11), 3U);
  EXPECT_EQ(edges_to_drop(0.25, 10, 11), 3U) << "2.5 is rounded up";
  EXPECT_EQ(edges_to_drop(0.24, 10, 11), 2U);
  EXPECT_EQ(edges_to_drop(1.0, 10, 11), 10U);
  EXPECT_EQ(edges_to_drop(0.3, 0, 11), 0U);
  EXPECT_EQ(edges_to_drop(0.3, 1, 11), 0U);
  EXPECT_THROW(edges_to_drop(1.5, 10, 11), std::logic_error);
}

TEST(PatternChange, HasNames) {
  for (auto const kind : {PatternKind::keep, PatternKind::set, PatternKind::rigl})
    EXPECT_EQ(parse_pattern_kind(to_string(kind)), kind);
  EXPECT_EQ(to_string(PatternKind::rigl), "rigl");
  EXPECT_THROW(parse_pattern_kind("RigL"), UsageError);
}

} // namespace
} // namespace varve
