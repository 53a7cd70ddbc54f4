#include "network/sparse_matrix.hpp"

#include "core/error.hpp"
#include "network/sample_set.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace varve {
namespace {

/// 4 rows, the third one empty:  . 1 . 2 / 3 . . . / . . . . / . . 4 5
SparseMatrix sample_matrix() {
  return {.num_rows = 4,
          .num_columns = 4,
          .row_pointers = {0, 2, 3, 3, 5},
          .column_indices = {1, 3, 0, 2, 3},
          .values = {1.0, 2.0, 3.0, 4.0, 5.0}};
}

/// What require_valid() says about the sample matrix after a change, or nothing.
std::string complaint_after(std::function<void(SparseMatrix&)> const& change) {
  auto matrix = sample_matrix();
  change(matrix);
  try {
    require_valid(matrix, "layer 7");
  } catch (InputError const& error) {
    return error.what();
  }
  return "";
}

TEST(SparseMatrix, StoresEqualValuesOnce) {
  auto matrix = sample_matrix();
  matrix.values.assign(5, 0.25);
  make_iso_if_equal(matrix);
  EXPECT_EQ(matrix.values, std::vector{0.25});
  EXPECT_TRUE(matrix.is_iso());
  EXPECT_EQ(matrix.value(4), 0.25);
}

TEST(SparseMatrix, LeavesValuesThatDifferInTheLastOne) {
  auto matrix = sample_matrix();
  matrix.values = {1.0, 1.0, 1.0, 1.0, std::nextafter(1.0, 2.0)};
  auto const before = matrix;
  make_iso_if_equal(matrix);
  EXPECT_EQ(matrix, before);
  EXPECT_FALSE(matrix.is_iso());
}

TEST(SparseMatrix, TellsZerosOfDifferentSignApart) {
  auto matrix = sample_matrix();
  matrix.values = {0.0, 0.0, -0.0, 0.0, 0.0};
  make_iso_if_equal(matrix);
  EXPECT_EQ(matrix.values.size(), 5U);
}

TEST(SparseMatrix, OneEntryIsNotIso) {
  SparseMatrix matrix{.num_rows = 1, .num_columns = 3, .row_pointers = {0, 1}, .column_indices = {2}, .values = {7.0}};
  make_iso_if_equal(matrix);
  EXPECT_EQ(matrix.values, std::vector{7.0});
  EXPECT_FALSE(matrix.is_iso());
}

TEST(SparseMatrix, CutsRows) {
  SparseMatrix const expected{.num_rows = 3,
                              .num_columns = 4,
                              .row_pointers = {0, 1, 1, 3},
                              .column_indices = {0, 2, 3},
                              .values = {3.0, 4.0, 5.0}};
  EXPECT_EQ(rows_of(sample_matrix(), 1, 4), expected);
  EXPECT_EQ(rows_of(sample_matrix(), 0, 4), sample_matrix());
}

TEST(SparseMatrix, CutsRowsOfIsoMatrix) {
  auto matrix = sample_matrix();
  matrix.values = {0.5};
  auto const part = rows_of(matrix, 0, 2);
  EXPECT_EQ(part.values, std::vector{0.5});
  EXPECT_EQ(part.column_indices, (std::vector<NeuronIndex>{1, 3, 0}));
  require_valid(part, "part");
}

TEST(SparseMatrix, CutsNoRows) {
  auto const part = rows_of(sample_matrix(), 2, 2);
  EXPECT_EQ(part.num_rows, 0U);
  EXPECT_EQ(part.num_columns, 4U);
  EXPECT_EQ(part.num_entries(), 0U);
  require_valid(part, "part");
}

TEST(SparseMatrix, RefusesRowsOutside) {
  EXPECT_THROW(rows_of(sample_matrix(), 3, 5), std::logic_error);
  EXPECT_THROW(rows_of(sample_matrix(), 2, 1), std::logic_error);
}

TEST(SparseMatrix, SamplesKeepTheirNumbers) {
  SampleSet const samples{sample_matrix(), 100};
  auto const part = samples_of(samples, 1, 3);
  EXPECT_EQ(part.first_sample, 101U);
  EXPECT_EQ(part.num_samples(), 2U);
  EXPECT_EQ(part.num_neurons(), 4U);
}

TEST(SparseMatrix, AcceptsWhatIsValid) {
  EXPECT_EQ(complaint_after([](SparseMatrix&) {}), "");
  EXPECT_EQ(complaint_after([](SparseMatrix& matrix) { matrix.values = {1.0}; }), "");
  require_valid(SparseMatrix{}, "nothing");
}

TEST(SparseMatrix, NamesWhatIsWrong) {
  auto const wrong_count =
      "layer 7: the row pointers must be one more than the 4 rows, from 0 to the number of entries, 5";
  EXPECT_EQ(complaint_after([](SparseMatrix& matrix) { matrix.row_pointers.pop_back(); }), wrong_count);
  EXPECT_EQ(complaint_after([](SparseMatrix& matrix) { matrix.row_pointers.front() = 1; }), wrong_count);
  EXPECT_EQ(complaint_after([](SparseMatrix& matrix) { matrix.row_pointers.back() = 4; }), wrong_count);
  EXPECT_EQ(complaint_after([](SparseMatrix& matrix) { matrix.row_pointers.clear(); }), wrong_count);
  EXPECT_EQ(complaint_after([](SparseMatrix& matrix) { matrix.values.pop_back(); }),
            "layer 7: 4 values for 5 entries (expected one each, or one for all)");
  EXPECT_EQ(complaint_after([](SparseMatrix& matrix) { matrix.row_pointers[2] = 1; }),
            "layer 7: the row pointer after row 1 is 1, expected 2 to 5");
  EXPECT_EQ(complaint_after([](SparseMatrix& matrix) { matrix.row_pointers[1] = 9; }),
            "layer 7: the row pointer after row 0 is 9, expected 0 to 5");
  EXPECT_EQ(complaint_after([](SparseMatrix& matrix) { matrix.column_indices[2] = 4; }),
            "layer 7: row 1 has column index 4, expected 0 to 3");
  EXPECT_EQ(complaint_after([](SparseMatrix& matrix) { matrix.column_indices[4] = 2; }),
            "layer 7: row 3 has column index 2 after 2; indices must ascend and be distinct");
  EXPECT_EQ(complaint_after([](SparseMatrix& matrix) { matrix.column_indices[1] = 0; }),
            "layer 7: row 0 has column index 0 after 1; indices must ascend and be distinct");
  EXPECT_EQ(complaint_after([](SparseMatrix& matrix) { matrix.values[3] = std::numeric_limits<double>::infinity(); }),
            "layer 7: entry 3 has the value inf, expected a finite number");
  EXPECT_NE(complaint_after([](SparseMatrix& matrix) { matrix.values[0] = std::nan(""); }), "");
}

/// A dense matrix of 300 x 700 numbers, half of them 0 or -0 at random places, some smaller than normal numbers.
template <class Scalar>
std::vector<Scalar> dense_numbers() {
  std::vector<Scalar> numbers(std::size_t{300} * 700);
  std::uint64_t state = 1;
  for (auto& number : numbers) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    auto const drawn = static_cast<double>(state >> 40U) / 8388608.0 - 1.0; // [-1, 1)
    number = static_cast<Scalar>((state >> 20U) % 2 == 0   ? 0.0 * drawn
                                 : (state >> 24U) % 9 == 0 ? 1e-40 * drawn
                                                           : drawn);
  }
  return numbers;
}

