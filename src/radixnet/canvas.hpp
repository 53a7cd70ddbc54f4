#pragma once

#include "core/types.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace varve {

/// Lengths within an image are whole numbers of which so many make up its side: a power of two, so that pixels of every
/// size have whole sides, and small enough that all products of lengths fit into 64 bits.
inline constexpr std::int64_t kCanvasSide = std::int64_t{1} << 20U;

struct Point {
  std::int64_t x = 0; ///< to the right
  std::int64_t y = 0; ///< down
};

/// A quadratic Bezier curve from one end to the other, pulled towards its control point.
struct Stroke {
  Point from, control, to;
};

/// The pixels of one image and a round brush to set them with. Computes in integers, so that the same strokes set the
/// same pixels on every platform.
class Canvas {
public:
  /// neurons: a power of two from 2 to 2^32; 2^k rows of 2^k columns if it is 4^k, else of 2^(k+1) columns.
  explicit Canvas(std::size_t neurons);

  /// Draws a curve with a brush of this radius; what lies outside the canvas is cut off.
  void draw(Stroke const& stroke, std::int64_t brush);

  /// Appends the neurons of the set pixels, ascending, and clears the canvas.
  /// Pixel (row, column) is neuron column * rows + row.
  void take_pixels(std::vector<NeuronIndex>& neurons);

private:
  void dab(Point centre, std::int64_t brush);

  unsigned log2_rows_;
  unsigned log2_columns_;
  std::vector<std::uint8_t> is_set_; ///< [column * rows + row]
};

} // namespace varve
