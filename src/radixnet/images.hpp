#pragma once

#include "core/types.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>
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

/// How thick the digits of images are drawn.
enum class Strokes {
  official_density, ///< about as many pixels are set as in the official images; at most widths more images survive
  /// Thinner at the larger widths, so that about as many of 60000 images survive the challenge's networks as
  /// officially: 1812, 1801 and 1918 of those of 1024, 4096 and 16384 neurons with 120 layers, 1994 with 60 of 65536.
  /// For these four widths only, else UsageError.
  official_survivors
};

/// Digit-like images: samples of 0/1 pixels (the value 1.0 is stored once) that stand in for the challenge's scaled and
/// thresholded MNIST. On average about as many pixels are set, with a similar spread, and about as many samples survive
/// the challenge's networks. Every image size draws the same shapes at its own resolution.
///
/// A sample depends on the seed and its number only and is drawn in integers, so any range gives the same images on any
/// platform. The image has 2^k x 2^k pixels if neurons = 4^k, else 2^k rows of 2^(k+1) pixels, each half as wide as
/// high. Pixel (row, column) is neuron column * rows + row, from 0, as in the challenge's files.
///
/// `strokes`: how thick the digits are. Throws UsageError unless neurons is a power of two from 32 to 2^31 and
/// first <= last.
SampleSet digit_images(std::size_t neurons, SampleIndex first, SampleIndex last, std::uint64_t seed,
                       Strokes strokes = Strokes::official_density);

/// The images 0 ... samples - 1.
SampleSet digit_images(std::size_t neurons, std::size_t samples, std::uint64_t seed);

/// Samples of random values, resembling features of other machine-learning data: every neuron has a value with
/// probability `density`, uniform in (0, 1] and exact in float. Sample k depends on k and the seed only, so any range
/// gives the same samples.
///
/// Throws UsageError unless neurons is 1 to 2^31 and the density is in (0, 1].
SampleSet random_samples(std::size_t neurons, SampleIndex first, SampleIndex last, double density, std::uint64_t seed);

/// The samples 0 ... samples - 1.
SampleSet random_samples(std::size_t neurons, std::size_t samples, double density, std::uint64_t seed);

} // namespace varve
