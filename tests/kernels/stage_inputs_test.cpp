#include "kernels/staged_forward.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace varve::test {

constexpr int num_neurons = 50;
constexpr int team_size = 64;
using Tile = RotatedTileShape<float, 4, 4>;

/// Of a layer in staged blocks what StageInputs reads.
struct Stages {
  struct Blocks {
    struct {
      int num_inputs = num_neurons;
    } parameters;
  } blocks;
  ArrayView<NeuronIndex const> inputs;
  ArrayView<std::uint32_t const> input_pointers;
  int num_stages;
};

/// Two stages, of an ascending list of 37 inputs and of one input.
std::vector<NeuronIndex> const lists = [] {
  std::vector<NeuronIndex> inputs;
  for (NeuronIndex neuron = 0; neuron < num_neurons && inputs.size() < 37; ++neuron)
    if (neuron % 4 != 2) inputs.push_back(neuron);
  inputs.push_back(11);
  return inputs;
}();
std::vector<std::uint32_t> const pointers = {0, 37, 38};

/// The activation of an input for a slot.
float activation(NeuronIndex neuron, int slot) {
  return static_cast<float>(slot * num_neurons) + static_cast<float>(neuron);
}

/// Brings all tasks of a panel in both ways, with one thread after the other, and expects each activation in its place.
/// from_slot: the slots in use, or none if they are the first `count` ones.
void expect_inputs(int previous_tile_samples, std::vector<int> const& from_slot, int count) {
  constexpr int samples = Tile::num_samples;
  int const slots = (from_slot.empty() ? count : 1 + *std::ranges::max_element(from_slot)) + samples;
  std::vector<float> panel(static_cast<std::size_t>((slots + 63) / 64 * 64 * num_neurons));
  ArrayView<float const> const previous(panel.data(), panel.size());
  for (int slot = 0; slot < (slots + 63) / 64 * 64; ++slot) {
    for (NeuronIndex neuron = 0; neuron < num_neurons; ++neuron)
      panel[place_of_slot(slot, num_neurons, previous_tile_samples) +
            neuron * static_cast<std::size_t>(previous_tile_samples)] = activation(neuron, slot);
  }
  LayerPass<float> pass{};
  pass.previous = previous;
  pass.previous_tile_samples = previous_tile_samples;
  if (!from_slot.empty()) pass.from_slot = ArrayView<int const>(from_slot.data(), from_slot.size());
  Stages const stages{{},
                      ArrayView<NeuronIndex const>(lists.data(), lists.size()),
                      ArrayView<std::uint32_t const>(pointers.data(), pointers.size()),
                      2};

  for (int task = 0; task < num_tiles(count, samples) * stages.num_stages; ++task) {
    struct alignas(64) Inputs {
      float values[37 * samples];
    } gathered, copied;
    std::ranges::fill(gathered.values, -1.0F);
    std::ranges::fill(copied.values, -1.0F);
    for (int rank = 0; rank < team_size; ++rank) {
      StageInputs<Stages, Tile, team_size> const inputs{stages, pass, count, rank};
      inputs.gather(task, ArrayView<float>(gathered.values, 37 * samples));
      inputs.begin_copies(task, ArrayView<float>(copied.values, 37 * samples));
    }
    int const stage = task % 2;
    for (std::uint32_t i = pointers[static_cast<std::size_t>(stage)]; i < pointers[static_cast<std::size_t>(stage + 1)];
         ++i) {
      for (int sample = 0; sample < samples; ++sample) {
        int const slot = pass.slot_of(task / 2 * samples + sample, count);
        auto const place = (i - pointers[static_cast<std::size_t>(stage)]) * samples + static_cast<std::size_t>(sample);
        ASSERT_EQ(gathered.values[place], activation(lists[i], slot))
            << task << ": input " << i << ", sample " << sample;
        ASSERT_EQ(copied.values[place], activation(lists[i], slot)) << task << ": input " << i << ", sample " << sample;
      }
    }
  }
}

TEST(StageInputs, ComeFromSlotsInOrder) {
  for (int const tile_samples : {8, 32, 64}) {
    for (int const count : {1, 31, 32, 70}) {
      SCOPED_TRACE(testing::Message() << count << " samples in tiles of " << tile_samples);
      expect_inputs(tile_samples, {}, count);
    }
  }
}

TEST(StageInputs, ComeThroughAList) {
  std::mt19937 random(3);
  for (int const tile_samples : {1, 2, 8, 32, 64}) {
    for (unsigned const one_in : {1U, 2U, 3U, 9U}) {
      std::vector<int> slots;
      for (int slot = 0; slot < 150; ++slot)
        if (random() % one_in == 0) slots.push_back(slot);
      SCOPED_TRACE(testing::Message() << slots.size() << " samples in tiles of " << tile_samples);
      expect_inputs(tile_samples, slots, static_cast<int>(slots.size()));
    }
  }
}

/// Positions past the end repeat the last slot, so that the first and the last of a piece may differ by as much as if
/// it were four neighbours.
TEST(StageInputs, AreNoNeighboursWhereTheLastSlotRepeats) {
  expect_inputs(32, {8, 11}, 2);
  expect_inputs(32, {4, 5, 7}, 3);
  expect_inputs(32, {4, 6, 7}, 3);
}

} // namespace varve::test
