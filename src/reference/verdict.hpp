#pragma once

#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <varve/verify.hpp>

#include <vector>

namespace varve {

using v0_3::Arithmetic; // double_precision: that of infer<double>()
using v0_3::Verdict;

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