template <class Scalar>
SparseMatrix compressed_rows(std::vector<Scalar> const& numbers, Precision precision = Precision::double_precision) {
  auto const fail = [](std::size_t row, std::size_t column) {
    throw InputError(std::to_string(row) + " " + std::to_string(column));
  };
  return compressed(std::span<Scalar const>(numbers), 300, 700, precision, fail);
}

template <class Scalar>
void expect_nonzeros_of_each_row() {
  auto const numbers = dense_numbers<Scalar>();
  SparseMatrix expected{300, 700, {0}, {}, {}};
  for (std::size_t place = 0; place < numbers.size(); ++place) {
    if (numbers[place] != Scalar{0}) {
      expected.column_indices.push_back(static_cast<NeuronIndex>(place % 700));
      expected.values.push_back(numbers[place]);
    }
    if (place % 700 == 699) expected.row_pointers.push_back(expected.column_indices.size());
  }
  EXPECT_EQ(compressed_rows(numbers), expected);
}

TEST(SparseMatrix, HoldsTheNonzerosOfADenseMatrix) {
  expect_nonzeros_of_each_row<float>();
  expect_nonzeros_of_each_row<double>();
  EXPECT_EQ(compressed_rows(std::vector<float>(210000, 2.0F)).values, std::vector<double>{2.0});
  EXPECT_EQ(compressed_rows(std::vector<float>(210000)).num_entries(), 0U);
}

TEST(SparseMatrix, HoldsFiniteNumbersOfADenseMatrixOnly) {
  auto const place_of = [](std::vector<double> const& numbers, Precision precision) -> std::string {
    try {
      compressed_rows(numbers, precision);
    } catch (InputError const& error) {
      return error.what();
    }
    return "none";
  };
  auto numbers = dense_numbers<double>();
  numbers[5 * 700 + 699] = 1e39;
  EXPECT_EQ(place_of(numbers, Precision::single_precision), "5 699");
  EXPECT_EQ(place_of(numbers, Precision::double_precision), "none");
  numbers[299 * 700] = std::nan("");
  EXPECT_EQ(place_of(numbers, Precision::single_precision), "5 699");
  EXPECT_EQ(place_of(numbers, Precision::double_precision), "299 0");
  numbers[2] = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(place_of(numbers, Precision::double_precision), "0 2");
}

TEST(SparseMatrix, DropsZeros) {
  auto matrix = sample_matrix();
  matrix.values = {0.0, 2.0, -0.0, 2.0, 2.0};
  drop_zeros(matrix);
  SparseMatrix const expected{4, 4, {0, 1, 1, 1, 3}, {3, 2, 3}, {2.0}};
  EXPECT_EQ(matrix, expected);
  matrix.values = {0.0};
  drop_zeros(matrix);
  EXPECT_EQ(matrix, (SparseMatrix{4, 4, {0, 0, 0, 0, 0}, {}, {}}));
}

} // namespace
} // namespace varve
