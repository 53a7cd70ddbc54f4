#include <varve/evaluate.hpp>

#include "library/crossing.hpp"
#include "network/loss.hpp"
#include "reference/verdict.hpp"

#include <varve/verify.hpp>

namespace varve::v0_3 {

Evaluation evaluate(CsrMatrix const& activations, Answers const& answers, std::string const& loss, std::size_t top,
                    double delta) {
  auto const matrix = to_private(activations, "activations");
  if (!answers.weights.empty()) throw UsageError("an evaluation takes no weights of samples");
  auto const own_answers = to_private(answers, "targets");
  auto const own_loss = varve::parse_loss(loss, delta);
  varve::require_fit(own_answers, matrix.num_rows, matrix.num_columns, own_loss, "answers");
  varve::Evaluation evaluation(matrix.num_columns, own_loss, top);
  evaluation.add(matrix, {own_answers.labels, own_answers.are_labels() ? nullptr : &own_answers.values});
  Evaluation result;
  auto const& sum = evaluation.sum();
  result.num_samples = sum.num_samples;
  if (sum.num_samples > 0) result.loss = sum.mean();
  result.num_right = sum.num_right;
  result.num_in_top = evaluation.num_in_top();
  result.confusion = evaluation.confusion();
  return result;
}

Evaluation evaluate(PreparedNetwork& network, Samples const& samples, Answers const& answers, std::string const& loss,
                    std::size_t top, double delta) {
  return evaluate(network.infer(samples).activations, answers, loss, top, delta);
}

Verdicts judge(Network const& network, Samples const& samples, Arithmetic arithmetic, bool wants_activations) {
  if (samples.num_neurons() != network.num_inputs())
    throw InputError("the samples have " + std::to_string(samples.num_neurons()) + " values each, expected " +
                     std::to_string(network.num_inputs()) + ", the inputs of the network");
  auto own = varve::judge(*network.contents().source, samples.contents().set(), arithmetic, wants_activations);
  return {std::move(own.of_samples), std::move(own.activations.matrix)};
}

} // namespace varve::v0_3
