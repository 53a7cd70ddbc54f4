#include "core/pack.hpp"
#include "engine/random_case.hpp"
#include "formats/device_layer.hpp"
#include "kernels/execution_spaces.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace varve::test {

template <class Scalar>
using BitsOf = std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>;

/// What one call of the operations on a pack is given and gives, for lane 0 ... width - 1.
template <class Scalar>
struct PackCase {
  Scalar weight = 0;
  double bias = 0;
  Bounds<Scalar> bounds{};
};

/// For each case: sum = finish(add_product(sum, weight, value)), seen |= sum, and a copy of it.
template <class ExecutionSpace, class Scalar, int Width>
struct UsePacks {
  using PackType = Pack<Scalar, Width>;

  DeviceArray<ExecutionSpace, PackCase<Scalar>> cases;
  DeviceArray<ExecutionSpace, PackType> values, sums, finished;
  DeviceArray<ExecutionSpace, LaneIntegers<Scalar, Width>> seen;

  KOKKOS_FUNCTION void operator()(int i) const {
    PackType sum;
    clear(sum);
    copy(sum, sums(i));
    add_product(sum, cases(i).weight, values(i));
    copy(sums(i), sum);
    if (cases(i).bounds.curve() == Curve::none) {
      finish(sum, cases(i).bias, cases(i).bounds);
    } else {
      finish_with_curve(sum, cases(i).bias, cases(i).bounds);
    }
    copy(finished(i), sum);
    LaneIntegers<Scalar, Width> bits;
    clear(bits);
    see(bits, sum);
    see(bits, sum);
    seen(i) = bits;
  }
};

/// The same for one number, by the rules.
template <class Scalar>
Scalar finished_scalar(Scalar sum, PackCase<Scalar> const& one) {
  auto const x = static_cast<Scalar>(static_cast<double>(sum) + one.bias);
  Scalar const clipped = x > one.bounds.lower ? (x < one.bounds.upper ? x : one.bounds.upper) : one.bounds.lower;
  Scalar const y = curved(one.bounds.curve(), clipped);
  return y == Scalar(0) ? Scalar(0) : y;
}

template <class Scalar>
std::vector<PackCase<Scalar>> draw_cases(RandomCases& random, std::size_t count) {
  std::vector<PackCase<Scalar>> cases(count);
  std::vector<Bounds<Scalar>> const bounds = {bounds_of<Scalar>(Activation::relu()),
                                              bounds_of<Scalar>(Activation::identity()),
                                              bounds_of<Scalar>(Activation::clipped_relu(1.25)),
                                              bounds_of<Scalar>(Activation::sigmoid()),
                                              bounds_of<Scalar>(Activation::tanh()),
                                              bounds_of<Scalar>(Activation::softplus())};
  for (auto& one : cases) {
    one.weight = static_cast<Scalar>(random.real(-2.0, 2.0));
    one.bias = random.below(4) == 0 ? 0.0 : random.real(-1.0, 1.0);
    one.bounds = bounds.at(random.below(bounds.size()));
  }
  return cases;
}

/// Random numbers, among them every kind of special one.
template <class Scalar>
Scalar draw_number(RandomCases& random) {
  constexpr Scalar tiny = std::numeric_limits<Scalar>::denorm_min();
  constexpr Scalar special[] = {Scalar(0), -Scalar(0), Scalar(1), Scalar(-1), tiny, -tiny, Scalar(32), Scalar(1.25)};
  return random.below(6) == 0 ? special[random.below(8)] : static_cast<Scalar>(random.real(-2.0, 2.0));
}

