#pragma once

/// \file
/// Loss, accuracy and confusion of last activations.

#include <varve/inference.hpp>
#include <varve/samples.hpp>
#include <varve/types.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace varve::v0_3 {

/// How well last activations fit labels or targets. Losses are those of `varve evaluate`, in double.
struct Evaluation {
  std::size_t num_samples = 0; ///< samples that were evaluated
  double loss = 0.0;           ///< mean over the samples
  std::size_t num_right = 0;   ///< samples whose predicted class is their label
  std::size_t num_in_top = 0;  ///< samples whose label is among the classes of the `top` largest outputs
  /// The number of samples by (label, predicted class); pairs without samples are absent.
  std::map<std::pair<NeuronIndex, NeuronIndex>, std::uint64_t> confusion;

  /// Share of samples whose predicted class is their label.
  double accuracy() const { return static_cast<double>(num_right) / static_cast<double>(num_samples); }
};

/// Evaluates activations [samples, outputs]. loss: "cross-entropy", which needs labels, "mean-square", "logistic" (of
/// targets from 0 to 1) or "huber" with this delta. The predicted class of a sample is its largest output, the lowest
/// of equal ones; with the loss logistic and one output it is 1 where that is positive, else 0. Throws UsageError about
/// the loss, InputError if answers and activations do not fit.
Evaluation evaluate(CsrMatrix const& activations, Answers const& answers, std::string const& loss = "cross-entropy",
                    std::size_t top = 5, double delta = 1.0);

/// Runs samples and evaluates their activations.
Evaluation evaluate(PreparedNetwork& network, Samples const& samples, Answers const& answers,
                    std::string const& loss = "cross-entropy", std::size_t top = 5, double delta = 1.0);

} // namespace varve::v0_3
