#include "network/loss.hpp"

#include "core/elementary.hpp"
#include "core/error.hpp"
#include "core/host_threads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace varve {

void require_classes(Labels const& labels, std::size_t num_classes, std::string const& place) {
  auto const wrong = std::ranges::find_if(labels.classes, [&](NeuronIndex label) { return label >= num_classes; });
  if (wrong == labels.classes.end()) return;
  auto const sample = labels.first_sample + static_cast<SampleIndex>(wrong - labels.classes.begin());
  auto const found =
      *wrong == no_class ? fmt::format("a label of {} or more", no_class) : fmt::format("the label {}", *wrong);
  throw InputError(fmt::format("{}: sample {} has {}, expected 0 to {}, a class for each of {} outputs", place,
                               sample + 1, found, static_cast<long long>(num_classes) - 1, num_classes));
}

std::string to_string(Loss loss) { return loss == Loss::cross_entropy ? "cross-entropy" : "mean-square"; }

Loss parse_loss(std::string const& name) {
  for (auto const loss : {Loss::cross_entropy, Loss::mean_square})
    if (name == to_string(loss)) return loss;
  throw UsageError("there is no loss '" + name + "'; there are: cross-entropy, mean-square");
}

void require_fit(Answers const& answers, std::size_t num_samples, std::size_t num_outputs, Loss loss,
                 std::string const& place) {
  char const* const what = answers.are_labels() ? "labels" : "targets";
  if (answers.num_samples() != num_samples) {
    throw InputError(fmt::format("{}: found {} {} for {} samples, expected one each", place, answers.num_samples(),
                                 what, num_samples));
  }
  if (!answers.are_labels()) {
    if (loss == Loss::cross_entropy)
      throw UsageError(fmt::format("{} holds targets, but the loss cross-entropy needs labels", place));
    if (answers.values.num_columns != num_outputs) {
      throw InputError(fmt::format("{}: found targets of {} values, expected {}, the outputs of the network", place,
                                   answers.values.num_columns, num_outputs));
    }
    return;
  }
  auto const bad = std::ranges::find_if(answers.labels, [&](auto label) { return label >= num_outputs; });
  if (bad != answers.labels.end()) {
    throw InputError(fmt::format("{}: sample {} has the label {}, expected 0 to {}, the last output of the network",
                                 place, bad - answers.labels.begin() + 1, *bad,
                                 static_cast<long long>(num_outputs) - 1));
  }
}

namespace {

/// The outcome of one sample.
struct Score {
  double loss = 0.0;
  NeuronIndex predicted = 0;
  std::size_t rank = 0; ///< number of outputs that come before the label
};

/// Writes a row of a matrix to `values`, including its zeros.
void spread(SparseMatrix const& matrix, std::size_t row, std::vector<double>& values) {
  std::ranges::fill(values, 0.0);
  for (auto entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry)
    values[matrix.column_indices[entry]] = matrix.value(entry);
}

double cross_entropy(std::vector<double> const& outputs, NeuronIndex label) {
  double const most = *std::ranges::max_element(outputs);
  OutputSum sum;
  for (std::size_t output = 0; output < outputs.size(); ++output)
    sum.chain_of(output) += exponential(outputs[output] - most);
  return logarithm(sum.total()) - (outputs[label] - most);
}

/// The mean of the squared differences, added up by fma.
double mean_square(std::vector<double> const& outputs, std::vector<double> const& targets) {
  OutputSum sum;
  for (std::size_t output = 0; output < outputs.size(); ++output) {
    double const difference = outputs[output] - targets[output];
    sum.chain_of(output) = multiply_add(difference, difference, sum.chain_of(output));
  }
  return sum.total() / static_cast<double>(outputs.size());
}

std::size_t rank_of(std::vector<double> const& outputs, NeuronIndex label) {
  std::size_t rank = 0;
  for (std::size_t output = 0; output < outputs.size(); ++output)
    rank += outputs[output] > outputs[label] || (outputs[output] == outputs[label] && output < label) ? 1 : 0;
  return rank;
}

/// Computes the outcomes of samples one after the other; each thread has its own scorer.
class Scorer {
public:
  Scorer(SparseMatrix const& activations, WantedOutcome const& wanted, Loss loss)
      : activations_(activations),
        wanted_(wanted),
        loss_(loss),
        outputs_(activations.num_columns),
        targets_(activations.num_columns) {}

  Score score(std::size_t row) {
    Score score;
    spread(activations_, row, outputs_);
    score.predicted = static_cast<NeuronIndex>(std::ranges::max_element(outputs_) - outputs_.begin());
    if (!wanted_.labels.empty()) score.rank = rank_of(outputs_, wanted_.labels[row]);
    if (loss_ == Loss::cross_entropy) {
      score.loss = cross_entropy(outputs_, wanted_.labels[row]);
    } else {
      find_targets(row);
      score.loss = mean_square(outputs_, targets_);
    }
    return score;
  }

private:
  void find_targets(std::size_t row) {
    if (wanted_.targets != nullptr) return spread(*wanted_.targets, row, targets_);
    std::ranges::fill(targets_, 0.0);
    targets_[wanted_.labels[row]] = 1.0;
  }

  SparseMatrix const& activations_;
  WantedOutcome wanted_;
  Loss loss_;
  std::vector<double> outputs_;
  std::vector<double> targets_;
};

/// Throws std::logic_error unless each sample has the label or target that the loss needs.
void require_complete(std::size_t num_samples, WantedOutcome const& wanted, Loss loss) {
  bool const has_labels = wanted.labels.size() == num_samples;
  bool const has_targets = wanted.targets != nullptr && wanted.targets->num_rows == num_samples;
  VARVE_REQUIRE(has_labels || wanted.labels.empty(), "each sample needs a label, or none has one");
  VARVE_REQUIRE(has_targets || wanted.targets == nullptr, "each sample needs targets, or none has them");
  VARVE_REQUIRE(has_labels || (has_targets && loss == Loss::mean_square), "a loss needs labels or targets");
}

} // namespace

void Evaluation::add(SparseMatrix const& activations, WantedOutcome const& wanted) {
  VARVE_REQUIRE(activations.num_columns == num_outputs_, "activations of another network are evaluated");
  require_complete(activations.num_rows, wanted, loss_);
  constexpr std::size_t samples_at_a_time = 256;
  std::vector<Score> scores(activations.num_rows);
  for_each_on_host_threads((scores.size() + samples_at_a_time - 1) / samples_at_a_time, [&](std::size_t block) {
    Scorer scorer(activations, wanted, loss_);
    auto const last = std::min(scores.size(), (block + 1) * samples_at_a_time);
    for (auto row = block * samples_at_a_time; row < last; ++row) scores[row] = scorer.score(row);
  });
  for (std::size_t row = 0; row < scores.size(); ++row) {
    sum_.loss += scores[row].loss;
    if (wanted.labels.empty()) continue;
    sum_.num_right += scores[row].rank == 0 ? 1 : 0;
    num_in_top_ += scores[row].rank < top_ ? 1 : 0;
    ++confusion_[{wanted.labels[row], scores[row].predicted}];
  }
  sum_.num_samples += scores.size();
}

} // namespace varve
