#pragma once

#include "core/types.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace varve {

/// The side of an image in the integer length units used for drawing. It is a power of two, so that pixels of every
/// image size have integer sides, and small enough that all products of lengths fit in 64 bits.
inline constexpr std::int64_t kCanvasSide = std::int64_t{1} << 20U;

/// A point of the image in canvas units.
struct Point {
  std::int64_t x = 0; ///< from left to right
  std::int64_t y = 0; ///< from top to bottom
};

/// A quadratic Bezier curve between two end points, pulled towards its control point.
struct Stroke {
  Point from, control, to;
};

/// The pixels of one image and a round brush that sets them. Uses integer arithmetic only, so that the same strokes set
/// the same pixels on every platform.
class Canvas {
public:
  /// `neurons` is a power of two from 2 to 2^32. The canvas has 2^k rows; it has 2^k columns if neurons = 4^k, else
  /// 2^(k+1).
  explicit Canvas(std::size_t neurons);

  /// Draws a curve with a brush of this radius, clipped to the canvas.
  void draw(Stroke const& stroke, std::int64_t brush);

  /// Appends the neurons of the set pixels in ascending order, and clears the canvas. Pixel (row, column) is neuron
  /// column * rows + row.
  void take_pixels(std::vector<NeuronIndex>& neurons);

private:
  void dab(Point centre, std::int64_t brush);

  unsigned log2_rows_;
  unsigned log2_columns_;
  std::vector<std::uint8_t> is_set_; ///< index column * rows + row
};

} // namespace varve
