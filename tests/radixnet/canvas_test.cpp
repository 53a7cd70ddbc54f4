#include "radixnet/images.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace varve {
namespace {

/// A dot: a stroke that stays where it is. Coordinates in 1/16 of the side.
Stroke dot(std::int64_t x, std::int64_t y) {
  Point const point{x * kCanvasSide / 16, y * kCanvasSide / 16};
  return {point, point, point};
}

std::vector<NeuronIndex> pixels_of(Canvas& canvas) {
  std::vector<NeuronIndex> neurons;
  canvas.take_pixels(neurons);
  return neurons;
}

TEST(Canvas, SetsThePixelUnderASmallBrush) {
  Canvas canvas(64); // 8 x 8
  canvas.draw(dot(5, 3), kCanvasSide / 64);
  EXPECT_EQ(pixels_of(canvas), (std::vector<NeuronIndex>{2 * 8 + 1})); // column 2, row 1
  EXPECT_TRUE(pixels_of(canvas).empty());
}

TEST(Canvas, SetsARoundSpot) {
  Canvas canvas(64);
  canvas.draw(dot(5, 5), kCanvasSide / 8); // one pixel of radius: a cross
  EXPECT_EQ(pixels_of(canvas), (std::vector<NeuronIndex>{10, 17, 18, 19, 26}));
}

TEST(Canvas, HasHalfAsWidePixelsIfItMust) {
  Canvas canvas(32); // 4 rows of 8 columns
  canvas.draw(dot(5, 6), kCanvasSide / 64);
  EXPECT_EQ(pixels_of(canvas), (std::vector<NeuronIndex>{2 * 4 + 1}));
}

TEST(Canvas, CutsOffWhatLiesOutside) {
  Canvas canvas(64);
  for (auto const& outside : {dot(-5, 5), dot(5, -5), dot(21, 5), dot(5, 21)}) canvas.draw(outside, kCanvasSide / 8);
  EXPECT_TRUE(pixels_of(canvas).empty());
  canvas.draw(dot(0, 16), kCanvasSide / 10); // on the lower left corner
  EXPECT_EQ(pixels_of(canvas), (std::vector<NeuronIndex>{7}));
}

TEST(Canvas, DrawsAStraightBarWithoutGaps) {
  Canvas canvas(1024);
  Point const left{kCanvasSide / 8, kCanvasSide * 33 / 64};
  Point const right{kCanvasSide * 7 / 8, kCanvasSide * 33 / 64};
  canvas.draw({left, {kCanvasSide / 2, left.y}, right}, kCanvasSide / 64);
  std::vector<NeuronIndex> expected; // the row is 16 of 32; its ends stick out by half a pixel
  for (NeuronIndex column = 4; column < 28; ++column) expected.push_back(column * 32 + 16);
  auto const pixels = pixels_of(canvas);
  for (auto const pixel : expected) EXPECT_TRUE(std::ranges::find(pixels, pixel) != pixels.end()) << pixel;
  EXPECT_LE(pixels.size(), expected.size() + 2);
}

TEST(Canvas, DrawsACurveThroughItsMiddle) {
  Canvas canvas(1024);
  Point const top{kCanvasSide / 4, kCanvasSide / 4};
  canvas.draw({top, {kCanvasSide * 3 / 4, kCanvasSide / 4}, {kCanvasSide * 3 / 4, kCanvasSide * 3 / 4}},
              kCanvasSide / 32);
  auto const pixels = pixels_of(canvas);
  auto const is_set = [&](NeuronIndex row, NeuronIndex column) {
    return std::ranges::find(pixels, column * 32 + row) != pixels.end();
  };
  EXPECT_TRUE(is_set(8, 8));
  EXPECT_TRUE(is_set(12, 20)); // half way: (5/8, 3/8) of the side
  EXPECT_TRUE(is_set(23, 23));
  EXPECT_FALSE(is_set(8, 23)); // the control point itself is not reached
}

} // namespace
} // namespace varve
