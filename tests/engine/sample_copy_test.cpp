#include "engine/sample_copy.hpp"

#include "core/device_stream.hpp"
#include "engine/random_case.hpp"
#include "formats/device_layer.hpp"
#include "kernels/execution_spaces.hpp"
#include "kernels/samples.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

namespace varve {
namespace {

/// Like a set, for comparison: values as Scalar, one for all or one per entry as they lie there.
template <class Scalar>
struct Found {
  std::vector<EdgeOffset> row_pointers;
  std::vector<NeuronIndex> columns;
  std::vector<Scalar> values;

  bool operator==(Found const&) const = default;
};

/// `count` numbers of the device.
template <class ExecutionSpace, class Number>
std::vector<Number> numbers_at(Number const* numbers, std::size_t count) {
  return download(ConstDeviceArray<ExecutionSpace, Number>(numbers, count));
}

template <class ExecutionSpace, class Scalar>
Found<Scalar> found_in(SamplesOnDevice const& samples) {
  return {numbers_at<ExecutionSpace>(samples.row_pointers, static_cast<std::size_t>(samples.num_samples) + 1),
          numbers_at<ExecutionSpace>(samples.columns, samples.num_entries),
          numbers_at<ExecutionSpace>(static_cast<Scalar const*>(samples.values),
                                     samples.value_stride == 0 ? 1 : samples.num_entries)};
}

template <class ExecutionSpace, class Narrow, class Wide>
void widen_on(Stream const& lane, Narrow const* from, Wide* to, std::size_t count) {
  launch_range("varve::widen_numbers", instance_of<ExecutionSpace>(lane), count,
               Widen<Narrow, Wide>{ArrayView<Narrow const>(from, count), ArrayView<Wide>(to, count)});
}

template <class Scalar>
Found<Scalar> expected_of(SampleBatch const& batch) {
  auto const matrix = to_set(batch).matrix;
  return {matrix.row_pointers, matrix.column_indices, std::vector<Scalar>(matrix.values.begin(), matrix.values.end())};
}

/// 40 samples, whose values differ or are one for all.
SampleBatch draw_batch(test::RandomCases& random, std::size_t neurons, std::vector<double> const& values) {
  SampleSet samples{random.draw_matrix(40, neurons, 90, 1.0), 100};
  auto& matrix = samples.matrix;
  matrix.column_indices[matrix.row_pointers[3] - 1] = static_cast<NeuronIndex>(neurons - 1); // the last one of a row
  matrix.values = values;
  while (values.size() != 1 && matrix.values.size() < matrix.num_entries()) matrix.values.push_back(random.real(-1, 1));
  return samples;
}

/// The same samples as they lie ready for a device that takes columns of this type.
template <class Column>
SampleBatch ready(SampleBatch const& batch) {
  auto const samples = to_set(batch);
  auto const columns = std::make_shared<std::vector<Column>>();
  for (auto const column : samples.matrix.column_indices) columns->push_back(static_cast<Column>(column));
  return {ReadySamples{samples.num_neurons(), samples.matrix.row_pointers, samples.matrix.values,
                       static_cast<Column const*>(columns->data()), columns},
          samples.first_sample};
}

/// Whole sets, parts, neighbours from several sets, the same one again, and none.
std::vector<SampleBatch> draw_batches(std::size_t neurons) {
  test::RandomCases random(7);
  auto const ones = draw_batch(random, neurons, {1.0});
  auto const twos = draw_batch(random, neurons, {2.0});
  auto const others = draw_batch(random, neurons, {});
  std::vector<SampleBatch> batches = {
      ones, others, ones.part(3, 17), others.part(11, 40), ones.part(5, 5), others.part(5, 5)};
  auto const join = [&](std::vector<SampleBatch> const& parts) {
    batches.push_back(parts.front());
    for (std::size_t i = 1; i < parts.size(); ++i) batches.back().append(parts[i]);
  };
  join({ones.part(30, 40), ones, ones.part(0, 7)});
  join({ones.part(20, 40), twos.part(0, 3)});
  join({others.part(39, 40), ones.part(2, 2), twos.part(2, 5), others});
  auto const wide_ones = ready<NeuronIndex>(ones);
  auto const wide_others = ready<NeuronIndex>(others);
  for (auto const& batch : {wide_ones, wide_others.part(11, 40), wide_ones.part(5, 5)}) batches.push_back(batch);
  join({wide_ones.part(30, 40), ones, wide_others.part(0, 7)});
  join({wide_ones.part(30, 40), wide_ones.part(0, 3)});
  if (neurons > 65536) return batches;
  auto const narrow_ones = ready<std::uint16_t>(ones);
  auto const narrow_others = ready<std::uint16_t>(others);
  for (auto const& batch : {narrow_ones, narrow_others.part(11, 40), narrow_ones.part(5, 5)}) batches.push_back(batch);
  join({narrow_ones.part(30, 40), narrow_ones.part(5, 5), narrow_ones, narrow_ones.part(0, 3)});
  join({narrow_others.part(30, 40), narrow_ones.part(0, 3)});
  join({narrow_ones.part(30, 40), others.part(0, 3), wide_ones});
  return batches;
}

template <class ExecutionSpace>
class SampleCopies : public ::testing::Test {
protected:
  template <class Scalar, bool InPlace>
  static SampleCopy copy_of(std::size_t chunk_length) {
    WidenLaunches const widen{&widen_on<ExecutionSpace, std::uint32_t, EdgeOffset>,
                              &widen_on<ExecutionSpace, std::uint16_t, NeuronIndex>};
    return {device_memory(to_backend<ExecutionSpace>()), widen, sizeof(Scalar), InPlace, "the samples", chunk_length};
  }

