#pragma once

#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

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

} // namespace varve