template <class ExecutionSpace, class Scalar, int Width>
void expect_packs_follow_the_rules() {
  using PackType = Pack<Scalar, Width>;
  constexpr std::size_t count = 2000;
  RandomCases random(Width);
  auto const cases = draw_cases<Scalar>(random, count);
  std::vector<PackType> values(count);
  std::vector<PackType> sums(count);
  for (auto& pack : values)
    for (auto& lane : pack.lane) lane = draw_number<Scalar>(random);
  for (auto& pack : sums)
    for (auto& lane : pack.lane) lane = draw_number<Scalar>(random);

  UsePacks<ExecutionSpace, Scalar, Width> const use{
      upload<ExecutionSpace>("cases", cases), upload<ExecutionSpace>("values", values),
      upload<ExecutionSpace>("sums", sums), DeviceArray<ExecutionSpace, PackType>("finished", count),
      DeviceArray<ExecutionSpace, LaneIntegers<Scalar, Width>>("seen", count)};
  Kokkos::parallel_for("use_packs", Kokkos::RangePolicy<ExecutionSpace>(0, static_cast<int>(count)), use);
  ExecutionSpace().fence("use packs");
  auto const found_sums = download(use.sums);
  auto const found = download(use.finished);
  auto const seen = download(use.seen);

  std::size_t num_told_apart = 0; // lanes in which a separately rounded product gives another sum
  for (std::size_t i = 0; i < count; ++i) {
    for (int lane = 0; lane < Width; ++lane) {
      auto const value = values[i].lane[lane];
      auto const sum = std::fma(cases[i].weight, value, sums[i].lane[lane]);
      Scalar const volatile product = cases[i].weight * value;
      num_told_apart += product + sums[i].lane[lane] != sum ? 1 : 0;
      using Bits = BitsOf<Scalar>;
      ASSERT_EQ(std::bit_cast<Bits>(found_sums[i].lane[lane]), std::bit_cast<Bits>(sum)) << i << " " << lane;
      auto const finished = finished_scalar(sum, cases[i]);
      ASSERT_EQ(std::bit_cast<Bits>(found[i].lane[lane]), std::bit_cast<Bits>(finished)) << i << " " << lane;
      ASSERT_EQ(static_cast<Bits>(seen[i].lane[lane]), std::bit_cast<Bits>(finished));
    }
  }
  EXPECT_GT(num_told_apart, count * Width / 10);
}

/// Gives what finish makes of one number, in all lanes.
template <class ExecutionSpace, class Scalar>
Scalar finished(Scalar x, double bias, Bounds<Scalar> bounds) {
  using PackType = Pack<Scalar, 4>;
  PackType pack;
  for (auto& lane : pack.lane) lane = x;
  UsePacks<ExecutionSpace, Scalar, 4> const use{
      upload<ExecutionSpace>("cases", std::vector<PackCase<Scalar>>{{Scalar(0), bias, bounds}}),
      upload<ExecutionSpace>("values", std::vector<PackType>(1, PackType{})),
      upload<ExecutionSpace>("sums", std::vector<PackType>{pack}), DeviceArray<ExecutionSpace, PackType>("finished", 1),
      DeviceArray<ExecutionSpace, LaneIntegers<Scalar, 4>>("seen", 1)};
  Kokkos::parallel_for("use_packs", Kokkos::RangePolicy<ExecutionSpace>(0, 1), use);
  ExecutionSpace().fence("use packs");
  auto const result = download(use.finished)[0];
  for (auto const lane : result.lane) {
    EXPECT_EQ(std::bit_cast<BitsOf<Scalar>>(lane), std::bit_cast<BitsOf<Scalar>>(result.lane[0]));
  }
  return result.lane[0];
}

