#include "products/product_tiles.hpp"

#include "core/error.hpp"
#include "io/files.hpp"
#include "io/matrix_block.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace varve {
namespace {

using test::expect_holds;
using test::sentence_of;

/// Sums of a tile of 3 x 5 numbers in blocks of 2 x 4: block by block, each row by row.
struct SmallTile {
  std::vector<float> sums = std::vector<float>(4 * 2 * 4, -77.0F); // padding must not be read
  TileSums<float> tile{nullptr, {10, 3, 20, 5}, 2, 4};

  SmallTile() {
    for (std::uint64_t row = 0; row < 3; ++row)
      for (std::uint64_t column = 0; column < 5; ++column) at(row, column) = static_cast<float>(10 * row + column + 1);
    tile.sums = sums.data();
  }
  float& at(std::uint64_t row, std::uint64_t column) {
    return sums[(row / 2 * 2 + column / 4) * 8 + row % 2 * 4 + column % 4];
  }
};

TEST(FinishedTiles, AreTheSumsRowByRow) {
  SmallTile const small;
  std::vector<float> values(15);
  finish_tile<float>(small.tile, {}, nullptr, values.data());
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t column = 0; column < 5; ++column)
      EXPECT_EQ(values[row * 5 + column], static_cast<float>(10 * row + column + 1));
}

TEST(FinishedTiles, AreScaledInDoubleAndRoundedOnce) {
  SmallTile const small;
  std::vector<float> added(15);
  for (std::size_t i = 0; i < added.size(); ++i) added[i] = static_cast<float>(0.1 * static_cast<double>(i) - 0.7);
  std::vector<float> values(15);
  finish_tile<float>(small.tile, {0.1, -0.3}, added.data(), values.data());
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t column = 0; column < 5; ++column) {
      auto const sum = static_cast<double>(10 * row + column + 1);
      auto const place = row * 5 + column;
      EXPECT_EQ(values[place], static_cast<float>(std::fma(0.1, sum, -0.3 * static_cast<double>(added[place]))));
    }
  }
  finish_tile<float>(small.tile, {0.1, 5.0}, nullptr, values.data());
  EXPECT_EQ(values[0], static_cast<float>(0.1));
}

TEST(FinishedTiles, HashDependsOnPlacesAndNotOnTiles) {
  SmallTile small;
  std::vector<float> values(15);
  auto const hash = finish_tile<float>(small.tile, {}, nullptr, values.data());
  EXPECT_EQ(hash, hash_of_block<float>(small.tile.block, values.data()));
  std::uint64_t sum = 0; // of tiles of one row
  for (std::uint64_t row = 0; row < 3; ++row)
    sum += hash_of_block<float>({10 + row, 1, 20, 5}, values.data() + 5 * row);
  EXPECT_EQ(hash, sum);
  EXPECT_NE(hash, hash_of_block<float>({11, 3, 20, 5}, values.data()));
  std::swap(values[0], values[1]);
  EXPECT_NE(hash, hash_of_block<float>(small.tile.block, values.data()));
}

TEST(FinishedTiles, HaveNoNegativeZero) {
  SmallTile small;
  small.at(1, 2) = -0.0F;
  std::vector<float> values(15);
  auto const hash = finish_tile<float>(small.tile, {}, nullptr, values.data());
  EXPECT_FALSE(std::signbit(values[7]));
  small.at(1, 2) = 0.0F;
  EXPECT_EQ(finish_tile<float>(small.tile, {}, nullptr, values.data()), hash);
}

TEST(FinishedTiles, AreFinite) {
  for (float const bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    SmallTile small;
    small.at(2, 4) = bad;
    std::vector<float> values(15);
    auto const sentence = sentence_of<InputError>([&] { finish_tile<float>(small.tile, {}, nullptr, values.data()); });
    expect_holds(sentence, "row 12, column 24");
    expect_holds(sentence, "--precision double");
  }
  SmallTile small;
  std::vector<float> values(15);
  EXPECT_THROW(finish_tile<float>(small.tile, {1e38, 0.0}, nullptr, values.data()), InputError);
}

} // namespace
} // namespace varve
