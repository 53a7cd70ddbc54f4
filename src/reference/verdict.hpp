#pragma once

#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <limits>
#include <vector>

namespace varve {

/// The arithmetic in which samples are judged.
enum class Arithmetic {
  double_precision, ///< the arithmetic of infer<double>()
  exact ///< sums, products and caps without rounding; weights, biases and samples are exactly the stored doubles
};

/// The judgement of one sample.
struct Verdict {
  bool is_alive = false; ///< true if some activation of the last layer is not 0

  /// True if, in this precision, no order of summation, merging of neurons or rounding can change is_alive (see
  /// Enclosure).
  bool is_certain_in_float = false;
  bool is_certain_in_double = false;

  /// Distance of the sample from the other category, in units of weighted sum plus bias. Only layers after which no
  /// layer revives a dead sample count. For a sample that died: minus the largest sum of the layer in which it died.
  /// For a survivor: the largest sum of each counted layer, and the least of these. (In a layer with identity, the
  /// largest absolute value.) 0 means that a threshold was met exactly; infinity means that the sample was dead before
  /// the first counted layer. In exact arithmetic where is_certain_in_double is false, the value is exact and then
  /// rounded; else it is accurate to double precision.
  double margin = std::numeric_limits<double>::infinity();
};

/// The judgement of a set of samples.
struct Verdicts {
  std::vector<Verdict> of_samples;
  SampleSet activations; ///< shape [samples, outputs]: the nonzero last activations, if asked for; else without rows
};

/// Judges samples. In exact arithmetic, bounds are computed first and only samples that they leave undecided are
/// computed in integers. Time and memory per such sample are at worst proportional to edges times the square of the
/// number of layers, and proportional to edges where activations are soon capped or dead. Activations in exact
/// arithmetic are accurate to 2^-40 of the sample's largest, or rounded from the exact ones; which of them are 0 is
/// exact. Reads each layer several times. Throws as infer() does.
Verdicts judge(NetworkSource const& network, SampleSet const& samples, Arithmetic arithmetic, bool wants_activations);

} // namespace varve
