#pragma once

#include "network/leaf.hpp"
#include "network/loss.hpp"
#include "network/network.hpp"
#include "network/optimizer.hpp"
#include "network/sample_set.hpp"
#include "passes/regrow.hpp"

#include <cstdint>
#include <vector>

namespace varve {

/// A layer in training: every edge has its own weight, every output its own bias.
template <class Scalar>
struct TrainedLayer {
  SparseMatrix pattern;        ///< shape [outputs, inputs]; its values are not used
  std::vector<Scalar> weights; ///< one per edge
  std::vector<double> bias;    ///< one per output
  Activation activation;
};

/// The gradients of a layer, summed over the samples of a mini-batch; never -0.
template <class Scalar>
struct LayerGradient {
  std::vector<Scalar> weights; ///< one per edge
  std::vector<Scalar> bias;    ///< one per output
};

/// The gradients of all layers, and the loss of the mini-batch.
template <class Scalar>
struct Gradient {
  std::vector<LayerGradient<Scalar>> layers;
  LossSum loss;
};

/// The layers of a network with weights rounded to Scalar.
template <class Scalar>
std::vector<TrainedLayer<Scalar>> trained_layers(Network const& network);

/// The network with these weights and biases.
template <class Scalar>
Network to_network(std::vector<TrainedLayer<Scalar>> const& layers);

/// The gradients of a mini-batch, by plain loops without Kokkos: the reference of all kernels of training. Row p of
/// `samples` is at position p of the mini-batch, which decides its place in the sums (network/leaf.hpp).
///   forward   x_l = as infer() computes it; all layers are kept
///   output    e_j = act'(x_j) * (weight * d loss / d x_j); exponentials, quotients and the loss in double, rounded
///   once backward  e_i = act'(x_i) * (fma-chain over the edges (j, i) of input i, by ascending j, of weight(j, i) *
///   e_j) gradient  g(j, i) = sum over positions of x_i * e_j: within a leaf chains of fma, bias(j) = sum of e_j
///   likewise
/// act' is a function of the activation: 1 above zero and below the cap, else the slope; x (1 - x); 1 - x^2.
/// Throws what require_fit() throws.
template <class Scalar>
Gradient<Scalar> gradient_of(std::vector<TrainedLayer<Scalar>> const& layers, SampleSet const& samples,
                             Answers const& answers, Loss const& loss);

/// The moments of the optimizer for one layer.
template <class Scalar>
struct LayerMoments {
  std::vector<std::vector<Scalar>> weights; ///< [moment][edge]
  std::vector<std::vector<double>> bias;    ///< [moment][output]
};

/// Training by plain loops: weights, moments and the number of steps.
template <class Scalar>
class ReferenceTraining {
public:
  /// Throws UsageError if the optimizer is invalid.
  ReferenceTraining(Network const& network, Loss const& loss, Optimizer const& optimizer);

  /// One step with the samples of a mini-batch at this rate. Returns their loss before the step.
  LossSum step(SampleSet const& samples, Answers const& answers, double rate);

  /// A change of the pattern before a step with these samples (passes/regrow.hpp), by lists of all places. The
  /// gradient at a free place is that of a network with an edge of weight 0 there.
  PatternCount evolve(SampleSet const& samples, Answers const& answers, PatternEvent const& event);

  std::vector<TrainedLayer<Scalar>> const& layers() const { return layers_; }
  std::vector<LayerMoments<Scalar>> const& moments() const { return moments_; }

private:
  std::vector<TrainedLayer<Scalar>> layers_;
  std::vector<LayerMoments<Scalar>> moments_;
  Loss loss_;
  Optimizer optimizer_;
  std::uint64_t num_steps_ = 0;
};

} // namespace varve
