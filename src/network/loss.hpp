#pragma once

#include "core/types.hpp"
#include "network/sparse_matrix.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace varve {

/// The class of each sample. Classes count from 0; class c belongs to output c of a network, whose activation should be
/// the largest for the samples of this class.
struct Labels {
  std::vector<NeuronIndex> classes; ///< one per sample
  SampleIndex first_sample = 0;     ///< number of the sample that classes[0] belongs to, within the whole input, from 0

  std::size_t num_samples() const { return classes.size(); }

  bool operator==(Labels const&) const = default;
};

/// No class: networks have fewer outputs. Larger numbers in files become this one.
constexpr NeuronIndex no_class = std::numeric_limits<NeuronIndex>::max();

/// Throws InputError, naming `place` and the sample, unless every class is below `num_classes`.
void require_classes(Labels const& labels, std::size_t num_classes, std::string const& place);

/// The function that training minimizes, of the last activations x of a sample:
///   cross-entropy: -log(softmax(x)[label]), where softmax(x)[j] = exp(x[j]) / sum of exp(x);
///   mean square:   the mean over the outputs of (x[j] - target[j])^2, where a label means 1 at its output, 0
///   elsewhere.
/// The loss of several samples is the mean of their losses.
enum class Loss { cross_entropy, mean_square };

/// The sum of a number per output of a sample, in double, as every backend adds it: number j belongs to chain
/// j mod kOutputChains; chains i and i + d are added for d = kOutputChains / 2, ..., 2, 1.
inline constexpr int kOutputChains = 32;
class OutputSum {
public:
  /// The chain to which output j adds its number.
  double& chain_of(std::size_t j) { return chains_[j % kOutputChains]; }
  double total() const {
    auto sums = chains_;
    for (std::size_t distance = kOutputChains / 2; distance > 0; distance /= 2)
      for (std::size_t i = 0; i < distance; ++i) sums[i] += sums[i + distance];
    return sums[0];
  }

private:
  std::array<double, kOutputChains> chains_{};
};

/// "cross-entropy" or "mean-square".
std::string to_string(Loss loss);

/// The loss with this name. Throws UsageError if there is none.
Loss parse_loss(std::string const& name);

/// The wanted outputs of samples: a label (index of an output) for each sample, or values.
struct Answers {
  std::vector<NeuronIndex> labels; ///< one per sample; empty if there are values
  SparseMatrix values;             ///< shape [samples, outputs]; without rows if there are labels

  bool are_labels() const { return !labels.empty() || values.num_rows == 0; }
  std::size_t num_samples() const { return are_labels() ? labels.size() : values.num_rows; }
};

/// Throws InputError, naming `place`, unless each of num_samples samples has an answer and each answer fits num_outputs
/// outputs; UsageError if the loss needs labels but the answers are values.
void require_fit(Answers const& answers, std::size_t num_samples, std::size_t num_outputs, Loss loss,
                 std::string const& place);

/// The losses and right answers of some samples, summed.
struct LossSum {
  double loss = 0.0; ///< sum over samples
  std::size_t num_samples = 0;
  std::size_t num_right = 0; ///< samples whose largest output (the lowest of equal ones) is their label

  double mean() const { return loss / static_cast<double>(num_samples); }
  double accuracy() const { return static_cast<double>(num_right) / static_cast<double>(num_samples); }
};

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
