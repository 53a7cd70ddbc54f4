#include "distribute/shared_product.hpp"

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/runtime.hpp"
#include "products/product_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

constexpr ProductShape shape{200, 210, 300}; // 7 x 7 tasks in 5 steps, and none of the tiles at the edges is whole
constexpr std::size_t num_inputs = (7 + 7) * 5;

/// What one rank did.
struct Outcome {
  ProductTraffic traffic;
  std::uint64_t num_tasks = 0;
  std::uint64_t num_read = 0; ///< numbers
};

template <class Scalar>
class TileSharings : public ::testing::Test {
protected:
  Communicator const ranks_;
  ProductTiles const tiles_ = tiles_of(shape, 32);
  test::RandomProduct<Scalar> const product_{shape, 5};
  test::Dense<Scalar> const expected_ = product_.expected();
  std::atomic<std::uint64_t> num_read_ = 0;

  /// Memory for so many tiles of A and B besides those of tasks.
  std::size_t limit_for(Backend backend, std::size_t num_slots) const {
    auto const memory = plan_product(tiles_, product_device<Scalar>(backend, test::enough));
    return (num_slots < 8 ? 1 : memory.num_lanes) * memory.lane_bytes + num_slots * memory.slot_bytes;
  }

  std::unique_ptr<ProductEngine<Scalar>> make_engine(Backend backend, std::size_t num_slots) {
    auto inputs = product_.inputs();
    auto const counted = [this](ReadBlock<Scalar> const& read) -> ReadBlock<Scalar> {
      return [this, read](MatrixBlock const& block, Scalar* values) {
        num_read_ += block.size();
        read(block, values);
      };
    };
    inputs.a = counted(inputs.a);
    inputs.b = counted(inputs.b);
    return std::make_unique<ProductEngine<Scalar>>(backend, tiles_, limit_for(backend, num_slots), inputs);
  }

  /// Runs all tasks on all ranks and expects the bits of plain loops.
  Outcome multiply(ProductEngine<Scalar>& engine, std::vector<std::uint64_t> const& tasks, int delay = 0) {
    TileQueue queue(ranks_, tasks, false);
    Outcome outcome;
    num_read_ = 0;
    std::atomic<std::uint64_t> num_finished = 0;
    ranks_.together([&] {
      auto const next = [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(delay));
        return queue.next([&](std::uint64_t task) { return engine.num_kept(task); }, num_finished);
      };
      engine.run(next, [&](std::uint64_t, TileSums<Scalar> const& sums) {
        auto found = expected_;
        test::keep(found, sums);
        test::expect_same_bits(found, expected_, "rank " + std::to_string(ranks_.rank()));
        ++outcome.num_tasks;
        ++num_finished;
      });
    });
    outcome.traffic = engine.traffic();
    outcome.num_read = num_read_;
    EXPECT_EQ(ranks_.sum(outcome.num_tasks), tasks.size());
    return outcome;
  }
};

using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(TileSharings, Scalars);

TYPED_TEST(TileSharings, GiveTheBitsOfPlainLoopsWhateverTheCache) {
  for (auto const backend : compiled_backends()) {
    for (std::size_t const num_slots : {2U, 3U, 9U, 30U, 70U}) {
      for (int const delay_of_root : {0, 5}) { // others compute more
        auto const engine = this->make_engine(backend, num_slots);
        TileSharing const sharing(this->ranks_, *engine);
        EXPECT_EQ(sharing.peers().size(), static_cast<std::size_t>(this->ranks_.size() - 1));
        for (auto const& peer : sharing.peers()) EXPECT_EQ(peer.obstacle, "");
        auto const tasks = order_of_tasks(this->tiles_);
        auto const outcome = this->multiply(*engine, tasks, this->ranks_.is_root() ? delay_of_root : 0);
        EXPECT_LE(outcome.traffic.peers.num_copied, outcome.traffic.num_misses);
        EXPECT_LE(outcome.traffic.peers.bytes, outcome.traffic.loaded_bytes);
        EXPECT_EQ(outcome.num_read * sizeof(TypeParam),
                  static_cast<std::uint64_t>(outcome.traffic.loaded_bytes - outcome.traffic.peers.bytes));
      }
    }
  }
}

TYPED_TEST(TileSharings, ReadLess) {
  for (auto const backend : compiled_backends()) {
    auto const tasks = order_of_tasks(this->tiles_);
    std::vector<std::uint64_t> num_read;
    std::uint64_t num_copied = 0;
    for (bool const is_shared : {false, true}) {
      auto const engine = this->make_engine(backend, num_inputs);
      std::optional<TileSharing> sharing;
      if (is_shared) sharing.emplace(this->ranks_, *engine);
      auto const outcome = this->multiply(*engine, tasks, 2);
      num_read.push_back(this->ranks_.sum(outcome.num_read));
      num_copied = this->ranks_.sum(outcome.traffic.peers.num_copied);
    }
    auto const least = (shape.rows + shape.columns) * shape.depth;
    if (this->ranks_.size() == 1) {
      EXPECT_EQ(num_read, (std::vector<std::uint64_t>{least, least}));
    } else if (this->ranks_.is_root()) {
      EXPECT_LT(num_read[1], num_read[0]);
      EXPECT_GT(num_copied, 0U);
    }
  }
}

TYPED_TEST(TileSharings, RunAgainWithTheTilesThatAreThere) {
  auto const backend = compiled_backends().front();
  auto const engine = this->make_engine(backend, num_inputs);
  TileSharing const sharing(this->ranks_, *engine);
  auto const tasks = order_of_tasks(this->tiles_);
  this->multiply(*engine, tasks);
  this->multiply(*engine, tasks);
  auto const third = this->multiply(*engine, tasks);
  EXPECT_LT(third.num_read, (shape.rows + shape.columns) * shape.depth);
}

TYPED_TEST(TileSharings, EndTogetherIfOneFails) {
  auto const backend = compiled_backends().back();
  auto inputs = this->product_.inputs();
  auto const last = this->ranks_.size() - 1;
  auto const read_a = inputs.a;
  int num_read = 0;
  inputs.a = [&, read_a](MatrixBlock const& block, TypeParam* values) {
    if (this->ranks_.rank() == last && ++num_read == 2) throw InputError("the file is broken"); // it may get few tasks
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    read_a(block, values);
  };
  auto const engine =
      std::make_unique<ProductEngine<TypeParam>>(backend, this->tiles_, this->limit_for(backend, num_inputs), inputs);
  TileSharing const sharing(this->ranks_, *engine); // collective: ranks begin together
  try {
    this->multiply(*engine, order_of_tasks(this->tiles_), 1);
    ADD_FAILURE() << "no one heard of the failure";
  } catch (Error const& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the file is broken"));
  }
}

// Each rank hears from another one what that one did not say.
TYPED_TEST(TileSharings, OfOthersAreRefusedIfTheyAreUnlikeTheirs) {
  auto const backend = compiled_backends().back();
  auto const peers_if = [&](std::string const& offer) {
    auto const engine = this->make_engine(backend, 4);
    return engine->share_tiles(0, [&](std::string const& mine) { return std::vector<std::string>{mine, offer}; });
  };
  auto const of_another_layout = peers_if(host_name() + "\nanother\n\n\nhandle");
  ASSERT_EQ(of_another_layout.size(), 1U);
  EXPECT_EQ(of_another_layout[0].rank, 1);
  EXPECT_THAT(of_another_layout[0].obstacle, ::testing::HasSubstr("another layout (another)"));
  EXPECT_TRUE(peers_if("elsewhere\nanother").empty());
}

} // namespace
} // namespace varve
