#pragma once

#include "products/plain_product.hpp"
#include "products/product_engine.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

/// Runs of an engine on random matrices.
namespace varve::test {

constexpr std::size_t enough = std::size_t{1} << 30U; ///< bytes on the device

/// A product of two random matrices.
template <class Scalar>
struct RandomProduct {
  RandomProduct(ProductShape const& shape, unsigned seed)
      : a(random_dense<Scalar>(shape.rows, shape.depth, seed)),
        b(random_dense<Scalar>(shape.depth, shape.columns, seed + 1)),
        transposed_a(varve::test::transposed(a)),
        transposed_b(varve::test::transposed(b)) {}

  /// Of matrices that are stored as they are, or transposed.
  ProductInputs<Scalar> inputs(bool of_a = false, bool of_b = false) const {
    return {of_a ? transposed_a.reader() : a.reader(), of_b ? transposed_b.reader() : b.reader(), of_a, of_b};
  }
  Dense<Scalar> expected() const { return plain_product(a, b); }

  Dense<Scalar> a, b, transposed_a, transposed_b;
};

/// Runs these tasks and puts the tiles together.
template <class Scalar>
Dense<Scalar> run_all(ProductEngine<Scalar>& engine, ProductTiles const& tiles,
                      std::vector<std::uint64_t> const& order) {
  std::size_t place = 0;
  std::set<std::uint64_t> taken;
  Dense<Scalar> c{tiles.shape.rows, tiles.shape.columns,
                  std::vector<Scalar>(tiles.shape.rows * tiles.shape.columns, Scalar(-99))};
  engine.run([&] { return place < order.size() ? std::optional(order[place++]) : std::nullopt; },
             [&](std::uint64_t task, TileSums<Scalar> const& sums) {
               EXPECT_TRUE(taken.insert(task).second) << "task " << task;
               varve::test::keep(c, sums);
             });
  EXPECT_EQ(taken.size(), order.size());
  return c;
}

template <class Scalar>
Dense<Scalar> run_all(ProductEngine<Scalar>& engine, ProductTiles const& tiles) {
  return run_all(engine, tiles, order_of_tasks(tiles));
}

template <class Scalar>
void expect_same_bits(Dense<Scalar> const& found, Dense<Scalar> const& expected, std::string const& where) {
  ASSERT_EQ(found.values.size(), expected.values.size());
  std::size_t num_others = 0;
  for (std::size_t i = 0; i < found.values.size(); ++i) num_others += found.values[i] == expected.values[i] ? 0U : 1U;
  EXPECT_EQ(num_others, 0U) << where;
}

} // namespace varve::test
