#pragma once

#include "network/loss.hpp"
#include "network/sparse_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

namespace varve {

/// The wanted outputs of a batch. The loss cross-entropy and all counts of classes need labels. The loss mean square
/// takes targets; without targets it takes 1 at the output of the label and 0 elsewhere.
struct WantedOutcome {
  std::span<NeuronIndex const> labels;   ///< one per sample, each below the number of outputs; empty if unknown
  SparseMatrix const* targets = nullptr; ///< shape [samples, outputs]
};

/// Measures how well the last activations of a network fit labels or targets (Loss). Activations that are not stored
/// are 0; the predicted class of a sample is its largest output, the lowest of equal ones. All arithmetic is in double;
/// losses are added in the order of the samples, so the division into batches changes no bit.
class Evaluation {
public:
  /// A label is in the top if fewer than `top` outputs are larger, or equal with a lower index.
  Evaluation(std::size_t num_outputs, Loss loss, std::size_t top) : num_outputs_(num_outputs), loss_(loss), top_(top) {}

  /// Adds the next samples: activations of the shape [samples, outputs]. Computes on all host threads.
  void add(SparseMatrix const& activations, WantedOutcome const& wanted);

  LossSum const& sum() const { return sum_; }
  std::size_t num_in_top() const { return num_in_top_; } ///< samples whose label is in the top

  /// The number of samples by (label, predicted class); pairs without samples are absent.
  std::map<std::pair<NeuronIndex, NeuronIndex>, std::uint64_t> const& confusion() const { return confusion_; }

private:
  std::size_t num_outputs_;
  Loss loss_;
  std::size_t top_;
  LossSum sum_;
  std::size_t num_in_top_ = 0;
  std::map<std::pair<NeuronIndex, NeuronIndex>, std::uint64_t> confusion_;
};

} // namespace varve
