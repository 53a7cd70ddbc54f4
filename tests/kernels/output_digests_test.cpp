#include "kernels/samples.hpp"

#include "engine/random_case.hpp"
#include "formats/device_layer.hpp"
#include "kernels/execution_spaces.hpp"
#include "kernels/panel_place.hpp"
#include "receipts/digests.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace varve {
namespace {

/// Samples with so many outputs, read from a wider panel, as the host hashes them.
template <class ExecutionSpace, class Scalar>
void expect_digests(std::size_t num_outputs, bool are_equal) {
  SCOPED_TRACE(testing::Message() << num_outputs << " outputs");
  using Last = LastActivations<Scalar>;
  constexpr std::size_t num_samples = 70, num_neurons = 45, tile = 32;
  constexpr SampleIndex first_sample = 5000000000;
  test::RandomCases random(num_outputs);
  std::vector<Scalar> panel((num_samples + tile - 1) / tile * tile * num_neurons);
  std::vector<int> from_slot(num_samples), ends(num_samples);
  std::vector<NeuronIndex> neurons(num_outputs);
  for (auto& neuron : neurons) neuron = static_cast<NeuronIndex>(random.below(num_neurons));
  for (std::size_t i = 0; i < num_samples; ++i) from_slot[i] = static_cast<int>((i * 11) % num_samples);
  for (auto& number : panel) {
    bool const is_zero = random.below(3) == 0;
    number = is_zero ? Scalar(0) : are_equal ? Scalar(32) : static_cast<Scalar>(random.real(-1.0, 1.0));
  }
  SampleSet expected;
  expected.first_sample = first_sample;
  expected.matrix.num_columns = num_outputs;
  Scalar const saturated = Scalar(0.1);
  for (std::size_t sample = 0; sample < num_samples; ++sample) {
    auto const kind = random.below(6);
    auto const position = static_cast<std::size_t>(random.below(num_samples));
    ends[sample] = kind == 0 ? Last::is_dead : kind == 1 ? Last::is_saturated : static_cast<int>(position);
    for (std::size_t output = 0; output < num_outputs && kind != 0; ++output) {
      auto const slot = static_cast<std::size_t>(from_slot[position]);
      auto const number = kind == 1 ? saturated : panel[test::place_in(slot, neurons[output], num_neurons, tile)];
      if (number == Scalar(0)) continue;
      expected.matrix.column_indices.push_back(static_cast<NeuronIndex>(output));
      expected.matrix.values.push_back(static_cast<double>(number));
    }
    expected.matrix.row_pointers.push_back(expected.matrix.column_indices.size());
    ++expected.matrix.num_rows;
  }
  auto const digests = upload<ExecutionSpace>("digests", std::vector<std::uint32_t>(8 * num_samples));
  auto const on_device = upload<ExecutionSpace>("panel", panel);
  auto const slots = upload<ExecutionSpace>("slots", from_slot);
  auto const read = upload<ExecutionSpace>("neurons", neurons);
  auto const positions = upload<ExecutionSpace>("ends", ends);
  Kokkos::parallel_for("digests", Kokkos::RangePolicy<ExecutionSpace>(0, num_samples),
                       DigestOutputs<Scalar>{{on_device, static_cast<int>(tile), slots, read, positions,
                                              static_cast<int>(num_neurons), saturated},
                                             first_sample,
                                             static_cast<int>(num_outputs),
                                             digests});
  auto const found = download(digests);
  auto const wanted = output_digests(expected);
  for (std::size_t sample = 0; sample < num_samples; ++sample)
    EXPECT_EQ(std::memcmp(&found[8 * sample], wanted[sample].data(), sizeof(Digest)), 0) << sample;
}

template <class ExecutionSpace>
class OutputDigests : public testing::Test {};
TYPED_TEST_SUITE(OutputDigests, test::ExecutionSpaces, test::NameOfSpace);

// Every place in a block where neurons, numbers and padding can end.
TYPED_TEST(OutputDigests, AreThoseOfTheHost) {
  for (std::size_t num_outputs = 0; num_outputs < 40; ++num_outputs) {
    for (bool const are_equal : {false, true}) {
      expect_digests<TypeParam, float>(num_outputs, are_equal);
      expect_digests<TypeParam, double>(num_outputs, are_equal);
    }
  }
}

} // namespace
} // namespace varve
