#pragma once

/// \file
/// Samples judged by plain loops or exact arithmetic.

#include <varve/matrix.hpp>
#include <varve/network.hpp>
#include <varve/samples.hpp>

#include <limits>
#include <vector>

namespace varve::v0_3 {

/// The arithmetic in which samples are judged.
enum class Arithmetic {
  double_precision, ///< plain loops in double
  exact ///< sums, products and caps without rounding; weights, biases and samples are exactly the stored doubles
};

/// The judgement of one sample.
struct Verdict {
  bool is_alive = false; ///< some activation of the last layer is not 0
  /// No order of summation, merging of neurons or rounding can change is_alive in float.
  bool is_certain_in_float = false;
  /// The same in double.
  bool is_certain_in_double = false;
  /// Distance of the sample from the other category, in units of weighted sum plus bias. Only layers after which no
  /// layer revives a dead sample count. For a sample that died: minus the largest sum of the layer in which it died.
  /// For a survivor: the largest sum of each counted layer, and the least of these. (In a layer with identity, the
  /// largest absolute value.) 0 means that a threshold was met exactly; infinity means that the sample was dead before
  /// the first counted layer. In exact arithmetic where is_certain_in_double is false, the value is exact and then
  /// rounded; else it is accurate to double precision.
  double margin = std::numeric_limits<double>::infinity();
};

/// The judgement of all samples.
struct Verdicts {
  std::vector<Verdict> of_samples; ///< one for each sample
  CsrMatrix activations;           ///< if asked for: nonzero last activations [samples, outputs]
};

/// Judges samples by the plain loops or the exact arithmetic of `varve verify`, on the host: slowly, and independently
/// of all kernels. Throws InputError if the samples do not fit the network.
Verdicts judge(Network const& network, Samples const& samples, Arithmetic arithmetic = Arithmetic::exact,
               bool wants_activations = false);

} // namespace varve::v0_3
