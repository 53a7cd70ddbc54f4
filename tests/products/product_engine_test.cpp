#include "core/error.hpp"
#include "products/plain_product.hpp"
#include "products/product_engine.hpp"
#include "products/product_run.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::enough;
using test::expect_same_bits;
using test::plain_product;
using test::random_dense;
using test::RandomProduct;
using test::run_all;

template <class Scalar>
class ProductEngines : public ::testing::Test {};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ProductEngines, Scalars);

template <class Scalar>
void expect_product(ProductShape const& shape, std::uint64_t tile, std::size_t limit) {
  RandomProduct<Scalar> const product(shape, 1);
  auto const expected = product.expected();
  auto const tiles = tiles_of(shape, tile);
  for (auto const backend : compiled_backends()) {
    for (int const transposes : {0, 1, 2, 3}) {
      auto const inputs = product.inputs(transposes % 2 == 1, transposes / 2 == 1);
      auto const engine = std::make_unique<ProductEngine<Scalar>>(backend, tiles, limit, inputs);
      auto const where = to_string(backend) + ", tile " + std::to_string(tile) + ", " + std::to_string(shape.rows) +
                         " x " + std::to_string(shape.columns) + " x " + std::to_string(shape.depth) + ", transposes " +
                         std::to_string(transposes);
      expect_same_bits(run_all(*engine, tiles), expected, where);
    }
  }
}

TYPED_TEST(ProductEngines, HaveTheBitsOfPlainLoopsWhateverTheTiles) {
  for (std::uint64_t const tile : {1U, 7U, 32U, 100U, 129U, 400U}) {
    expect_product<TypeParam>({1, 1, 1}, tile, enough);
    expect_product<TypeParam>({13, 33, 65}, tile, enough);
  }
  for (std::uint64_t const tile : {64U, 100U, 130U}) {
    expect_product<TypeParam>({131, 257, 300}, tile, enough);
    expect_product<TypeParam>({300, 12, 128}, tile, enough);
    expect_product<TypeParam>({5, 400, 600}, tile, enough);
  }
}

TYPED_TEST(ProductEngines, ContinueTheChainOverStepsOfManyNumbers) {
  expect_product<TypeParam>({24, 40, 2100}, 600, enough);  // steps of 512, parts of 256
  expect_product<TypeParam>({24, 40, 1300}, 1024, enough); // the last step is shorter
}

/// Bits of each backend for matrices of these numbers, without transposes.
template <class Scalar>
void expect_product_of(test::Numbers numbers, ProductShape const& shape, std::uint64_t tile) {
  auto const a = random_dense<Scalar>(shape.rows, shape.depth, 11, numbers);
  auto const b = random_dense<Scalar>(shape.depth, shape.columns, 12, numbers);
  auto const expected = plain_product(a, b);
  auto const tiles = tiles_of(shape, tile);
  for (auto const backend : compiled_backends()) {
    auto const engine =
        std::make_unique<ProductEngine<Scalar>>(backend, tiles, enough, ProductInputs<Scalar>{a.reader(), b.reader()});
    expect_same_bits(run_all(*engine, tiles), expected,
                     to_string(backend) + ", numbers " + std::to_string(static_cast<int>(numbers)));
  }
}

// On GPUs with FP64 tensor cores this shows that they add products as a chain of fma in ascending order of k.
TYPED_TEST(ProductEngines, HaveTheBitsOfChainsWhateverTheNumbers) {
  for (auto const numbers : {test::Numbers::wide, test::Numbers::tiny, test::Numbers::few}) {
    expect_product_of<TypeParam>(numbers, {70, 90, 1030}, 512);
    expect_product_of<TypeParam>(numbers, {33, 300, 200}, 300);
  }
}

// GPUs take teams of other shapes for tiles of other sizes.
TYPED_TEST(ProductEngines, HaveTheBitsOfChainsInLargeTiles) {
  expect_product_of<TypeParam>(test::Numbers::wide, {700, 1100, 70}, 2048);
  expect_product_of<TypeParam>(test::Numbers::wide, {3000, 3100, 37}, 4096);
}

