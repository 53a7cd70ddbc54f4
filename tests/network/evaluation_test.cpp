#include "network/loss.hpp"

#include "core/error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace varve {
namespace {

using Rows = std::vector<std::vector<double>>;

SparseMatrix sparse(Rows const& rows, std::size_t num_columns) {
  SparseMatrix matrix;
  matrix.num_rows = rows.size();
  matrix.num_columns = num_columns;
  for (auto const& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      if (row[column] == 0.0) continue;
      matrix.column_indices.push_back(static_cast<NeuronIndex>(column));
      matrix.values.push_back(row[column]);
    }
    matrix.row_pointers.push_back(matrix.num_entries());
  }
  return matrix;
}

/// The loss of a sample by the formula, in long double with the functions of C.
long double cross_entropy(std::vector<double> const& outputs, NeuronIndex label) {
  long double sum = 0.0;
  for (double const output : outputs) sum += std::exp(static_cast<long double>(output) - outputs[label]);
  return std::log(sum);
}

TEST(Evaluation, CountsByHand) {
  // largest: 1; 0 (the lower of equals); 2 (all others are negative); 0 (no output is positive)
  Rows const rows = {{1, 2, 0}, {3, 1, 3}, {-1, -2, 0}, {0, 0, -5}};
  std::vector<NeuronIndex> const labels = {1, 2, 1, 0};
  Evaluation evaluation(3, Loss::cross_entropy, 2);
  evaluation.add(sparse(rows, 3), {labels});
  EXPECT_EQ(evaluation.sum().num_samples, 4U);
  EXPECT_EQ(evaluation.sum().num_right, 2U);
  EXPECT_EQ(evaluation.num_in_top(), 3U); // all but sample 2, whose other two outputs are larger
  std::map<std::pair<NeuronIndex, NeuronIndex>, std::uint64_t> const confusion = {
      {{1, 1}, 1}, {{2, 0}, 1}, {{1, 2}, 1}, {{0, 0}, 1}};
  EXPECT_EQ(evaluation.confusion(), confusion);
  // log(e + e^2 + 1) - 2 + log(2 e^3 + e) - 3 + log(e^-1 + e^-2 + 1) + 2 + log(2 + e^-5)
  EXPECT_NEAR(evaluation.sum().loss, 0.40760596444438013 + 0.7586236756795133 + 2.4076059644443806 + 0.6965104917820788,
              1e-13);
  EXPECT_DOUBLE_EQ(evaluation.sum().accuracy(), 0.5);
}

TEST(Evaluation, CrossEntropyIsThatOfTheFormula) {
  std::mt19937_64 generator(1);
  std::normal_distribution<double> value(0.0, 10.0);
  for (std::size_t const num_outputs : {1U, 2U, 10U, 300U}) {
    Rows rows(600, std::vector<double>(num_outputs));
    std::vector<NeuronIndex> labels;
    long double expected = 0.0;
    for (auto& row : rows) {
      for (auto& output : row) output = generator() % 3 == 0 ? 0.0 : value(generator);
      labels.push_back(static_cast<NeuronIndex>(generator() % num_outputs));
      expected += cross_entropy(row, labels.back());
    }
    Evaluation evaluation(num_outputs, Loss::cross_entropy, 1);
    evaluation.add(sparse(rows, num_outputs), {labels});
    EXPECT_NEAR(evaluation.sum().loss, static_cast<double>(expected), 1e-12 * static_cast<double>(expected) + 1e-13);
    EXPECT_EQ(evaluation.num_in_top(), evaluation.sum().num_right);
  }
}

TEST(Evaluation, LargeActivationsDoNotOverflow) {
  Evaluation evaluation(2, Loss::cross_entropy, 1);
  std::vector<NeuronIndex> const labels = {0, 0};
  evaluation.add(sparse({{1e6, 1e6 - 3}, {-1e6, 1e6}}, 2), {labels});
  EXPECT_DOUBLE_EQ(evaluation.sum().loss, std::log1p(std::exp(-3.0)) + 2e6);
}

TEST(Evaluation, MeanSquareIsOverOutputsAndTakesTargetsBeforeLabels) {
  Rows const rows = {{1, 0, 0, 3}, {0, 0, 0, 0}};
  std::vector<NeuronIndex> const labels = {3, 1};
  Evaluation by_label(4, Loss::mean_square, 1);
  by_label.add(sparse(rows, 4), {labels});
  EXPECT_DOUBLE_EQ(by_label.sum().loss, (1.0 + 4.0) / 4 + 1.0 / 4);
  EXPECT_EQ(by_label.sum().num_right, 1U);

  auto const targets = sparse({{0.5, 0.25, 0, 3}, {0, 0, -2, 0}}, 4);
  Evaluation by_targets(4, Loss::mean_square, 1);
  by_targets.add(sparse(rows, 4), {labels, &targets});
  EXPECT_DOUBLE_EQ(by_targets.sum().loss, (0.25 + 0.0625) / 4 + 4.0 / 4);
  EXPECT_EQ(by_targets.sum().num_right, 1U);
  Evaluation without_labels(4, Loss::mean_square, 1);
  without_labels.add(sparse(rows, 4), {{}, &targets});
  EXPECT_EQ(without_labels.sum().loss, by_targets.sum().loss);
  EXPECT_EQ(without_labels.sum().num_right, 0U);
  EXPECT_TRUE(without_labels.confusion().empty());
}

