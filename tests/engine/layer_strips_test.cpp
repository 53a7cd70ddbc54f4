#include "engine/trained_layers.hpp"

#include "engine/training_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve {
namespace {

using enum LayerUse::Direction;
using Pointers = std::vector<std::uint32_t>;

TEST(CutRows, KeepsRowsWholeAndBelowTheSize) {
  Pointers const pointers = {0, 3, 3, 10, 12, 13}; // rows of 3, 0, 7, 2 and 1 edges
  using Strips = std::vector<LayerStrip>;
  EXPECT_EQ(cut_rows(pointers, 0, 8, forward), (Strips{{0, 2, 0, 3, true}, {2, 1, 3, 7, false}, {3, 2, 10, 3, false}}));
  EXPECT_EQ(cut_rows(pointers, 0, 8, backward),
            (Strips{{3, 2, 10, 3, true}, {2, 1, 3, 7, false}, {0, 2, 0, 3, false}}));
  EXPECT_EQ(cut_rows(pointers, 0, 18, forward), (Strips{{0, 5, 0, 13, true}}));
  EXPECT_EQ(cut_rows(pointers, 0, 17, forward), (Strips{{0, 4, 0, 12, true}, {4, 1, 12, 1, false}}));
  EXPECT_EQ(cut_rows(pointers, 0, 1, forward).size(), 5U) << "a row is never cut";
}

TEST(CutRows, CountsAllPlacesOfDenseRows) {
  Pointers const pointers = {0, 3, 3, 10, 12, 13};
  auto const strips = cut_rows(pointers, 7, 16, forward);
  ASSERT_EQ(strips.size(), 3U);
  EXPECT_EQ(strips[1], (LayerStrip{2, 2, 3, 9, false}));
  EXPECT_EQ(strips[2], (LayerStrip{4, 1, 12, 1, false}));
}

TEST(CutRows, TakesLayersWithoutRows) {
  EXPECT_EQ(cut_rows(Pointers{0}, 0, 10, backward), (std::vector<LayerStrip>{{0, 0, 0, 0, true}}));
}

TEST(StripSizes, AreHalvesThatHoldAnyRow) {
  EXPECT_EQ(strip_sizes(1000, 100), (std::vector<std::size_t>{kWholeLayers, 500, 250, 125}));
  EXPECT_EQ(strip_sizes(1000, 249), (std::vector<std::size_t>{kWholeLayers, 500, 250}));
  EXPECT_EQ(strip_sizes(1000, 250), (std::vector<std::size_t>{kWholeLayers, 500}));
  EXPECT_EQ(strip_sizes(1024, 1).size(), 9U) << "down to a 256th";
  EXPECT_EQ(strip_sizes(std::size_t{1} << 30U, 1).back(), std::size_t{1} << 18U);
}

/// A plan takes the largest strips that fit before it computes activations again or takes smaller micro-batches.
TEST(StripSizes, AreChosenByTheMemoryThatIsLeft) {
  TrainingSizes const sizes{
      std::vector<std::size_t>(5, 10), 64, 4, 100000, {{kWholeLayers, 40000}, {500, 20000}, {250, 10000}}, 5000};
  TrainingOptions options;
  options.batch = 128;
  std::size_t const all = 2 * bytes_per_leaf(sizes, 1);
  auto const at = [&](std::size_t limit) { return plan_training(sizes, options, {limit, {}, 5000}); };
  EXPECT_FALSE(at(all + 100000).streams_weights);
  EXPECT_EQ(at(all + 99999).strip_size, kWholeLayers);
  EXPECT_EQ(at(all + 40000).strip_size, kWholeLayers);
  EXPECT_EQ(at(all + 39999).strip_size, 500U);
  EXPECT_EQ(at(all + 19999).strip_size, 250U);
  auto const least = at(all + 10000);
  EXPECT_EQ(least.strip_size, 250U);
  EXPECT_EQ(least.weight_bytes, 10000U);
  EXPECT_EQ(least.keep_every, 1U);
  auto const less = at(all + 9999);
  EXPECT_GT(less.keep_every, 1U);
  EXPECT_EQ(less.micro_batch, 128U);
}

} // namespace
} // namespace varve
