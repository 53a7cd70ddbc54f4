#pragma once

#include "core/elementary.hpp"
#include "core/types.hpp"
#include "network/sparse_matrix.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <type_traits>
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
///   cross-entropy: -log(softmax(x)[label]), where softmax(x)[j] = exp(x[j]) / sum of exp(x)
///   mean-square:   the mean over the outputs of (x[j] - target[j])^2
///   logistic:      the mean over the outputs of log(1 + exp(x[j])) - x[j] target[j], the binary cross-entropy of
///                  sigmoid(x[j]) and a target from 0 to 1
///   huber:         the mean over the outputs of d^2 / 2 if |d| <= delta, else delta (|d| - delta / 2), where
///                  d = x[j] - target[j]
/// A label means the target 1 at its output, 0 elsewhere. With logistic, one output distinguishes two classes: its
/// target is the label, 0 or 1, and class 1 is predicted where it is positive. The loss of several samples is the mean
/// of their losses.
struct Loss {
  enum Kind { cross_entropy, mean_square, logistic, huber };

  Kind kind = cross_entropy;
  double delta = 1.0; ///< for huber

  constexpr Loss() = default;
  constexpr Loss(Kind its_kind, double its_delta = 1.0) : kind(its_kind), delta(its_delta) {} ///< implicit

  /// The number of classes that a network of num_outputs outputs distinguishes.
  std::size_t num_classes(std::size_t num_outputs) const {
    return kind == logistic ? std::max<std::size_t>(num_outputs, 2) : num_outputs;
  }
  /// The class of the first output; the others follow. 1: class 0 has no output of its own, but 0 stands for it.
  VARVE_HOST_DEVICE constexpr NeuronIndex first_class(std::size_t num_outputs) const {
    return kind == logistic && num_outputs == 1 ? 1 : 0;
  }

  bool operator==(Loss const&) const = default;
};

/// The name of a loss and the answers that it needs.
struct LossEntry {
  Loss::Kind kind;
  char const* name;
  bool takes_targets; ///< or labels; else labels only
};
/// The entries of all losses, in the order of their kinds.
inline constexpr std::array all_losses = {
    LossEntry{Loss::cross_entropy, "cross-entropy", false},
    LossEntry{Loss::mean_square, "mean-square", true},
    LossEntry{Loss::logistic, "logistic", true},
    LossEntry{Loss::huber, "huber", true},
};

/// The entry of a loss.
constexpr LossEntry const& entry_of(Loss const& loss) { return all_losses[static_cast<std::size_t>(loss.kind)]; }
static_assert(std::ranges::all_of(all_losses, [](auto const& entry) { return &entry_of(entry.kind) == &entry; }));

/// The part of a loss that one output contributes, for the losses that take targets: x is its activation.
template <Loss::Kind kind>
struct LossOfOutput {
  double term;  ///< see added()
  double slope; ///< the number of outputs times the derivative of the sample's loss by x

  VARVE_HOST_DEVICE LossOfOutput(double x, double target, double delta) {
    [[maybe_unused]] double const difference = x - target;
    if constexpr (kind == Loss::logistic) {
      double const e = exponential(x < 0.0 ? x : -x);
      term = multiply_add(-x, target, x > 0.0 ? x : 0.0) + logarithm_of_one_plus(e);
      slope = (x > 0.0 ? 1.0 : e) / (1.0 + e) - target;
    } else if constexpr (kind == Loss::huber) {
      double const size = difference < 0.0 ? -difference : difference;
      term = size <= delta ? 0.5 * difference * difference : delta * (size - 0.5 * delta);
      slope = size <= delta ? difference : difference < 0.0 ? -delta : delta;
    } else {
      term = difference;
      slope = 2.0 * difference;
    }
  }
};

/// The sum with the term of one more output.
template <Loss::Kind kind>
VARVE_HOST_DEVICE inline double added(double sum, double term) {
  if constexpr (kind == Loss::mean_square) {
    return multiply_add(term, term, sum);
  } else {
    return sum + term;
  }
}

/// Host only: calls body with the kind as a constant, because compilers vectorize a loop over outputs only then.
template <class Body>
void with_kind(Loss const& loss, Body const& body) {
  switch (loss.kind) {
  case Loss::cross_entropy:
    return body(std::integral_constant<Loss::Kind, Loss::cross_entropy>());
  case Loss::mean_square:
    return body(std::integral_constant<Loss::Kind, Loss::mean_square>());
  case Loss::logistic:
    return body(std::integral_constant<Loss::Kind, Loss::logistic>());
  case Loss::huber:
    return body(std::integral_constant<Loss::Kind, Loss::huber>());
  }
}

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

/// The name: "cross-entropy", "mean-square", "logistic" or "huber".
inline std::string to_string(Loss const& loss) { return entry_of(loss).name; }

/// The loss with this name. Throws UsageError if there is none, or unless delta is a positive number.
Loss parse_loss(std::string const& name, double delta = 1.0);

/// The wanted outputs of samples: a label (a class) for each sample, or values; and what each sample counts.
struct Answers {
  std::vector<NeuronIndex> labels; ///< one per sample; empty if there are values
  SparseMatrix values = {};        ///< shape [samples, outputs]; without rows if there are labels
  /// One per sample, finite and not negative: its loss and the errors of its outputs are multiplied by it, while means
  /// still divide by the number of samples. Empty: all are 1.
  std::vector<double> weights = {};

  bool are_labels() const { return !labels.empty() || values.num_rows == 0; }
  std::size_t num_samples() const { return are_labels() ? labels.size() : values.num_rows; }
};

/// Throws InputError, naming `place`, the sample and the output, unless the loss takes these targets: logistic those
/// from 0 to 1. first_sample: number of the first row's sample within the whole input, from 0.
void require_targets(SparseMatrix const& targets, Loss const& loss, std::string const& place,
                     SampleIndex first_sample = 0);

/// Throws InputError, naming `place`, unless each of num_samples samples has an answer, each answer fits num_outputs
/// outputs and the loss, and weights are empty or one for each sample, finite and not negative; UsageError if the loss
/// needs labels but the answers are values.
void require_fit(Answers const& answers, std::size_t num_samples, std::size_t num_outputs, Loss const& loss,
                 std::string const& place);

/// The losses and right answers of some samples, summed.
struct LossSum {
  double loss = 0.0; ///< sum over samples, each times its weight
  std::size_t num_samples = 0;
  std::size_t num_right = 0; ///< samples whose predicted class (Evaluation) is their label

  double mean() const { return loss / static_cast<double>(num_samples); }
  double accuracy() const { return static_cast<double>(num_right) / static_cast<double>(num_samples); }
};

/// The wanted outputs of a batch. The loss cross-entropy and all counts of classes need labels. The other losses take
/// targets; without targets those that a label means (Loss).
struct WantedOutcome {
  std::span<NeuronIndex const> labels;   ///< one per sample, each below the number of classes; empty if unknown
  SparseMatrix const* targets = nullptr; ///< shape [samples, outputs]
};

/// Measures how well the last activations of a network fit labels or targets (Loss). Activations that are not stored
/// are 0; the predicted class of a sample is that of its largest output, the lowest of equal ones (logistic with one
/// output: Loss). All arithmetic is in double; losses are added in the order of the samples, so the division into
/// batches changes no bit.
class Evaluation {
public:
  /// A label is in the top if fewer than `top` classes have larger outputs, or equal ones and a lower index.
  Evaluation(std::size_t num_outputs, Loss const& loss, std::size_t top)
      : num_outputs_(num_outputs), loss_(loss), top_(top) {}

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