TEST(Evaluation, LogisticAndHuberAreMeansOverOutputs) {
  Rows const rows = {{1, 0, -2}, {0, 30, 0.5}};
  auto const targets = sparse({{1, 0, 0}, {0.25, 1, 1}}, 3);
  auto const binary = [](double x, double target) { return std::log1p(std::exp(x)) - x * target; };
  Evaluation logistic(3, Loss::logistic, 1);
  logistic.add(sparse(rows, 3), {{}, &targets});
  EXPECT_NEAR(
      logistic.sum().loss,
      (binary(1, 1) + binary(0, 0) + binary(-2, 0) + binary(0, 0.25) + std::log1p(std::exp(-30.0)) + binary(0.5, 1)) /
          3,
      1e-15);
  Evaluation huber(3, {Loss::huber, 0.5}, 1);
  huber.add(sparse(rows, 3), {{}, &targets});
  EXPECT_DOUBLE_EQ(huber.sum().loss, (0.5 * 1.75 + 0.03125 + 0.5 * 28.75 + 0.125) / 3);
}

TEST(Evaluation, OneOutputTellsTwoClassesApartByLogistic) {
  std::vector<NeuronIndex> const labels = {0, 1, 1, 0, 1};
  Evaluation evaluation(1, Loss::logistic, 1);
  evaluation.add(sparse({{-2}, {3}, {0}, {1}, {1e-9}}, 1), {labels}); // 0 is class 0
  EXPECT_EQ(evaluation.sum().num_right, 3U);
  EXPECT_EQ(evaluation.num_in_top(), 3U);
  std::map<std::pair<NeuronIndex, NeuronIndex>, std::uint64_t> const confusion = {
      {{0, 0}, 1}, {{1, 1}, 2}, {{1, 0}, 1}, {{0, 1}, 1}};
  EXPECT_EQ(evaluation.confusion(), confusion);
  EXPECT_NEAR(evaluation.sum().loss,
              std::log1p(std::exp(-2.0)) + std::log1p(std::exp(-3.0)) + 2 * std::log(2.0) + std::log1p(std::exp(1.0)),
              1e-8);
}

TEST(Losses, HaveNamesAndPositiveDeltas) {
  for (auto const& entry : all_losses) EXPECT_EQ(parse_loss(entry.name).kind, entry.kind);
  EXPECT_EQ(parse_loss("huber", 0.25), Loss(Loss::huber, 0.25));
  for (double const delta : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")})
    EXPECT_THROW(parse_loss("huber", delta), UsageError);
  EXPECT_THROW(parse_loss("hinge"), UsageError);
}

TEST(Evaluation, BatchesChangeNoBit) {
  std::mt19937_64 generator(2);
  std::normal_distribution<double> value;
  Rows rows(1000, std::vector<double>(7));
  std::vector<NeuronIndex> labels;
  for (auto& row : rows) {
    for (auto& output : row) output = value(generator);
    labels.push_back(static_cast<NeuronIndex>(generator() % 7));
  }
  auto const activations = sparse(rows, 7);
  for (auto const& entry : all_losses) {
    Loss const loss = entry.kind;
    Evaluation whole(7, loss, 3);
    whole.add(activations, {labels});
    for (std::size_t const batch : {1U, 256U, 333U}) {
      Evaluation parts(7, loss, 3);
      for (std::size_t first = 0; first < 1000; first += batch) {
        auto const last = std::min<std::size_t>(first + batch, 1000);
        parts.add(rows_of(activations, first, last), {std::span(labels).subspan(first, last - first)});
      }
      EXPECT_EQ(parts.sum().loss, whole.sum().loss);
      EXPECT_EQ(parts.sum().num_right, whole.sum().num_right);
      EXPECT_EQ(parts.num_in_top(), whole.num_in_top());
      EXPECT_EQ(parts.confusion(), whole.confusion());
    }
  }
}

TEST(Evaluation, NeedsWhatItsLossIsOf) {
  auto const activations = sparse({{1, 2}}, 2);
  std::vector<NeuronIndex> const labels = {1, 0};
  EXPECT_THROW(Evaluation(2, Loss::cross_entropy, 1).add(activations, {labels}), std::logic_error);
  EXPECT_THROW(Evaluation(2, Loss::cross_entropy, 1).add(activations, {{}, &activations}), std::logic_error);
  EXPECT_THROW(Evaluation(2, Loss::mean_square, 1).add(activations, {}), std::logic_error);
  EXPECT_THROW(Evaluation(3, Loss::mean_square, 1).add(activations, {{}, &activations}), std::logic_error);
  Evaluation none(2, Loss::cross_entropy, 1);
  none.add(sparse({}, 2), {});
  EXPECT_EQ(none.sum().num_samples, 0U);
}

} // namespace
} // namespace varve
