#include "network/loss.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "network/activation.hpp"

#include <fmt/ranges.h>

#include <cmath>

namespace varve {

void require_classes(Labels const& labels, std::size_t num_classes, std::string const& place) {
  auto const wrong = std::ranges::find_if(labels.classes, [&](NeuronIndex label) { return label >= num_classes; });
  if (wrong == labels.classes.end()) return;
  auto const sample = labels.first_sample + static_cast<SampleIndex>(wrong - labels.classes.begin());
  auto const found =
      *wrong == no_class ? fmt::format("a label of {} or more", no_class) : fmt::format("the label {}", *wrong);
  fail<InputError>("{}: sample {} has {}, expected 0 to {}, one of {} classes", place, sample + 1, found,
                   static_cast<long long>(num_classes) - 1, num_classes);
}

Loss parse_loss(std::string const& name, double delta) {
  if (!(delta > 0.0 && std::isfinite(delta)))
    fail<UsageError>("delta of the loss huber is {}, expected a positive number", delta);
  for (auto const& entry : all_losses)
    if (name == entry.name) return {entry.kind, delta};
  fail<UsageError>("there is no loss '{}'; there are: {}", name, fmt::join(names_of(all_losses), ", "));
}

void require_targets(SparseMatrix const& targets, Loss const& loss, std::string const& place,
                     SampleIndex first_sample) {
  if (loss.kind != Loss::logistic) return;
  for (std::size_t row = 0; row < targets.num_rows; ++row)
    for (auto entry = targets.row_pointers[row]; entry < targets.row_pointers[row + 1]; ++entry)
      if (double const target = targets.value(entry); !(target >= 0.0 && target <= 1.0))
        fail<InputError>("{}: sample {} has the target {} for output {}, expected 0 to 1 with the loss logistic", place,
                         first_sample + row + 1, target, targets.column_indices[entry]);
}

namespace {

/// Throws InputError unless there are no weights, or one that is finite and not negative for each sample.
void require_weights(std::vector<double> const& weights, std::size_t num_samples, std::string const& place) {
  if (!weights.empty() && weights.size() != num_samples)
    fail<InputError>("{}: found {} weights for {} samples, expected one each", place, weights.size(), num_samples);
  auto const bad =
      std::ranges::find_if(weights, [](double weight) { return !(weight >= 0.0 && std::isfinite(weight)); });
  if (bad != weights.end())
    fail<InputError>("{}: sample {} has the weight {}, expected 0 or a positive number", place,
                     bad - weights.begin() + 1, *bad);
}

/// The outcome of one sample.
struct Score {
  double loss = 0.0;
  NeuronIndex predicted = 0;
  std::size_t rank = 0; ///< number of classes that come before the label
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

/// The mean over the outputs of a loss that takes targets.
double mean_of(Loss const& loss, std::vector<double> const& outputs, std::vector<double> const& targets) {
  OutputSum sum;
  with_kind(loss, [&](auto kind) {
    for (std::size_t output = 0; output < outputs.size(); ++output) {
      LossOfOutput<decltype(kind)::value> const found(outputs[output], targets[output], loss.delta);
      sum.chain_of(output) = added<decltype(kind)::value>(sum.chain_of(output), found.term);
    }
  });
  return sum.total() / static_cast<double>(outputs.size());
}

/// The number of classes that come before the label. of_class: the output of each class.
std::size_t rank_of(std::span<double const> of_class, NeuronIndex label) {
  std::size_t rank = 0;
  for (std::size_t other = 0; other < of_class.size(); ++other)
    rank += of_class[other] > of_class[label] || (of_class[other] == of_class[label] && other < label) ? 1 : 0;
  return rank;
}

/// Computes the outcomes of samples one after the other; each thread has its own scorer.
class Scorer {
public:
  Scorer(SparseMatrix const& activations, WantedOutcome const& wanted, Loss const& loss)
      : activations_(activations),
        wanted_(wanted),
        loss_(loss),
        outputs_(activations.num_columns),
        targets_(activations.num_columns) {}

  Score score(std::size_t row) {
    Score score;
    spread(activations_, row, outputs_);
    std::array const of_two = {0.0, outputs_.empty() ? 0.0 : outputs_.front()};
    std::span<double const> const of_class =
        loss_.first_class(outputs_.size()) == 0 ? std::span<double const>(outputs_) : std::span<double const>(of_two);
    score.predicted = static_cast<NeuronIndex>(std::ranges::max_element(of_class) - of_class.begin());
    if (!wanted_.labels.empty()) score.rank = rank_of(of_class, wanted_.labels[row]);
    if (loss_.kind == Loss::cross_entropy) {
      score.loss = cross_entropy(outputs_, wanted_.labels[row]);
    } else {
      find_targets(row);
      score.loss = mean_of(loss_, outputs_, targets_);
    }
    return score;
  }

private:
  void find_targets(std::size_t row) {
    if (wanted_.targets != nullptr) return spread(*wanted_.targets, row, targets_);
    std::ranges::fill(targets_, 0.0);
    auto const first = loss_.first_class(targets_.size());
    if (wanted_.labels[row] >= first) targets_[wanted_.labels[row] - first] = 1.0;
  }

  SparseMatrix const& activations_;
  WantedOutcome wanted_;
  Loss loss_;
  std::vector<double> outputs_;
  std::vector<double> targets_;
};

/// Throws std::logic_error unless each sample has the label or target that the loss needs.
void require_complete(std::size_t num_samples, WantedOutcome const& wanted, Loss const& loss) {
  bool const has_labels = wanted.labels.size() == num_samples;
  bool const has_targets = wanted.targets != nullptr && wanted.targets->num_rows == num_samples;
  VARVE_REQUIRE(has_labels || wanted.labels.empty(), "each sample needs a label, or none has one");
  VARVE_REQUIRE(has_targets || wanted.targets == nullptr, "each sample needs targets, or none has them");
  VARVE_REQUIRE(has_labels || (has_targets && entry_of(loss).takes_targets), "a loss needs labels or targets");
}

} // namespace

void require_fit(Answers const& answers, std::size_t num_samples, std::size_t num_outputs, Loss const& loss,
                 std::string const& place) {
  char const* const what = answers.are_labels() ? "labels" : "targets";
  if (answers.num_samples() != num_samples)
    fail<InputError>("{}: found {} {} for {} samples, expected one each", place, answers.num_samples(), what,
                     num_samples);
  require_weights(answers.weights, num_samples, place);
  if (!answers.are_labels()) {
    if (!entry_of(loss).takes_targets)
      fail<UsageError>("{} holds targets, but the loss {} needs labels", place, to_string(loss));
    if (answers.values.num_columns != num_outputs)
      fail<InputError>("{}: found targets of {} values, expected {}, the outputs of the network", place,
                       answers.values.num_columns, num_outputs);
    return require_targets(answers.values, loss, place);
  }
  auto const num_classes = loss.num_classes(num_outputs);
  auto const bad = std::ranges::find_if(answers.labels, [&](auto label) { return label >= num_classes; });
  if (bad != answers.labels.end())
    fail<InputError>("{}: sample {} has the label {}, expected 0 to {}, the last class of the network", place,
                     bad - answers.labels.begin() + 1, *bad, static_cast<long long>(num_classes) - 1);
}

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
