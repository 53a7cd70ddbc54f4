#pragma once

#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// Digit-like images: samples of 0/1 pixels (the value 1.0 is stored once) that stand in for the challenge's scaled and
/// thresholded MNIST. On average about as many pixels are set, with a similar spread, and about as many samples survive
/// the challenge's networks. Every image size draws the same shapes at its own resolution.
///
/// A sample depends on the seed and its number only and is drawn in integers, so any range gives the same images on any
/// platform. The image has 2^k x 2^k pixels if neurons = 4^k, else 2^k rows of 2^(k+1) pixels, each half as wide as
/// high. Pixel (row, column) is neuron column * rows + row, from 0, as in the challenge's files.
///
/// Throws UsageError unless neurons is a power of two from 32 to 2^31 and first <= last.
SampleSet digit_images(std::size_t neurons, SampleIndex first, SampleIndex last, std::uint64_t seed);

/// The images 0 ... samples - 1.
SampleSet digit_images(std::size_t neurons, std::size_t samples, std::uint64_t seed);

} // namespace varve
