#include "core/config.hpp"
#include "core/error.hpp"
#include "products/product_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace varve {
namespace {

using test::Dense;
using test::enough;
using test::RandomProduct;
using test::run_all;

template <class Scalar>
class LibraryProducts : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LibraryProducts, Scalars);

/// Expects sums of `depth` products that differ by rounding only.
template <class Scalar>
void expect_close(Dense<Scalar> const& found, Dense<Scalar> const& expected, std::uint64_t depth,
                  std::string const& where) {
  ASSERT_EQ(found.values.size(), expected.values.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < found.values.size(); ++i)
    largest =
        std::max(largest, std::abs(static_cast<double>(found.values[i]) - static_cast<double>(expected.values[i])));
  EXPECT_LE(largest, static_cast<double>(depth) * std::numeric_limits<Scalar>::epsilon()) << where;
}

TYPED_TEST(LibraryProducts, AgreeWithPlainLoopsWithinRounding) {
  if (VARVE_HAVE_KOKKOS_KERNELS == 0) {
    RandomProduct<TypeParam> const product({3, 4, 5}, 15);
    auto const make = [&] {
      std::make_unique<ProductEngine<TypeParam>>(Backend::serial, tiles_of({3, 4, 5}, 2), enough, product.inputs(),
                                                 ProductWay::library);
    };
    EXPECT_THAT(make, ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("lacks Kokkos Kernels")));
    return;
  }
  for (ProductShape const& shape : {ProductShape{130, 190, 700}, ProductShape{1, 1, 1}, ProductShape{65, 3, 90}}) {
    RandomProduct<TypeParam> const product(shape, 15);
    auto const expected = product.expected();
    for (auto const backend : compiled_backends()) {
      for (std::uint64_t const tile : {37U, 64U, 600U}) {
        auto const tiles = tiles_of(shape, tile);
        for (int const transposes : {0, 1, 2, 3}) {
          auto const inputs = product.inputs(transposes % 2 == 1, transposes / 2 == 1);
          auto const engine =
              std::make_unique<ProductEngine<TypeParam>>(backend, tiles, enough, inputs, ProductWay::library);
          expect_close(run_all(*engine, tiles), expected, shape.depth,
                       to_string(backend) + ", tile " + std::to_string(tile) + ", transposes " +
                           std::to_string(transposes));
        }
      }
    }
  }
}

} // namespace
} // namespace varve
