#include "kernels/join_neurons.hpp"

#include "engine/random_case.hpp"
#include "formats/device_layer.hpp"
#include "kernels/execution_spaces.hpp"
#include "kernels/panel_place.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace varve {
namespace {

using test::place_in;

struct Sizes {
  std::size_t slots, first_neuron, part_neurons, neurons, part_tile, tile;
};

template <class ExecutionSpace, class Scalar>
void expect_joined(Sizes const& sizes) {
  auto const [slots, first, part_neurons, neurons, part_tile, tile] = sizes;
  SCOPED_TRACE(testing::Message() << slots << " slots, " << part_neurons << " neurons from " << first << " of "
                                  << neurons << ", tiles of " << part_tile << " and " << tile);
  constexpr int stamp = 5;
  constexpr std::size_t max_in_tile = 64; // stamps are read and written up to the end of a tile
  test::RandomCases random(slots + part_neurons);
  std::vector<Scalar> part((slots + part_tile - 1) / part_tile * part_tile * part_neurons);
  for (auto& value : part) value = static_cast<Scalar>(random.real(-1.0, 1.0));
  std::vector<int> part_stamps(slots + max_in_tile);
  std::vector<int> stamps(slots + max_in_tile);
  for (auto& number : part_stamps) number = static_cast<int>(random.below(2)) * stamp;
  for (auto& number : stamps) number = static_cast<int>(random.below(2)) * stamp;
  std::vector<Scalar> const before((slots + tile - 1) / tile * tile * neurons, Scalar(-7));

  ExecutionSpace const space;
  auto const device_part = upload<ExecutionSpace>("part", part);
  auto const device_part_stamps = upload<ExecutionSpace>("part_stamps", part_stamps);
  auto const device_stamps = upload<ExecutionSpace>("stamps", stamps);
  auto const target = upload<ExecutionSpace>("target", before);
  JoinNeurons<ExecutionSpace, Scalar> kernel{};
  kernel.part = {device_part, device_part_stamps, static_cast<int>(first), static_cast<int>(part_neurons),
                 static_cast<int>(part_tile)};
  kernel.target = target;
  kernel.num_neurons = static_cast<int>(neurons);
  kernel.tile_samples = static_cast<int>(tile);
  kernel.num_slots = static_cast<int>(slots);
  kernel.live_stamps = device_stamps;
  kernel.stamp = stamp;
  join_neurons(space, kernel);
  int count = 0;
  Kokkos::parallel_reduce("count", Kokkos::RangePolicy<ExecutionSpace>(space, 0, kernel.num_slots),
                          CountLive{device_stamps, stamp}, count);

  auto const joined = download(target);
  auto const joined_stamps = download(device_stamps);
  int expected_count = 0;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    for (std::size_t neuron = 0; neuron < neurons; ++neuron) {
      bool const is_in_part = neuron >= first && neuron < first + part_neurons;
      Scalar const expected = is_in_part ? part[place_in(slot, neuron - first, part_neurons, part_tile)] : Scalar(-7);
      ASSERT_EQ(joined[place_in(slot, neuron, neurons, tile)], expected) << slot << " " << neuron;
    }
    bool const is_live = stamps[slot] == stamp || (part_neurons > 0 && part_stamps[slot] == stamp);
    EXPECT_EQ(joined_stamps[slot], is_live ? stamp : 0) << slot;
    expected_count += is_live ? 1 : 0;
  }
  EXPECT_EQ(count, expected_count);
}

template <class ExecutionSpace>
class JoinedNeurons : public testing::Test {};
TYPED_TEST_SUITE(JoinedNeurons, test::ExecutionSpaces, test::NameOfSpace);

TYPED_TEST(JoinedNeurons, StandWhereTheyBelongWithTheirStamps) {
  for (std::size_t const slots : {1U, 31U, 64U, 65U, 200U}) {
    for (std::size_t const part_tile : {8U, 32U, 64U}) {
      for (std::size_t const tile : {8U, 32U, 64U}) {
        expect_joined<TypeParam, float>({slots, 3, 100, 130, part_tile, tile});
        expect_joined<TypeParam, double>({slots, 0, 1, 7, part_tile, tile});
      }
    }
  }
}

TYPED_TEST(JoinedNeurons, MayBeAllOrNone) {
  expect_joined<TypeParam, float>({70, 0, 37, 37, 64, 32});
  expect_joined<TypeParam, float>({70, 37, 0, 37, 64, 32});
}

} // namespace
} // namespace varve
