#pragma once

#include "network/leaf.hpp"
#include "network/loss.hpp"
#include "network/network.hpp"
#include "network/optimizer.hpp"
#include "network/sample_set.hpp"

#include <cstdint>
#include <vector>

namespace varve {

/// A layer whose weights and biases change. Every edge has a weight of its own, every output a bias.
template <class Scalar>
struct TrainedLayer {
  SparseMatrix pattern;        ///< shape [outputs, inputs]; its values do not count
  std::vector<Scalar> weights; ///< by edge
  std::vector<double> bias;    ///< by output
  Activation activation;
};

/// Sums over the samples of a mini-batch, never -0.
template <class Scalar>
struct LayerGradient {
  std::vector<Scalar> weights; ///< by edge
  std::vector<Scalar> bias;    ///< by output
};

template <class Scalar>
struct Gradient {
  std::vector<LayerGradient<Scalar>> layers;
  LossSum loss;
};

/// The layers of a network with weights rounded to Scalar.
template <class Scalar>
std::vector<TrainedLayer<Scalar>> trained_layers(Network const& network);

/// The other way.
template <class Scalar>
Network to_network(std::vector<TrainedLayer<Scalar>> const& layers);

/// Sums over a mini-batch, by plain loops without Kokkos: the reference of all kernels that train. Row p of `samples`
/// is at position p of the mini-batch, which decides where it stands in the sums (network/leaf.hpp).
///   forward   x_l = as infer() computes it; all layers are kept
///   output    e_j = act'(x_j) * d loss / d x_j; exponentials, quotients and the loss in double, rounded once
///   backward  e_i = act'(x_i) * (fma-chain over the edges (j, i) of input i, by ascending j, of weight(j, i) * e_j)
///   gradient  g(j, i) = sum over positions of x_i * e_j: within a leaf chains of fma, bias(j) = sum of e_j likewise
/// act' is a function of the activation: 1 above zero and below the cap, else the slope; x (1 - x); 1 - x^2.
/// Throws what require_fit() throws.
template <class Scalar>
Gradient<Scalar> gradient_of(std::vector<TrainedLayer<Scalar>> const& layers, SampleSet const& samples,
                             Answers const& answers, Loss loss);

/// What weights take with them from step to step; one vector of numbers per moment.
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
  ReferenceTraining(Network const& network, Loss loss, Optimizer const& optimizer);

  /// One step with the samples of a mini-batch at this rate. Gives their loss before the step.
  LossSum step(SampleSet const& samples, Answers const& answers, double rate);

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
