#pragma once

#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <limits>
#include <vector>

namespace varve {

/// By which a sample is judged.
enum class Arithmetic {
  double_precision, ///< infer<double>()
  exact             ///< the numbers of network and samples as stored, in double; sums, products, caps without rounding
};

/// What is true of one sample.
struct Verdict {
  bool is_alive = false; ///< some last activation is not 0

  /// In this precision no order of sums, merging of neurons or rounding can change is_alive (see Enclosure).
  bool is_certain_in_float = false;
  bool is_certain_in_double = false;

  /// How far the sample was from the other category, in units of weighted sum plus bias. What counts are the layers
  /// after which no layer revives a dead sample. Of a sample that died: minus the largest sum of the layer that it
  /// died in. Of a survivor: the largest sum of each such layer, and of these the least. (A layer with identity: the
  /// largest absolute value.) 0: a threshold was met exactly. Infinity: no such layer ever saw the sample alive.
  /// Exact, then rounded, in exact arithmetic where is_certain_in_double is false; else to double's accuracy.
  double margin = std::numeric_limits<double>::infinity();
};

/// What is true of samples.
struct Verdicts {
  std::vector<Verdict> of_samples;
  SampleSet activations; ///< [samples, outputs] the last ones that are not 0, if asked for; else without rows
};

/// Judges samples. In exact arithmetic, bounds come first; what they do not decide is computed in integers, in time and
/// memory per sample proportional to edges times the square of the number of layers, at worst, and proportional to
/// edges where activations are soon capped or dead. Activations in exact arithmetic are right to 2^-40 of the sample's
/// largest, or rounded from the exact ones; which of them are 0 is exact.
/// Asks for each layer several times. Throws as infer() does.
Verdicts judge(NetworkSource const& network, SampleSet const& samples, Arithmetic arithmetic, bool wants_activations);

} // namespace varve
