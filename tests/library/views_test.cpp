#include "core/execution.hpp"
#include "engine/random_case.hpp"
#include "library/public_case.hpp"

#include <varve/error.hpp>
#include <varve/kokkos.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace varve::test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// An execution space, a precision and a layout.
template <class ExecutionSpace, class Number, class ViewLayout>
struct Kind {
  using Space = ExecutionSpace;
  using Scalar = Number;
  using Layout = ViewLayout;
  using View = Kokkos::View<Number**, ViewLayout, typename ExecutionSpace::memory_space>;
};

template <class List>
struct KindsOf;
template <class... Spaces>
struct KindsOf<SpaceList<Spaces...>> {
  using Types =
      testing::Types<Kind<Spaces, float, Kokkos::LayoutRight>..., Kind<Spaces, float, Kokkos::LayoutLeft>...,
                     Kind<Spaces, double, Kokkos::LayoutRight>..., Kind<Spaces, double, Kokkos::LayoutLeft>...>;
};

template <class Matrix>
auto dense(Matrix const& matrix) {
  std::vector<double> values(matrix.num_rows * matrix.num_columns, 0.0);
  for (std::size_t row = 0; row < matrix.num_rows; ++row)
    for (auto entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry)
      values[row * matrix.num_columns + matrix.column_indices[entry]] = matrix.value(entry);
  return values;
}

template <class View>
void fill(View const& view, std::vector<double> const& values) {
  auto const on_host = Kokkos::create_mirror_view(view);
  for (std::size_t row = 0; row < view.extent(0); ++row)
    for (std::size_t column = 0; column < view.extent(1); ++column)
      on_host(row, column) = static_cast<typename View::value_type>(values[row * view.extent(1) + column]);
  Kokkos::deep_copy(view, on_host);
}

/// The bits of all elements, row by row.
template <class View>
std::vector<std::uint64_t> bits_of(View const& view) {
  auto const on_host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  std::vector<std::uint64_t> bits;
  for (std::size_t row = 0; row < view.extent(0); ++row)
    for (std::size_t column = 0; column < view.extent(1); ++column)
      bits.push_back(std::bit_cast<std::uint64_t>(static_cast<double>(on_host(row, column))));
  return bits;
}

std::vector<std::uint64_t> bits_of(std::vector<double> const& values) {
  std::vector<std::uint64_t> bits;
  for (double const value : values) bits.push_back(std::bit_cast<std::uint64_t>(value));
  return bits;
}

template <class Of>
class Views : public testing::Test {
public:
  using View = typename Of::View;

  static face::InferenceOptions options() {
    face::InferenceOptions options;
    options.backend = face::backend_of<typename Of::Space>();
    if (std::is_same_v<typename Of::Scalar, double>) options.precision = face::Precision::double_precision;
    return options;
  }

  /// Expects that Views give what arrays give.
  static void expect_equal_to_arrays(RandomCase const& drawn, face::InferenceOptions const& options) {
    face::PreparedNetwork network(to_public(drawn.network), options);
    auto const expected = network.infer(to_public(drawn.samples));
    View const samples("samples", drawn.samples.num_samples(), drawn.samples.num_neurons());
    View const activations("activations", samples.extent(0), network.num_outputs());
    fill(samples, dense(drawn.samples.matrix));
    Kokkos::deep_copy(activations, typename Of::Scalar(-7)); // every element must be written
    auto const found = face::infer(network, typename Of::Space(), samples, activations);
    EXPECT_EQ(found.live_samples, expected.live_samples);
    EXPECT_EQ(found.activation_hash, expected.activation_hash);
    EXPECT_EQ(bits_of(activations), bits_of(dense(expected.activations)));
  }
};
TYPED_TEST_SUITE(Views, KindsOf<CompiledSpaces>::Types);

TYPED_TEST(Views, GiveTheBitsOfArrays) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(seed);
    auto drawn = random_case(seed);
    if (seed % 4 == 0) drawn.network = with_curves(drawn.network, seed);
    auto options = this->options();
    if (seed % 3 == 1) options.reductions = "none";
    this->expect_equal_to_arrays(drawn, options);
  }
}

TYPED_TEST(Views, MayTakeSeveralBatches) {
  std::size_t num_several = 0;
  for (std::uint64_t seed = 30; seed <= 42; ++seed) {
    SCOPED_TRACE(seed);
    auto const drawn = random_case(seed);
    auto options = this->options();
    options.batch = 32;
    this->expect_equal_to_arrays(drawn, options);
    if (drawn.samples.num_samples() > 64) ++num_several;
  }
  EXPECT_GE(num_several, 2U);
}

TYPED_TEST(Views, MayBePartsOfLargerOnes) {
  using Scalar = typename TypeParam::Scalar;
  auto const drawn = random_case(7);
  auto const& matrix = drawn.samples.matrix;
  face::PreparedNetwork network(to_public(drawn.network), this->options());
  auto const expected = network.infer(to_public(drawn.samples));
  typename TypeParam::View const room("samples", matrix.num_rows + 3, matrix.num_columns + 5);
  typename TypeParam::View const results("activations", matrix.num_rows + 2, network.num_outputs() + 4);
  Kokkos::deep_copy(room, std::numeric_limits<Scalar>::quiet_NaN()); // beside the part nothing may be read
  Kokkos::deep_copy(results, Scalar(-7));
  auto const samples = Kokkos::subview(room, std::pair<std::size_t, std::size_t>(1, matrix.num_rows + 1),
                                       std::pair<std::size_t, std::size_t>(2, matrix.num_columns + 2));
  auto const activations = Kokkos::subview(results, std::pair<std::size_t, std::size_t>(2, matrix.num_rows + 2),
                                           std::pair<std::size_t, std::size_t>(0, network.num_outputs()));
  typename TypeParam::View const packed("packed", matrix.num_rows, matrix.num_columns);
  fill(packed, dense(matrix));
  Kokkos::deep_copy(typename TypeParam::Space(), samples, packed);
  face::infer(network, typename TypeParam::Space(), samples, activations);
  typename TypeParam::View const found("found", matrix.num_rows, network.num_outputs());
  Kokkos::deep_copy(typename TypeParam::Space(), found, activations);
  EXPECT_EQ(bits_of(found), bits_of(dense(expected.activations)));
  auto const on_host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), results);
  for (std::size_t row = 0; row < results.extent(0); ++row)
    EXPECT_EQ(on_host(row, network.num_outputs()), Scalar(-7)) << "beside the part something was written";
}