template <class ExecutionSpace, class Scalar>
void expect_special_numbers_are_finished() {
  constexpr Scalar nan = std::numeric_limits<Scalar>::quiet_NaN();
  constexpr Scalar infinity = std::numeric_limits<Scalar>::infinity();
  constexpr Scalar largest = std::numeric_limits<Scalar>::max();
  auto const relu = bounds_of<Scalar>(Activation::relu());
  auto const clipped = bounds_of<Scalar>(Activation::clipped_relu(32.0));
  auto const identity = bounds_of<Scalar>(Activation::identity());
  auto const is_positive_zero = [](Scalar x) { return std::bit_cast<BitsOf<Scalar>>(x) == 0; };
  EXPECT_TRUE(is_positive_zero((finished<ExecutionSpace, Scalar>(nan, 0.0, relu))));
  EXPECT_TRUE(is_positive_zero((finished<ExecutionSpace, Scalar>(nan, -1.0, clipped))));
  EXPECT_EQ((finished<ExecutionSpace, Scalar>(nan, 0.0, identity)), -largest);
  EXPECT_EQ((finished<ExecutionSpace, Scalar>(infinity, -1.0, clipped)), Scalar(32));
  EXPECT_EQ((finished<ExecutionSpace, Scalar>(infinity, -1.0, relu)), largest);
  EXPECT_EQ((finished<ExecutionSpace, Scalar>(-infinity, 1.0, identity)), -largest);
  EXPECT_EQ((finished<ExecutionSpace, Scalar>(largest, static_cast<double>(largest), identity)), largest);
  EXPECT_TRUE(is_positive_zero((finished<ExecutionSpace, Scalar>(-infinity, 1.0, clipped))));
  for (auto const& bounds : {relu, clipped, identity}) {
    EXPECT_TRUE(is_positive_zero((finished<ExecutionSpace, Scalar>(-Scalar(0), 0.0, bounds))));
    EXPECT_TRUE(is_positive_zero((finished<ExecutionSpace, Scalar>(-Scalar(0), -0.0, bounds))));
    EXPECT_TRUE(is_positive_zero((finished<ExecutionSpace, Scalar>(Scalar(0.5), -0.5, bounds))));
  }
  auto const sigmoid = bounds_of<Scalar>(Activation::sigmoid());
  auto const tanh = bounds_of<Scalar>(Activation::tanh());
  EXPECT_EQ((finished<ExecutionSpace, Scalar>(infinity, 1.0, sigmoid)), Scalar(1));
  EXPECT_TRUE(is_positive_zero((finished<ExecutionSpace, Scalar>(-infinity, 1.0, sigmoid))));
  EXPECT_TRUE(is_positive_zero((finished<ExecutionSpace, Scalar>(nan, 1.0, sigmoid))));
  EXPECT_EQ((finished<ExecutionSpace, Scalar>(Scalar(0.5), -0.5, sigmoid)), Scalar(0.5));
  EXPECT_EQ((finished<ExecutionSpace, Scalar>(-infinity, 1.0, tanh)), Scalar(-1));
  EXPECT_TRUE(is_positive_zero((finished<ExecutionSpace, Scalar>(-Scalar(0), -0.0, tanh))));
  EXPECT_EQ((finished<ExecutionSpace, Scalar>(Scalar(31.5), 0.5, clipped)), Scalar(32));
  EXPECT_EQ((finished<ExecutionSpace, Scalar>(Scalar(40), 0.5, clipped)), Scalar(32));
  EXPECT_EQ((finished<ExecutionSpace, Scalar>(Scalar(40), 0.5, relu)), Scalar(40.5));
  EXPECT_EQ((finished<ExecutionSpace, Scalar>(Scalar(-40), 0.5, identity)), Scalar(-39.5));
}

/// sums(i) = a chain of products of all values with the weights from the i-th on, in one pack. A compiler that is free
/// to fuse may leave such a chain unfused, because each sum waits for the one before.
template <class ExecutionSpace, class Scalar, int Width>
struct AddUpProducts {
  DeviceArray<ExecutionSpace, Scalar> weights;
  DeviceArray<ExecutionSpace, Pack<Scalar, Width>> values;
  DeviceArray<ExecutionSpace, Pack<Scalar, Width>> sums;

  KOKKOS_FUNCTION void operator()(int i) const {
    Pack<Scalar, Width> sum;
    clear(sum);
    int const count = static_cast<int>(weights.extent(0));
    for (int edge = 0; edge < count; ++edge) add_product(sum, weights((i + edge) % count), values(edge));
    copy(sums(i), sum);
  }
};

