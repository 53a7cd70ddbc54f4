#include "engine/random_case.hpp"
#include "formats/device_layer.hpp"
#include "kernels/execution_spaces.hpp"
#include "kernels/live_samples.hpp"
#include "kernels/panel_place.hpp"
#include "kernels/samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace varve {
namespace {

using test::place_in;

template <class ExecutionSpace>
class LiveSamples : public testing::Test {
protected:
  /// What the list holds of the live samples.
  struct Listed {
    std::vector<int> from_slot, ids;
  };

  /// The first `num_slots` of the slots are held; `stamps` says which are live.
  static Listed list(std::vector<int> const& stamps, int stamp, std::vector<int> const& ids, int num_slots) {
    ExecutionSpace const space;
    auto const count = stamps.size();
    auto const counts = upload<ExecutionSpace>("counts", std::vector<int>{num_slots, -1});
    auto const device_stamps = upload<ExecutionSpace>("stamps", stamps);
    auto const device_ids = upload<ExecutionSpace>("ids", ids);
    DeviceArray<ExecutionSpace, int> const next_ids("next_ids", count);
    DeviceArray<ExecutionSpace, int> const from_slot("from_slot", count);
    list_live_samples(space, ListLiveSamples<ExecutionSpace>{counts, part_of(counts, 1), device_stamps, stamp,
                                                             device_ids, next_ids, from_slot, static_cast<int>(count)});
    space.fence("list live samples");
    Listed listed{download(from_slot), download(next_ids)};
    auto const num_live = static_cast<std::size_t>(download(counts)[1]);
    EXPECT_LE(num_live, count);
    listed.from_slot.resize(num_live);
    listed.ids.resize(num_live);
    return listed;
  }

