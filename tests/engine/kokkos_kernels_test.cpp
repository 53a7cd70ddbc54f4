#include "engine/places.hpp"
#include "engine/random_case.hpp"

#include "network/activations.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <gtest/gtest.h>

#include <cmath>

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

  /// Values to a part of the largest magnitude: sums are rounded in the library's order, and biases that nearly cancel
  /// a sum, as in layers that just keep their cap, magnify that.
  static void expect_near(SampleSet const& found, SampleSet const& expected) {
    ASSERT_EQ(found.num_samples(), expected.num_samples());
    ASSERT_EQ(found.num_neurons(), expected.num_neurons());
    auto const left = dense(found.matrix);
    auto const right = dense(expected.matrix);
    // Layers that keep negative values, one after the other, let sums cancel: then little of float is left.
    double const tolerance = GetParam() == Precision::single_precision ? 1e-2 : 1e-10;
    double scale = 1.0;
    for (double const value : right) scale = std::max(scale, std::abs(value));
    for (std::size_t place = 0; place < left.size(); ++place) ASSERT_NEAR(left[place], right[place], tolerance * scale);
  }

private:
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
    auto const expected = test::reference_of(network, samples, GetParam());
    auto const outcome = test::run_all(network, samples, options());
    EXPECT_EQ(outcome.plan.engine, "kokkos-kernels");
    EXPECT_EQ(outcome.result.live_samples, categories(expected));
    expect_near(outcome.result.activations, expected);
  }
}

TEST_P(KokkosKernels, AgreesWithTheReferenceOnARadixNet) {
  RadixNet const network(256, 12, 3, -0.15);
  auto const samples = digit_images(256, 100, 5);
  auto const expected = test::reference_of(network, samples, GetParam());
  auto batched = options();
  batched.batch = 33;
  for (auto const& way : {options(), batched}) {
    auto const outcome = test::run_all(network, samples, way);
    EXPECT_EQ(outcome.result.live_samples, categories(expected));
    expect_near(outcome.result.activations, expected);
  }
}

} // namespace
} // namespace varve