template <class ExecutionSpace, class Scalar, int Width>
void expect_chains_are_fused() {
  constexpr std::size_t count = 64;
  RandomCases random(Width);
  std::vector<Scalar> weights(count);
  std::vector<Pack<Scalar, Width>> values(count);
  for (auto& weight : weights) weight = static_cast<Scalar>(random.real(-2.0, 2.0));
  for (auto& pack : values)
    for (auto& lane : pack.lane) lane = static_cast<Scalar>(random.real(-2.0, 2.0));
  AddUpProducts<ExecutionSpace, Scalar, Width> const use{
      upload<ExecutionSpace>("weights", weights), upload<ExecutionSpace>("values", values),
      DeviceArray<ExecutionSpace, Pack<Scalar, Width>>("sums", count)};
  Kokkos::parallel_for("add_up_products", Kokkos::RangePolicy<ExecutionSpace>(0, static_cast<int>(count)), use);
  ExecutionSpace().fence("add up products");
  auto const found = download(use.sums);
  std::size_t num_told_apart = 0; // lanes in which separately rounded products give another sum
  for (std::size_t i = 0; i < count; ++i) {
    for (int lane = 0; lane < Width; ++lane) {
      Scalar fused = 0;
      Scalar volatile rounded_twice = 0;
      for (std::size_t edge = 0; edge < count; ++edge) {
        Scalar const weight = weights[(i + edge) % count];
        fused = std::fma(weight, values[edge].lane[lane], fused);
        Scalar const volatile product = weight * values[edge].lane[lane];
        rounded_twice = rounded_twice + product;
      }
      num_told_apart += rounded_twice != fused ? 1 : 0;
      using Bits = BitsOf<Scalar>;
      ASSERT_EQ(std::bit_cast<Bits>(found[i].lane[lane]), std::bit_cast<Bits>(fused))
          << Width << " " << i << " " << lane;
    }
  }
  EXPECT_GT(num_told_apart, count * Width / 2);
}

} // namespace varve::test

namespace varve {
namespace {

template <class ExecutionSpace>
class Packs : public testing::Test {};
TYPED_TEST_SUITE(Packs, test::ExecutionSpaces, test::NameOfSpace);

TYPED_TEST(Packs, FollowTheRulesBitForBitInFloat) {
  test::expect_packs_follow_the_rules<TypeParam, float, 1>();
  test::expect_packs_follow_the_rules<TypeParam, float, 4>();
  test::expect_packs_follow_the_rules<TypeParam, float, 8>();
  test::expect_packs_follow_the_rules<TypeParam, float, 16>();
}

TYPED_TEST(Packs, FollowTheRulesBitForBitInDouble) {
  test::expect_packs_follow_the_rules<TypeParam, double, 1>();
  test::expect_packs_follow_the_rules<TypeParam, double, 2>();
  test::expect_packs_follow_the_rules<TypeParam, double, 4>();
  test::expect_packs_follow_the_rules<TypeParam, double, 8>();
}

TYPED_TEST(Packs, ChainsOfProductsAreFused) {
  test::expect_chains_are_fused<TypeParam, float, 1>();
  test::expect_chains_are_fused<TypeParam, float, 4>();
  test::expect_chains_are_fused<TypeParam, float, 8>();
  test::expect_chains_are_fused<TypeParam, float, 16>();
  test::expect_chains_are_fused<TypeParam, double, 1>();
  test::expect_chains_are_fused<TypeParam, double, 4>();
  test::expect_chains_are_fused<TypeParam, double, 8>();
}

TYPED_TEST(Packs, FinishSpecialNumbers) {
  test::expect_special_numbers_are_finished<TypeParam, float>();
  test::expect_special_numbers_are_finished<TypeParam, double>();
}

} // namespace
} // namespace varve
