#pragma once

#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// Digit-like images, each a sample of 0/1 pixels (values stored once, 1.0), that stand in for the challenge's scaled
/// and thresholded MNIST: about as many pixels set in the mean, as spread out, and about as many samples that survive
/// the challenge's networks. Every size draws the same shapes, only finer.
///
/// A sample is drawn from its seed and number alone and in integers, so any range gives the same images on any
/// platform. The image is a square of 2^k x 2^k pixels if neurons = 4^k, else 2^k rows of 2^(k+1) pixels, each half as
/// wide as high. Pixel (row, column) is neuron column * rows + row, from 0, as in the challenge's files.
///
/// Throws UsageError unless neurons is a power of two from 32 to 2^31 and first <= last.
SampleSet digit_images(std::size_t neurons, SampleIndex first, SampleIndex last, std::uint64_t seed);

/// The images 0 ... samples - 1.
SampleSet digit_images(std::size_t neurons, std::size_t samples, std::uint64_t seed);

} // namespace varve
