#pragma once

#include "core/types.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <vector>

namespace varve {

/// Layer `number` of a network, for samples or activations before it of `num_neurons` neurons. Throws InputError if
/// they do not fit together.
Layer fitting_layer(NetworkSource const& network, std::size_t number, std::size_t num_neurons);

/// A layer without repeated outputs. Outputs with equal input lists, weights and bias, bit for bit, have equal values
/// in any arithmetic, so they are computed once; no weights are added up and nothing is rounded.
struct DistinctLayer {
  Layer layer;                    ///< shape [distinct outputs, inputs], one bias per output
  std::vector<NeuronIndex> place; ///< for each output of the source's layer its distinct output

  std::size_t num_outputs() const { return place.size(); }
};

/// Finds the distinct outputs of a valid layer in time linear in its edges and outputs.
DistinctLayer distinct_layer(Layer const& layer);

/// Runs samples through a network with plain loops and returns the last activations. This is the reference for
/// everything else.
///
/// For every layer, sample and output j:
///   sum = fma(weight(j, i), previous(i), sum) over the edges of j in stored order, in Scalar, from 0;
///   x = Scalar(double(sum) + bias(j)), that is, one rounding after the bias is added in double;
///   next(j) = x > 0 ? min(x, cap) : 0, without the cap for relu, and x + 0 for identity (which turns -0 into 0);
///   activated() in network/activation.hpp has the formulas of all activation functions;
///   a result beyond the largest finite Scalar becomes that number, with its sign.
/// Weights, samples and cap are rounded to Scalar (float or double), too. The only work skipped is that of samples
/// without any nonzero activation in layers that keep them so (keeps_zero()).
///
/// The result has shape [samples, outputs of the last layer], the nonzero activations of every sample, and the
/// first_sample of the input. Reads each layer once, in order. Throws InputError if samples or layers do not fit
/// together or a sample is malformed.
template <class Scalar = double>
SampleSet infer(NetworkSource const& network, SampleSet const& samples);

extern template SampleSet infer<float>(NetworkSource const&, SampleSet const&);
extern template SampleSet infer<double>(NetworkSource const&, SampleSet const&);

/// The nonzero numbers of rows, each of num_columns numbers, or of none if all are 0.
template <class Scalar>
SparseMatrix nonzeros_of(std::vector<std::vector<Scalar>> const& rows, std::size_t num_columns);

extern template SparseMatrix nonzeros_of(std::vector<std::vector<double>> const&, std::size_t);

/// The numbers of the samples with a nonzero activation, ascending, within the whole input and from 0.
std::vector<SampleIndex> categories(SampleSet const& activations);

} // namespace varve
