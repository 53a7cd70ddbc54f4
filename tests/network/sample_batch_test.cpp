#include "network/sample_set.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// Sample s has the entries 0 ... s.
SampleSet triangle(std::size_t num_samples, std::vector<double> const& values, SampleIndex first_sample = 0) {
  SampleSet samples;
  samples.first_sample = first_sample;
  samples.matrix.num_rows = num_samples;
  samples.matrix.num_columns = 9;
  for (std::size_t sample = 0; sample < num_samples; ++sample) {
    for (std::size_t neuron = 0; neuron <= sample; ++neuron)
      samples.matrix.column_indices.push_back(static_cast<NeuronIndex>(neuron));
    samples.matrix.row_pointers.push_back(samples.matrix.num_entries());
  }
  samples.matrix.values = values;
  for (double value = 0.5; values.size() != 1 && samples.matrix.values.size() < samples.matrix.num_entries(); ++value)
    samples.matrix.values.push_back(value);
  return samples;
}

TEST(SampleBatches, HoldTheSamplesOfASet) {
  auto const samples = triangle(5, {}, 30);
  SampleBatch const batch = samples;
  EXPECT_EQ(batch.num_samples(), 5U);
  EXPECT_EQ(batch.num_neurons(), 9U);
  EXPECT_EQ(batch.num_entries(), 15U);
  EXPECT_EQ(batch.first_sample(), 30U);
  EXPECT_FALSE(batch.has_one_value());
  EXPECT_EQ(to_set(batch), samples);
}

TEST(SampleBatches, HavePartsThatAreNoCopies) {
  auto const samples = triangle(5, {2.0}, 30);
  SampleBatch const batch = samples;
  for (std::size_t first = 0; first <= 5; ++first) {
    for (std::size_t last = first; last <= 5; ++last) {
      auto const part = batch.part(first, last);
      EXPECT_EQ(to_set(part), samples_of(samples, first, last));
      EXPECT_EQ(part.rows().front().set, batch.rows().front().set);
      EXPECT_TRUE(part.has_one_value());
      EXPECT_EQ(to_set(part.part(0, last - first)), samples_of(samples, first, last));
    }
  }
  EXPECT_THROW(batch.part(3, 6), std::logic_error);
  EXPECT_THROW(batch.part(3, 2), std::logic_error);
}

/// The same samples as they lie ready for a device that takes columns of this type.
template <class Column>
SampleBatch ready(SampleSet const& samples) {
  auto const columns = std::make_shared<std::vector<Column>>();
  for (auto const column : samples.matrix.column_indices) columns->push_back(static_cast<Column>(column));
  return {ReadySamples{samples.num_neurons(), samples.matrix.row_pointers, samples.matrix.values,
                       static_cast<Column const*>(columns->data()), columns},
          samples.first_sample};
}

template <class Column>
void expect_same_when_ready() {
  auto const samples = triangle(5, {}, 30);
  auto const batch = ready<Column>(samples);
  EXPECT_EQ(batch.num_samples(), 5U);
  EXPECT_EQ(batch.num_neurons(), 9U);
  EXPECT_EQ(batch.num_entries(), 15U);
  EXPECT_FALSE(batch.has_one_value());
  EXPECT_EQ(to_set(batch), samples);
  EXPECT_EQ(to_set(batch.part(2, 4)), samples_of(samples, 2, 4));
  EXPECT_EQ(to_set(batch.part(3, 3)).num_samples(), 0U);
  EXPECT_EQ(batch.part(1, 3), batch.part(1, 3));
  EXPECT_NE(batch, ready<Column>(samples));
  auto const ones = triangle(4, {1.0});
  EXPECT_TRUE(ready<Column>(ones).has_one_value());
  EXPECT_EQ(to_set(ready<Column>(ones)), ones);
  auto mixed = SampleBatch(samples).part(1, 5);
  mixed.append(ready<Column>(ones).part(2, 4));
  EXPECT_EQ(mixed.num_entries(), 14U + 7U);
  EXPECT_EQ(mixed.rows().back().column(mixed.rows().back().last_entry() - 1), 3U);
  auto expected = samples_of(samples, 1, 5);
  auto last = samples_of(ones, 2, 4);
  last.matrix.values.assign(7, 1.0);
  append_rows(expected, last);
  EXPECT_EQ(to_set(mixed), expected);
}

