#include "training/recipe.hpp"

#include "reference/training_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace varve {
namespace {

/// Two samples of three neurons: 0 0.5 0 and 0.25 0 0.5.
SampleSet two_samples() { return {{2, 3, {0, 1, 3}, {1, 0, 2}, {0.5, 0.25, 0.5}}, 0}; }
Answers two_labels() { return {{1, 0}, {}}; }
Network network() { return test::training_case({{3, 5, 2}, 2, 0.6}).network; }

TrainingData data_of(SampleSet const& samples, Answers const& answers,
                     Precision precision = Precision::double_precision) {
  return training_data_of(network(), samples, answers, precision);
}

TEST(TrainingData, DoNotDependOnHowTheyAreStored) {
  auto const expected = data_of(two_samples(), two_labels());
  EXPECT_EQ(expected.num_samples, 2U);
  auto stored = two_samples();
  stored.first_sample = 7;
  EXPECT_EQ(data_of(stored, two_labels()).samples, expected.samples);
  stored.matrix = {2, 3, {0, 2, 4}, {0, 1, 0, 2}, {0.0, 0.5, 0.25, 0.5}};
  EXPECT_EQ(data_of(stored, two_labels()).samples, expected.samples) << "zeros are stored";
  SampleSet const one_value{{2, 3, {0, 1, 2}, {1, 0}, {0.5}}, 0};
  SampleSet const two_values{{2, 3, {0, 1, 2}, {1, 0}, {0.5, 0.5}}, 0};
  EXPECT_EQ(data_of(one_value, two_labels()).samples, data_of(two_values, two_labels()).samples);
}

TEST(TrainingData, DifferInEveryNumberAndItsPlace) {
  auto const expected = data_of(two_samples(), two_labels());
  auto samples = two_samples();
  samples.matrix.values[0] = 0.75;
  EXPECT_NE(data_of(samples, two_labels()).samples, expected.samples);
  samples = two_samples();
  samples.matrix.column_indices[0] = 2;
  EXPECT_NE(data_of(samples, two_labels()).samples, expected.samples);
  samples = two_samples();
  samples.matrix.row_pointers[1] = 0;
  EXPECT_NE(data_of(samples, two_labels()).samples, expected.samples);
  EXPECT_NE(data_of(two_samples(), {{0, 1}, {}}).answers, expected.answers) << "labels swapped";
  Answers const targets{{}, {2, 2, {0, 1, 2}, {1, 0}, {1.0}}};
  EXPECT_NE(data_of(two_samples(), targets).answers, expected.answers) << "targets that mean the same";
  auto layers = network().layers();
  layers[1].bias[0] += 0.5;
  EXPECT_NE(training_data_of(Network(layers), two_samples(), two_labels(), Precision::double_precision).network,
            expected.network);
}

TEST(TrainingData, HaveThePrecisionOfTheTraining) {
  auto samples = two_samples();
  samples.matrix.values[0] += 1e-12; // less than float tells
  EXPECT_NE(data_of(samples, two_labels()).samples, data_of(two_samples(), two_labels()).samples);
  EXPECT_EQ(data_of(samples, two_labels(), Precision::single_precision).samples,
            data_of(two_samples(), two_labels(), Precision::single_precision).samples);
}

} // namespace
} // namespace varve