TYPED_TEST(ProductEngines, HaveTheSameBitsWithTheLeastMemory) {
  ProductShape const shape{150, 130, 140};
  auto const tiles = tiles_of(shape, 32);
  RandomProduct<TypeParam> const product(shape, 3);
  auto const expected = product.expected();
  for (auto const backend : compiled_backends()) {
    auto const device = product_device<TypeParam>(backend, enough);
    auto const whole = plan_product(tiles, device);
    auto const least = whole.lane_bytes + 2 * whole.slot_bytes;
    auto const inputs = product.inputs();
    auto const engine = std::make_unique<ProductEngine<TypeParam>>(backend, tiles, least, inputs);
    EXPECT_EQ(engine->memory().num_lanes, 1U);
    EXPECT_EQ(engine->memory().num_slots, 2U);
    expect_same_bits(run_all(*engine, tiles), expected, to_string(backend));
    EXPECT_THROW(std::make_unique<ProductEngine<TypeParam>>(backend, tiles, least - 1, inputs), ResourceError);
  }
}

TYPED_TEST(ProductEngines, TellWhatTheyDidAndWhen) {
  ProductShape const shape{96, 96, 140};
  auto const tiles = tiles_of(shape, 32);
  RandomProduct<TypeParam> const product(shape, 13);
  auto const inputs = product.inputs();
  auto const engine = std::make_unique<ProductEngine<TypeParam>>(Backend::serial, tiles, enough, inputs);
  run_all(*engine, tiles);
  std::map<ProductEvent::What, std::size_t> counts;
  auto const now = engine->timeline().now();
  for (auto const& event : engine->timeline().events()) {
    ++counts[event.what];
    EXPECT_GE(event.begin, 0.0);
    EXPECT_LE(event.begin, event.end);
    EXPECT_LE(event.end, now);
    EXPECT_LT(event.lane, 4U);
  }
  EXPECT_EQ(counts[ProductEvent::What::task], 9U);
  EXPECT_EQ(counts[ProductEvent::What::finish], 9U);
  EXPECT_EQ(counts[ProductEvent::What::copy], 2U * 3U * 3U);
}

// A reader that fails, a next() or take() that throws: the run ends, no tile that did not come is taken for one that
// did.
TYPED_TEST(ProductEngines, GoOnWithTheSameBitsAfterAnException) {
  ProductShape const shape{150, 130, 300};
  auto const tiles = tiles_of(shape, 64);
  RandomProduct<TypeParam> const product(shape, 17);
  auto const expected = product.expected();
  for (auto const backend : compiled_backends()) {
    auto inputs = product.inputs();
    int num_reads = 0; // by one thread
    int broken_read = 4;
    inputs.a = [&, read = inputs.a](MatrixBlock const& block, TypeParam* values) {
      if (++num_reads == broken_read) throw std::domain_error("reading");
      read(block, values);
    };
    auto const engine = std::make_unique<ProductEngine<TypeParam>>(backend, tiles, enough, inputs);
    EXPECT_THROW(run_all(*engine, tiles, {0, 1, 2}), std::domain_error);
    broken_read = 0;
    std::uint64_t num_next = 0;
    auto const next = [&]() -> std::optional<std::uint64_t> {
      if (num_next == 3) throw std::out_of_range("next");
      return num_next++;
    };
    EXPECT_THROW(engine->run(next, [](std::uint64_t, TileSums<TypeParam> const&) {}), std::out_of_range);
    auto const refuse = [](std::uint64_t task, TileSums<TypeParam> const&) {
      if (task == 2) throw std::length_error("take");
    };
    std::vector<std::uint64_t> const order = order_of_tasks(tiles);
    std::size_t place = 0;
    auto const all = [&] { return place < order.size() ? std::optional(order[place++]) : std::nullopt; };
    EXPECT_THROW(engine->run(all, refuse), std::length_error);
    expect_same_bits(run_all(*engine, tiles), expected, to_string(backend));
  }
}

TEST(ProductTimelines, KeepTheLongestOfTooManyEvents) {
  ProductTimeline timeline;
  timeline = ProductTimeline();
  auto const most = ProductTimeline::max_of_a_kind;
  for (std::size_t number = 0; number < 3 * most; ++number) {
    auto const begin = number % 100 == 0 ? timeline.now() - 10.0 : timeline.now();
    timeline.add({ProductEvent::What::copy, 0, number, begin, timeline.now()});
  }
  timeline.add({ProductEvent::What::finish, 0, 7, timeline.now(), timeline.now()});
  auto const events = timeline.events();
  auto const num_long = std::ranges::count_if(events, [](auto const& event) { return event.end - event.begin > 5.0; });
  EXPECT_EQ(num_long, static_cast<std::ptrdiff_t>(3 * most / 100));
  EXPECT_LE(events.size(), most + 1);
  EXPECT_EQ(events.size() + timeline.num_dropped(), 3 * most + 1);
  EXPECT_EQ(std::ranges::count(events, ProductEvent::What::finish, &ProductEvent::what), 1);
  EXPECT_TRUE(std::ranges::is_sorted(events, {}, &ProductEvent::begin));
}