TEST(SampleBatches, HoldSamplesThatLieReadyForADevice) {
  expect_same_when_ready<NeuronIndex>();
  expect_same_when_ready<std::uint16_t>();
}

TEST(SampleBatches, AppendOthersAndCutThemAgain) {
  SampleBatch const one = triangle(3, {}, 30);
  SampleBatch const other = triangle(4, {2.0}, 77);
  auto both = one.part(0, 0);
  both.append(one.part(1, 3));
  both.append(other.part(2, 2));
  both.append(other);
  EXPECT_EQ(both.rows().size(), 2U);
  EXPECT_EQ(both.num_samples(), 6U);
  EXPECT_EQ(both.first_sample(), 30U);
  auto const set = to_set(both);
  EXPECT_EQ(set.matrix.row_pointers, (std::vector<EdgeOffset>{0, 2, 5, 6, 8, 11, 15}));
  EXPECT_EQ(set.matrix.values, (std::vector<double>{1.5, 2.5, 3.5, 4.5, 5.5, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}));
  for (std::size_t last = 0; last <= 6; ++last) {
    for (std::size_t first = 0; first <= last; ++first) {
      auto part = to_set(both.part(first, last));
      part.matrix.values.resize(part.matrix.num_entries(), 2.0); // a part of the second set alone stores its value once
      EXPECT_EQ(part, samples_of(set, first, last)) << first << ":" << last;
    }
  }
  SampleSet narrow;
  narrow.matrix.num_columns = 8;
  EXPECT_THROW(both.append(narrow), std::logic_error);
}

TEST(SampleBatches, HaveOneValueIfAllSetsHaveTheSame) {
  SampleBatch const ones = triangle(3, {1.0});
  auto both = ones;
  both.append(triangle(2, {1.0}));
  EXPECT_TRUE(both.has_one_value());
  EXPECT_EQ(to_set(both).matrix.values, std::vector<double>{1.0});
  both.append(triangle(2, {2.0}));
  EXPECT_FALSE(both.has_one_value());
  EXPECT_EQ(to_set(both).matrix.values.size(), both.num_entries());
  auto zeros = SampleBatch(triangle(1, {0.0}));
  zeros.append(triangle(1, {-0.0}));
  EXPECT_FALSE(zeros.has_one_value()) << "bit for bit";
}

TEST(SampleBatches, AreEqualIfTheyAreTheSameRowsAndNumbers) {
  SampleBatch const batch = triangle(5, {});
  EXPECT_EQ(batch.part(1, 4), batch.part(0, 4).part(1, 4));
  EXPECT_NE(batch.part(1, 4), batch.part(1, 3));
  EXPECT_NE(batch, batch.numbered_from(5));
  EXPECT_EQ(to_set(batch.numbered_from(5)).first_sample, 5U);
  EXPECT_NE(batch, SampleBatch(triangle(5, {}))) << "another set";
}

TEST(AppendRows, KeepsValuesThatAllEntriesShare) {
  auto const of = [](std::vector<double> values) {
    return SampleSet{{2, 4, {0, 2, 3}, {0, 2, 1}, std::move(values)}, 0};
  };
  for (auto const& [first, second] :
       {std::pair{of({1.0}), of({1.0})}, std::pair{of({1.0}), of({2.0})}, std::pair{of({1.0}), of({1.0, 2.0, 3.0})},
        std::pair{of({1.0, 2.0, 3.0}), of({4.0})}}) {
    auto all = first;
    append_rows(all, second);
    ASSERT_EQ(all.num_samples(), 4U);
    for (EdgeOffset entry = 0; entry < 3; ++entry) {
      EXPECT_EQ(all.matrix.value(entry), first.matrix.value(entry));
      EXPECT_EQ(all.matrix.value(entry + 3), second.matrix.value(entry));
    }
    EXPECT_TRUE(all.matrix.values.size() == 6 || all.matrix.values.size() == 1);
  }
  SampleSet const single{{1, 4, {0, 1}, {2}, {5.0}}, 0}; // one entry with a value of its own, as activations have
  auto all = single;
  append_rows(all, single);
  EXPECT_EQ(all.matrix.values, (std::vector{5.0, 5.0}));
}

} // namespace
} // namespace varve