  /// Each batch through one copier, so that arrays that were used before are used again.
  template <class Scalar, bool InPlace>
  static void expect_right(std::size_t neurons, std::size_t chunk_length) {
    SampleCopy copy = copy_of<Scalar, InPlace>(chunk_length);
    SampleArrays arrays;
    auto const batches = draw_batches(neurons);
    for (std::size_t number = 0; number < batches.size(); ++number) {
      auto const& batch = batches[number];
      auto const copied = copy.copy(arrays, batch);
      EXPECT_EQ(copied.samples.num_samples, static_cast<int>(batch.num_samples()));
      EXPECT_EQ(copied.samples.num_neurons, static_cast<int>(neurons));
      EXPECT_EQ(copied.samples.value_stride, batch.has_one_value() ? 0 : 1);
      EXPECT_EQ((found_in<ExecutionSpace, Scalar>(copied.samples)), expected_of<Scalar>(batch))
          << "batch " << number << " of " << neurons << " neurons in chunks of " << chunk_length;
      EXPECT_EQ(copied.copied_bytes, (bytes_of<Scalar, InPlace>(batch)));
    }
  }

private:
  template <class Scalar, bool InPlace>
  static std::size_t bytes_of(SampleBatch const& batch) {
    std::size_t const entries = batch.num_entries();
    auto const columns = batch.rows().front().columns();
    bool const is_one_set = batch.rows().size() == 1;
    bool const is_wide_set = is_one_set && std::holds_alternative<NeuronIndex const*>(columns);
    bool const reads_values = InPlace && sizeof(Scalar) == sizeof(double) && is_one_set;
    std::size_t const value_bytes = batch.has_one_value() ? sizeof(Scalar)
                                    : reads_values        ? 0
                                                          : entries * sizeof(Scalar);
    std::size_t const column_bytes = InPlace && is_wide_set ? 0 : InPlace || batch.num_neurons() > 65536 ? 4 : 2;
    return (batch.num_samples() + 1) * (InPlace ? 8 : 4) + entries * column_bytes + value_bytes;
  }
};
TYPED_TEST_SUITE(SampleCopies, test::ExecutionSpaces, test::NameOfSpace);

TYPED_TEST(SampleCopies, ComeInOneChunkOrMany) {
  for (std::size_t const chunk_length : {1U, 7U, 64U, 1U << 20U}) {
    this->template expect_right<float, false>(60, chunk_length);
    this->template expect_right<double, false>(60, chunk_length);
  }
}

TYPED_TEST(SampleCopies, NeedMoreBitsBeyond65536Neurons) {
  for (std::size_t const neurons : {65535U, 65536U, 65537U}) {
    this->template expect_right<float, false>(neurons, 50);
    this->template expect_right<double, false>(neurons, 1U << 20U);
  }
}

TYPED_TEST(SampleCopies, AreReadWhereTheyLieOnTheHost) {
  if constexpr (kOnHost<TypeParam>) {
    for (std::size_t const chunk_length : {7U, 1U << 20U}) {
      this->template expect_right<float, true>(60, chunk_length);
      this->template expect_right<double, true>(65537, chunk_length);
    }
    SampleBatch const batch = draw_batches(60).front();
    SampleCopy copy = this->template copy_of<float, true>(std::size_t(1) << 20U);
    SampleArrays arrays;
    auto const wide = ready<NeuronIndex>(batch);
    EXPECT_EQ(copy.copy(arrays, wide).samples.columns, std::get<NeuronIndex const*>(wide.rows().front().columns()));
    EXPECT_EQ(copy.copy(arrays, batch).samples.columns, batch.rows().front().set->matrix.column_indices.data());
  }
}

} // namespace
} // namespace varve
