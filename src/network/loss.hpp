#pragma once

#include "core/types.hpp"
#include "network/sparse_matrix.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace varve {

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

} // namespace varve
