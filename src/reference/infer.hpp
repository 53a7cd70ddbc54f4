#pragma once

#include "core/types.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <vector>

namespace varve {

/// Runs samples through a network by plain loops and gives their last activations, the judge of everything else.
///
/// For every layer, sample and output j:
///   sum = fma(weight(j, i), previous(i), sum) over the edges of j as they are stored, in Scalar, from 0;
///   x = Scalar(double(sum) + bias(j)), that is, one rounding after the bias is added in double;
///   next(j) = x > 0 ? min(x, cap) : 0, without the cap for relu, and x + 0 for identity (which makes -0 into 0);
///   what exceeds the largest finite Scalar becomes that number, with its sign.
/// Scalar (float or double) is also the type that weights, samples and cap are rounded to. The only work left out is
/// that of samples without any nonzero in layers that keep them so (keeps_zero()).
///
/// Result: [samples, outputs of the last layer], the nonzero activations of every sample, first_sample as given.
/// Asks for each layer once, in order. Throws InputError if samples or layers do not fit together or a sample is
/// malformed.
template <class Scalar = double>
SampleSet infer(NetworkSource const& network, SampleSet const& samples);

extern template SampleSet infer<float>(NetworkSource const&, SampleSet const&);
extern template SampleSet infer<double>(NetworkSource const&, SampleSet const&);

/// The ascending numbers, within the whole input and from 0, of the samples that have any nonzero activation.
std::vector<SampleIndex> categories(SampleSet const& activations);

} // namespace varve
