#include "engine/places.hpp"

#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace varve {
namespace {

using test::Place;

/// A sample's outputs have the same bits alone, in batches of 1 to 10000 samples, and at any position of a batch.
class AnyPosition : public testing::TestWithParam<Place> {
protected:
  static constexpr std::size_t num_distinct = 61;

  AnyPosition() {
    auto& matrix = distinct_.matrix;
    matrix.values.resize(matrix.num_entries());
    for (std::size_t entry = 0; entry < matrix.num_entries(); ++entry)
      matrix.values[entry] = 0.7 + 0.3 * static_cast<double>(entry * 37 % 101) / 101.0; // sums that are rounded
  }

  static SampleSet one_of(SampleSet const& samples, std::size_t row) {
    auto one = samples_of(samples, row, row + 1);
    one.first_sample = 0;
    return one;
  }

  SampleSet outputs_of(SampleSet const& samples, bool is_reduced) const {
    auto options = test::options_at(GetParam());
    options.batch = samples.num_samples();
    options.reductions.saturation = options.reductions.equal_samples = is_reduced;
    return test::run_all(network_, samples, options).result.activations;
  }

  RadixNet network_{256, 6, 3, -0.15};
  SampleSet distinct_ = digit_images(256, num_distinct, 5);
};
INSTANTIATE_TEST_SUITE_P(Everywhere, AnyPosition, testing::ValuesIn(test::all_places()), test::name_of);

TEST_P(AnyPosition, OfABatchOfAnySizeGivesTheSameBits) {
  std::vector<SampleSet> alone;
  std::size_t num_alive = 0;
  for (std::size_t row = 0; row < num_distinct; ++row) {
    alone.push_back(outputs_of(one_of(distinct_, row), false));
    num_alive += alone.back().matrix.num_entries() > 0 ? 1 : 0;
  }
  ASSERT_GT(num_alive, 10U);
  ASSERT_LT(num_alive, num_distinct);
  for (std::size_t const count : {1U, 2U, 7U, 16U, 33U, 61U, 100U, 1000U, 4097U, 10000U}) {
    auto const row_at = [&](std::size_t position) { return (position * (position + 3) / 2 + count) % num_distinct; };
    SampleSet batch = samples_of(distinct_, 0, 0);
    SampleSet expected = samples_of(alone.front(), 0, 0);
    for (std::size_t position = 0; position < count; ++position) {
      append_rows(batch, one_of(distinct_, row_at(position)));
      append_rows(expected, alone[row_at(position)]);
    }
    for (bool const is_reduced : {false, true}) {
      auto const found = outputs_of(batch, is_reduced);
      ASSERT_EQ(found.matrix.row_pointers, expected.matrix.row_pointers) << count << " samples";
      ASSERT_EQ(found.matrix.column_indices, expected.matrix.column_indices) << count << " samples";
      ASSERT_EQ(found.matrix.values, expected.matrix.values) << count << " samples";
    }
  }
}

} // namespace
} // namespace varve