  static Listed expected(std::vector<int> const& stamps, int stamp, std::vector<int> const& ids, int num_slots) {
    Listed listed;
    for (int slot = 0; slot < num_slots; ++slot) {
      auto const place = static_cast<std::size_t>(slot);
      if (stamp >= 0 && stamps[place] != stamp) continue;
      listed.from_slot.push_back(slot);
      listed.ids.push_back(ids[place]);
    }
    return listed;
  }
};
TYPED_TEST_SUITE(LiveSamples, test::ExecutionSpaces, test::NameOfSpace);

TYPED_TEST(LiveSamples, AreListedInOrder) {
  test::RandomCases random(1);
  for (std::size_t const count : {1U, 2U, 31U, 32U, 33U, 64U, 1000U, 5000U}) {
    for (std::size_t const one_in : {1U, 2U, 50U}) {
      std::vector<int> stamps(count);
      std::vector<int> ids(count);
      for (auto& stamp : stamps) stamp = random.below(one_in) == 0 ? 7 : 6;
      for (auto& id : ids) id = static_cast<int>(random.below(100000));
      for (int const num_slots : {static_cast<int>(count), static_cast<int>(count / 2), 0}) {
        for (int const stamp : {7, 8, -1}) {
          auto const found = this->list(stamps, stamp, ids, num_slots);
          auto const right = this->expected(stamps, stamp, ids, num_slots);
          EXPECT_EQ(found.from_slot, right.from_slot) << count << " " << one_in << " " << num_slots << " " << stamp;
          EXPECT_EQ(found.ids, right.ids);
        }
      }
    }
  }
}

template <class ExecutionSpace, class Scalar>
void expect_moved(std::size_t num_slots, std::size_t num_neurons, std::size_t source_tile, std::size_t target_tile) {
  test::RandomCases random(num_slots);
  auto const panel_size = [&](std::size_t tile) { return (num_slots + tile - 1) / tile * tile * num_neurons; };
  std::vector<Scalar> source(panel_size(source_tile));
  for (auto& value : source) value = static_cast<Scalar>(random.real(-1.0, 1.0));
  std::vector<int> from_slot;
  for (std::size_t slot = 0; slot < num_slots; ++slot) {
    if (random.below(3) != 0) from_slot.push_back(static_cast<int>(slot));
  }
  ExecutionSpace const space;
  auto const device_source = upload<ExecutionSpace>("source", source);
  auto const device_from_slot = upload<ExecutionSpace>("from_slot", from_slot);
  auto const num_live = upload<ExecutionSpace>("num_live", std::vector<int>{static_cast<int>(from_slot.size())});
  DeviceArray<ExecutionSpace, Scalar> const target("target", panel_size(target_tile));
  MoveLiveSamples<ExecutionSpace, Scalar> kernel{};
  kernel.source = device_source;
  kernel.target = target;
  kernel.source_tile_samples = static_cast<int>(source_tile);
  kernel.target_tile_samples = static_cast<int>(target_tile);
  kernel.num_live = num_live;
  kernel.from_slot = device_from_slot;
  kernel.num_neurons = static_cast<int>(num_neurons);
  move_live_samples(space, kernel, static_cast<int>(num_slots));
  space.fence("move live samples");
  auto const moved = download(target);
  for (std::size_t position = 0; position < from_slot.size(); ++position) {
    auto const slot = static_cast<std::size_t>(from_slot[position]);
    for (std::size_t neuron = 0; neuron < num_neurons; ++neuron) {
      ASSERT_EQ(moved[place_in(position, neuron, num_neurons, target_tile)],
                source[place_in(slot, neuron, num_neurons, source_tile)]);
    }
  }
}

TYPED_TEST(LiveSamples, AreMovedTogether) {
  for (std::size_t const num_slots : {1U, 31U, 32U, 33U, 64U, 200U}) {
    for (std::size_t const num_neurons : {1U, 7U, 64U, 130U}) {
      expect_moved<TypeParam, float>(num_slots, num_neurons, 64, 64);
      expect_moved<TypeParam, float>(num_slots, num_neurons, 8, 32);
      expect_moved<TypeParam, float>(num_slots, num_neurons, 32, 8);
      expect_moved<TypeParam, double>(num_slots, num_neurons, 16, 16);
    }
  }
}

/// Tiles hold the samples' values and zeros elsewhere, also where the memory held something else before.
template <class ExecutionSpace, class Tile>
void expect_expanded(SparseMatrix const& matrix) {
  using Scalar = typename Tile::Scalar;
  std::size_t const tile_samples = Tile::num_samples;
  std::size_t const slots = (matrix.num_rows + tile_samples - 1) / tile_samples * tile_samples;
  std::vector<Scalar> const rubbish(slots * matrix.num_columns, Scalar(99));
  ExecutionSpace const space;
  auto const target = upload<ExecutionSpace>("target", rubbish);
  DeviceSamples<ExecutionSpace, Scalar> samples;
  samples.num_samples = static_cast<int>(matrix.num_rows);
  samples.num_neurons = static_cast<int>(matrix.num_columns);
  samples.row_pointers = upload<ExecutionSpace>("row_pointers", matrix.row_pointers);
  samples.columns = upload<ExecutionSpace>("columns", matrix.column_indices);
  samples.values = upload<ExecutionSpace>("values", std::vector<Scalar>(matrix.values.begin(), matrix.values.end()));
  samples.value_stride = matrix.values.size() == 1 ? 0 : 1;
  expand_samples<ExecutionSpace, Tile>(space, samples, target);
  space.fence("expand samples");

  std::vector<Scalar> expected(rubbish.size(), Scalar(0));
  for (std::size_t row = 0; row < matrix.num_rows; ++row) {
    for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
      expected[place_in(row, matrix.column_indices[entry], matrix.num_columns, tile_samples)] =
          static_cast<Scalar>(matrix.value(entry));
    }
  }
  EXPECT_EQ(download(target), expected);
}

TYPED_TEST(LiveSamples, AreExpandedIntoTiles) {
  test::RandomCases random(5);
  for (std::size_t const count : {1U, 15U, 16U, 17U, 64U, 65U, 200U}) {
    auto const matrix = random.draw_matrix(count, 50, 20, 1.0);
    expect_expanded<TypeParam, typename Tuning<TypeParam, float>::Tile>(matrix);
    expect_expanded<TypeParam, typename Tuning<TypeParam, float>::FewTile>(matrix);
    expect_expanded<TypeParam, typename Tuning<TypeParam, double>::Tile>(matrix);
    expect_expanded<TypeParam, typename Tuning<TypeParam, double>::FewTile>(matrix);
  }
}

} // namespace
} // namespace varve