TYPED_TEST(Views, OfConstSamplesAreTaken) {
  auto const drawn = random_case(5);
  face::PreparedNetwork network(to_public(drawn.network), this->options());
  typename TypeParam::View const samples("samples", drawn.samples.num_samples(), network.num_inputs());
  typename TypeParam::View const activations("activations", samples.extent(0), network.num_outputs());
  fill(samples, dense(drawn.samples.matrix));
  typename TypeParam::View::const_type const read_only = samples;
  auto const found = face::infer(network, typename TypeParam::Space(), read_only, activations);
  EXPECT_EQ(found.activation_hash, network.infer(to_public(drawn.samples)).activation_hash);
}

TYPED_TEST(Views, ThatDoNotFitAreErrors) {
  using View = typename TypeParam::View;
  typename TypeParam::Space const space;
  face::PreparedNetwork network(to_public(random_case(5).network), this->options());
  auto const inputs = network.num_inputs();
  auto const outputs = network.num_outputs();
  View const samples("samples", 3, inputs);
  View const activations("activations", 3, outputs);
  EXPECT_THAT([&] { face::infer(network, space, View("wide", 3, inputs + 1), activations); },
              ThrowsMessage<face::InputError>(HasSubstr("have " + std::to_string(inputs + 1) +
                                                        " values each, expected " + std::to_string(inputs))));
  EXPECT_THAT([&] { face::infer(network, space, samples, View("short", 2, outputs)); },
              ThrowsMessage<face::InputError>(HasSubstr("the View of activations has shape 2 x")));
  fill(samples, std::vector<double>(3 * inputs, 0.5));
  auto const last = Kokkos::subview(samples, 1, inputs - 1);
  Kokkos::deep_copy(last, std::numeric_limits<typename TypeParam::Scalar>::infinity());
  EXPECT_THAT([&] { face::infer(network, space, samples, activations); },
              ThrowsMessage<face::InputError>(
                  HasSubstr("sample 1 has a value that is not finite at neuron " + std::to_string(inputs - 1))));
  Kokkos::deep_copy(last, 0);
  EXPECT_NO_THROW(face::infer(network, space, samples, activations)) << "an error leaves the network usable";
}

TYPED_TEST(Views, AreNamedByTheirSampleInAnyBatch) {
  auto options = this->options();
  options.batch = 32;
  face::PreparedNetwork network(to_public(random_case(5).network), options);
  typename TypeParam::View const samples("samples", 100, network.num_inputs());
  typename TypeParam::View const activations("activations", 100, network.num_outputs());
  Kokkos::deep_copy(Kokkos::subview(samples, 70, 0), std::numeric_limits<typename TypeParam::Scalar>::quiet_NaN());
  EXPECT_THAT([&] { face::infer(network, typename TypeParam::Space(), samples, activations); },
              ThrowsMessage<face::InputError>(HasSubstr("sample 70 has a value that is not finite at neuron 0")));
}

TYPED_TEST(Views, OfAnotherKindThanTheNetworkAreErrors) {
  using Other = std::conditional_t<std::is_same_v<typename TypeParam::Scalar, float>, double, float>;
  using OtherView = Kokkos::View<Other**, typename TypeParam::Space::memory_space>;
  typename TypeParam::Space const space;
  auto const layers = to_public(random_case(5).network);
  face::PreparedNetwork network(layers, this->options());
  OtherView const samples("samples", 3, network.num_inputs());
  OtherView const activations("activations", 3, network.num_outputs());
  EXPECT_THAT([&] { face::infer(network, space, samples, activations); },
              ThrowsMessage<face::UsageError>(HasSubstr("but the network was prepared for")));
  auto options = this->options();
  options.engine = "reference";
  face::PreparedNetwork reference(layers, options);
  typename TypeParam::View const own("samples", 3, network.num_inputs());
  typename TypeParam::View const result("activations", 3, network.num_outputs());
  EXPECT_THAT([&] { face::infer(reference, space, own, result); },
              ThrowsMessage<face::UsageError>(HasSubstr("the engine reference takes no Views")));
}

#if defined(KOKKOS_ENABLE_OPENMP)
TEST(ViewsOfAnotherBackend, AreErrors) {
  face::InferenceOptions options;
  options.backend = face::Backend::serial;
  face::PreparedNetwork network(to_public(random_case(5).network), options);
  Kokkos::View<float**, Kokkos::HostSpace> const samples("samples", 3, network.num_inputs());
  Kokkos::View<float**, Kokkos::HostSpace> const activations("activations", 3, network.num_outputs());
  EXPECT_THAT([&] { face::infer(network, Kokkos::OpenMP(), samples, activations); },
              ThrowsMessage<face::UsageError>(
                  HasSubstr("the execution space is of the backend openmp, but the network was prepared for serial")));
}
#endif

} // namespace
} // namespace varve::test
