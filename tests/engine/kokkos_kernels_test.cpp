#include "engine/places.hpp"
#include "engine/random_case.hpp"

#include "radixnet/images.hpp"
#include "radixnet/network.hpp"
#include "reference/enclosure.hpp"
#include "reference/infer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve {
namespace {

class KokkosKernels : public testing::TestWithParam<Precision> {
protected:
  /// The engine runs on the fastest backend of the build only.
  static InferenceOptions options() {
    auto options = test::options_at({compiled_backends().front(), GetParam()});
    options.engine = parse_engine("kokkos-kernels");
    return options;
  }

  /// Expects activations and live samples that some order of summation gives: the library adds in its own, another one
  /// on each device.
  static void expect_possible(BatchResult const& found, NetworkSource const& network, SampleSet const& samples) {
    ASSERT_EQ(found.activations.num_samples(), samples.num_samples());
    ASSERT_EQ(found.activations.num_neurons(), network.layer(network.num_layers() - 1).num_outputs());
    auto const values = dense(found.activations.matrix);
    auto const bounds = bounds_of(network, samples);
    for (std::size_t sample = 0; sample < samples.num_samples(); ++sample) {
      SCOPED_TRACE(testing::Message() << "sample " << sample);
      auto const& possible = bounds[sample];
      bool const is_alive = std::ranges::binary_search(found.live_samples, samples.first_sample + sample);
      if (possible.state() == Enclosure::State::unknown) continue;
      if (possible.is_certain()) {
        EXPECT_EQ(is_alive, possible.is_alive());
      }
      std::size_t const width = found.activations.num_neurons();
      for (std::size_t neuron = 0; neuron < width; ++neuron) {
        auto const& of_neuron = possible.activations()[neuron];
        ASSERT_LE(std::abs(values[sample * width + neuron] - of_neuron.centre), of_neuron.radius) << neuron;
      }
    }
  }

private:
  /// By sample: bounds of its last activations in any order of summation.
  static std::vector<Enclosure> bounds_of(NetworkSource const& network, SampleSet const& samples) {
    std::vector<Enclosure> bounds;
    for (std::size_t row = 0; row < samples.num_samples(); ++row) bounds.emplace_back(samples, row, GetParam());
    for (std::size_t number = 0; number < network.num_layers(); ++number) {
      auto const layer = distinct_layer(network.layer(number));
      for (auto& of_sample : bounds) of_sample.forward(layer, false);
    }
    return bounds;
  }

  static std::vector<double> dense(SparseMatrix const& matrix) {
    std::vector<double> values(matrix.num_rows * matrix.num_columns, 0.0);
    for (std::size_t row = 0; row < matrix.num_rows; ++row) {
      for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
        values[row * matrix.num_columns + matrix.column_indices[entry]] = matrix.value(entry);
      }
    }
    return values;
  }
};
INSTANTIATE_TEST_SUITE_P(Precisions, KokkosKernels,
                         testing::Values(Precision::single_precision, Precision::double_precision),
                         test::name_of_precision);

TEST_P(KokkosKernels, AgreesWithTheReferenceOnRandomNetworks) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    auto const [network, samples] = test::random_case(seed);
    auto const outcome = test::run_all(network, samples, options());
    EXPECT_EQ(outcome.plan.engine, "kokkos-kernels");
    expect_possible(outcome.result, network, samples);
  }
}

TEST_P(KokkosKernels, AgreesWithTheReferenceOnARadixNet) {
  RadixNet const network(256, 12, 3, -0.15);
  auto const samples = digit_images(256, 100, 5);
  auto batched = options();
  batched.batch = 33;
  for (auto const& way : {options(), batched}) {
    expect_possible(test::run_all(network, samples, way).result, network, samples);
  }
}

} // namespace
} // namespace varve
