#pragma once

#include "network/network.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace varve {

/// The step of a weight w from its gradient g = (sum over the mini-batch) / (samples of the mini-batch) + l2 * w:
///   sgd:      w -= rate * g
///   momentum: v = momentum * v + g, w -= rate * v
///   nesterov: v = momentum * v + g, w -= rate * (momentum * v + g)
///   adam:     m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g^2,
///             w -= rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon), where t counts steps from 1
///   adamw:    w -= rate * l2 * w, then the step of adam from the gradient without l2 * w
/// Sources: Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013; Kingma and Ba,
/// "Adam: a method for stochastic optimization", 2014; Loshchilov and Hutter, "Decoupled weight decay regularization",
/// 2019. Biases take the same steps in double, without l2. docs/numerics.md says where each operation rounds.
enum class OptimizerKind { sgd, momentum, nesterov, adam, adamw };

/// The name of an optimizer and what it needs.
struct OptimizerEntry {
  OptimizerKind kind;
  char const* name;
  double rate;      ///< the learning rate where none is given
  int num_moments;  ///< numbers kept per weight: 0, 1 (v) or 2 (m and v)
  bool is_adaptive; ///< steps are divided by sqrt(v) + epsilon: no weight shows that v is infinite
};
/// The entries of all optimizers, in the order of their kinds.
inline constexpr std::array all_optimizers = {
    OptimizerEntry{OptimizerKind::sgd, "sgd", 0.05, 0, false},
    OptimizerEntry{OptimizerKind::momentum, "momentum", 0.05, 1, false},
    OptimizerEntry{OptimizerKind::nesterov, "nesterov", 0.05, 1, false},
    OptimizerEntry{OptimizerKind::adam, "adam", 0.001, 2, true},
    OptimizerEntry{OptimizerKind::adamw, "adamw", 0.001, 2, true},
};

/// The entry of an optimizer.
constexpr OptimizerEntry const& entry_of(OptimizerKind kind) { return all_optimizers[static_cast<std::size_t>(kind)]; }
static_assert(std::ranges::all_of(all_optimizers, [](auto const& entry) { return &entry_of(entry.kind) == &entry; }));

/// The name: "sgd", "momentum", "nesterov", "adam" or "adamw".
inline std::string to_string(OptimizerKind kind) { return entry_of(kind).name; }

/// The optimizer with this name. Throws UsageError if there is none.
OptimizerKind parse_optimizer(std::string const& name);

/// An optimizer with its parameters; each kind uses those in its formula.
struct Optimizer {
  OptimizerKind kind = OptimizerKind::sgd;
  double momentum = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double l2 = 0.0;

  bool is_adaptive() const { return entry_of(kind).is_adaptive; }
  int num_moments() const { return entry_of(kind).num_moments; }

  bool operator==(Optimizer const&) const = default;
};

/// Throws UsageError, naming the number, unless momentum and betas lie in [0, 1), epsilon is positive and l2 is not
/// negative.
void require_valid(Optimizer const& optimizer);

/// The moments of all weights and biases, and the number of steps taken.
struct OptimizerState {
  struct OfLayer {
    std::vector<std::vector<double>> weights; ///< [moment][edge in the network's order]; values of the precision
    std::vector<std::vector<double>> bias;    ///< [moment][output]
    bool operator==(OfLayer const&) const = default;
  };
  std::vector<OfLayer> layers;
  std::uint64_t num_steps = 0;

  bool operator==(OptimizerState const&) const = default;
};

/// The factors of one step, rounded to the precision.
template <class Scalar>
struct UpdateFactors {
  Scalar inverse_batch; ///< 1 / samples
  Scalar l2;            ///< 0 for AdamW
  Scalar decay;         ///< rate * l2 for AdamW, else 0
  Scalar rate;          ///< the rate; for Adam and AdamW divided by 1 - beta1^t
  Scalar momentum;
  Scalar beta1, rest1; ///< rest1 = 1 - beta1
  Scalar beta2, rest2;
  Scalar root_correction; ///< sqrt(1 - beta2^t)
  Scalar epsilon;
};

/// The factors of step `step` (from 1), each computed in double and rounded once.
template <class Scalar>
UpdateFactors<Scalar> update_factors(Optimizer const& optimizer, double rate, std::size_t num_samples,
                                     std::uint64_t step);

/// The factors of the same step of biases, which do not decay.
UpdateFactors<double> bias_update_factors(Optimizer optimizer, double rate, std::size_t num_samples,
                                          std::uint64_t step);
extern template UpdateFactors<float> update_factors(Optimizer const&, double, std::size_t, std::uint64_t);
extern template UpdateFactors<double> update_factors(Optimizer const&, double, std::size_t, std::uint64_t);

/// Throws InputError unless the state has the moments of this optimizer for every edge and output of the layers.
void require_shape(OptimizerState const& state, std::vector<Layer> const& layers, Optimizer const& optimizer);

} // namespace varve
