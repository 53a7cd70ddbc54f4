#include "apps/evaluation_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

constexpr std::size_t most_described = 1000; // most outputs of a confusion matrix in a report
constexpr std::size_t most_printed = 16;     // most outputs of a confusion matrix on the terminal
constexpr std::size_t most_errors = 10;

double part(std::size_t count, std::size_t all) {
  return all == 0 ? 0.0 : static_cast<double>(count) / static_cast<double>(all);
}

using Matrix = std::vector<std::vector<std::uint64_t>>;

/// The confusion with a row for each label and a column for each predicted class.
Matrix matrix_of(Evaluation const& evaluation, std::size_t num_outputs) {
  Matrix matrix(num_outputs, std::vector<std::uint64_t>(num_outputs, 0));
  for (auto const& [classes, count] : evaluation.confusion()) matrix[classes.first][classes.second] = count;
  return matrix;
}

void print_matrix(Matrix const& matrix) {
  std::size_t width = 5;
  for (auto const& row : matrix) {
    for (auto const count : row) width = std::max(width, fmt::formatted_size("{}", count) + 1);
  }
  fmt::print("confusion rows: labels, columns: predicted classes\n{:>7}", "");
  for (std::size_t column = 0; column < matrix.size(); ++column) fmt::print("{:>{}}", column, width);
  fmt::print("   right\n");
  for (std::size_t label = 0; label < matrix.size(); ++label) {
    std::uint64_t all = 0;
    fmt::print("{:>7}", label);
    for (auto const count : matrix[label]) {
      fmt::print("{:>{}}", count, width);
      all += count;
    }
    fmt::print("{:>8}\n", all == 0 ? "-" : fmt::format("{:.1f} %", 100.0 * part(matrix[label][label], all)));
  }
}

void print_errors(Evaluation const& evaluation) {
  std::vector<std::pair<std::uint64_t, std::pair<NeuronIndex, NeuronIndex>>> errors;
  for (auto const& [classes, count] : evaluation.confusion())
    if (classes.first != classes.second) errors.emplace_back(count, classes);
  if (errors.empty()) return;
  auto const comes_first = [](auto const& left, auto const& right) {
    return left.first != right.first ? left.first > right.first : left.second < right.second;
  };
  std::ranges::sort(errors, comes_first);
  fmt::print("confusion the most frequent of {} kinds of errors\n", errors.size());
  for (std::size_t i = 0; i < std::min(most_errors, errors.size()); ++i) {
    auto const& [count, classes] = errors[i];
    fmt::print("  label {} taken for {}: {} samples\n", classes.first, classes.second, count);
  }
}

} // namespace

Json describe(Evaluation const& evaluation, EvaluationFacts const& facts) {
  auto const& sum = evaluation.sum();
  Json json = {{"samples", sum.num_samples}, {"loss", {{"name", to_string(facts.loss)}, {"mean", sum.mean()}}}};
  if (!facts.has_labels) return json;
  json["accuracy"] = sum.accuracy();
  json["right"] = sum.num_right;
  json["top"] = {{"outputs", facts.top}, {"accuracy", part(evaluation.num_in_top(), sum.num_samples)}};
  json["confusion"] = Json();
  if (facts.num_outputs <= most_described) json["confusion"] = matrix_of(evaluation, facts.num_outputs);
  return json;
}

void print(Evaluation const& evaluation, EvaluationFacts const& facts) {
  auto const& sum = evaluation.sum();
  fmt::print("loss      {:.9g} ({})\n", sum.mean(), to_string(facts.loss));
  if (!facts.has_labels) return;
  fmt::print("accuracy  {:.6g} ({} of {} samples)\n", sum.accuracy(), sum.num_right, sum.num_samples);
  fmt::print("top {:<6}{:.6g} ({} of {} samples)\n", facts.top, part(evaluation.num_in_top(), sum.num_samples),
             evaluation.num_in_top(), sum.num_samples);
  if (facts.num_outputs <= most_printed) {
    print_matrix(matrix_of(evaluation, facts.num_outputs));
  } else {
    print_errors(evaluation);
  }
}

} // namespace varve