TYPED_TEST(ProductEngines, BringEachTileOnceIfAllFitAndMoreOftenIfNot) {
  ProductShape const shape{160, 160, 160};
  auto const tiles = tiles_of(shape, 32);
  RandomProduct<TypeParam> const product(shape, 5);
  auto const inputs = product.inputs();
  auto const backend = compiled_backends().back();
  auto const engine = std::make_unique<ProductEngine<TypeParam>>(backend, tiles, enough, inputs);
  run_all(*engine, tiles);
  auto const traffic = engine->traffic();
  EXPECT_EQ(traffic.num_misses, 2U * 5U * 3U);
  EXPECT_EQ(traffic.num_hits, 2U * 3U * 25U - traffic.num_misses);
  EXPECT_EQ(traffic.loaded_bytes, 2.0 * 160 * 160 * sizeof(TypeParam));
  EXPECT_EQ(traffic.all_bytes, 2.0 * 5 * 160 * 160 * sizeof(TypeParam));
  EXPECT_EQ(traffic.loaded_bytes, min_traffic(shape, sizeof(TypeParam), {1e9}));

  auto const whole = engine->memory();
  auto const limit = 4 * whole.lane_bytes + 8 * whole.slot_bytes;
  auto const small = std::make_unique<ProductEngine<TypeParam>>(backend, tiles, limit, inputs);
  EXPECT_EQ(small->memory().order, (ProductOrder{2, false, true}));
  EXPECT_LE(small->memory().bytes(), limit);
  expect_same_bits(run_all(*small, tiles, order_of_tasks(tiles, small->memory().order)), product.expected(), "bands");
  EXPECT_GT(small->traffic().num_misses, traffic.num_misses);
  // A once, and B once for each of three bands: a cache of other tiles than these would bring half or more
  EXPECT_LE(small->traffic().loaded_bytes, 0.4 * traffic.all_bytes);
}

// Not a row of tiles fits: nine tasks at a time, whose sums take the products of each step in turns.
TYPED_TEST(ProductEngines, HaveTheSameBitsInBlocksOfManyTasks) {
  ProductShape const shape{270, 290, 1200};
  auto const tiles = tiles_of(shape, 30); // 9 x 10 tasks of 19 steps
  RandomProduct<TypeParam> const product(shape, 21);
  auto const expected = product.expected();
  auto const inputs = product.inputs(true, false);
  for (auto const backend : compiled_backends()) {
    auto const whole = plan_product(tiles, product_device<TypeParam>(backend, enough));
    auto const limit = 9 * whole.lane_bytes + 8 * whole.slot_bytes;
    auto const engine = std::make_unique<ProductEngine<TypeParam>>(backend, tiles, limit, inputs);
    EXPECT_EQ(engine->memory().num_lanes, 9U);
    expect_same_bits(run_all(*engine, tiles, order_of_tasks(tiles, engine->memory().order)), expected,
                     to_string(backend));
    EXPECT_LT(engine->traffic().loaded_bytes, 0.4 * engine->traffic().all_bytes);
  }
}

TYPED_TEST(ProductEngines, SayWhichTilesTheyKeep) {
  ProductShape const shape{64, 64, 160};
  auto const tiles = tiles_of(shape, 32);
  RandomProduct<TypeParam> const product(shape, 7);
  auto const inputs = product.inputs();
  auto const engine = std::make_unique<ProductEngine<TypeParam>>(Backend::serial, tiles, enough, inputs);
  EXPECT_EQ(engine->num_kept(0), 0U);
  bool is_taken = false;
  engine->run([&] { return std::exchange(is_taken, true) ? std::nullopt : std::optional<std::uint64_t>(0); },
              [](std::uint64_t, TileSums<TypeParam> const&) {});
  EXPECT_EQ(engine->num_kept(0), 6U);
  EXPECT_EQ(engine->num_kept(1), 3U); // the row tiles of A
  EXPECT_EQ(engine->num_kept(3), 0U);
}

} // namespace
} // namespace varve
