#pragma once

#include "apps/report.hpp"
#include "network/loss.hpp"

#include <cstddef>

namespace varve {

/// Facts about an evaluation that its report shows.
struct EvaluationFacts {
  std::size_t num_outputs = 0;
  Loss loss = Loss::cross_entropy;
  std::size_t top = 5; ///< as in Evaluation
  bool has_labels = false;
};

/// Loss, accuracy and confusion as JSON for a report. The confusion is a matrix with a row for each label and a column
/// for each predicted class, or null if there are more than 1000 outputs.
Json describe(Evaluation const& evaluation, EvaluationFacts const& facts);

/// Prints loss, accuracy and confusion: the whole matrix for up to 16 outputs, else the most frequent errors.
void print(Evaluation const& evaluation, EvaluationFacts const& facts);

} // namespace varve
