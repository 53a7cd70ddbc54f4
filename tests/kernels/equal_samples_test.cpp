#include "engine/random_case.hpp"
#include "formats/device_layer.hpp"
#include "kernels/equal_samples.hpp"
#include "kernels/execution_spaces.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <vector>

namespace varve {
namespace {

using Rows = std::vector<std::vector<float>>; ///< the activations of each sample

/// The result of a search for equal samples.
struct Found {
  std::vector<int> distinct;       ///< ids of the samples that stay, in order
  std::vector<int> from_slot;      ///< slots of the samples that stay
  std::vector<int> represented_by; ///< by id: the sample that represents it
  int pays_off = 0;
};

template <class ExecutionSpace>
class EqualSamplesOf : public testing::Test {
protected:
  /// Samples lie in tiles of 16, sample p in slot `slots[p]`; ids are 0, 1, 2 ...
  static Found find(Rows const& rows, std::vector<int> const& slots, std::uint64_t hash_mask) {
    constexpr std::size_t tile = 16;
    ExecutionSpace const space;
    std::size_t const width = rows.front().size();
    int const count = static_cast<int>(rows.size());
    std::size_t const most = (static_cast<std::size_t>(*std::ranges::max_element(slots)) + tile) / tile * tile;
    std::vector<float> panel(most * width, -1.0F);
    for (std::size_t p = 0; p < rows.size(); ++p) {
      auto const slot = static_cast<std::size_t>(slots[p]);
      for (std::size_t neuron = 0; neuron < width; ++neuron)
        panel[slot / tile * width * tile + neuron * tile + slot % tile] = rows[p][neuron];
    }
    std::vector<int> ids(rows.size());
    std::iota(ids.begin(), ids.end(), 0);
    auto const device_panel = upload<ExecutionSpace>("panel", panel);
    auto const from_slot = upload<ExecutionSpace>("from_slot", slots);
    auto const device_ids = upload<ExecutionSpace>("ids", ids);
    auto const represented_by = upload<ExecutionSpace>("represented_by", ids);
    auto const worth = upload<ExecutionSpace>("worth", std::vector<int>{1});
    auto const counts = upload<ExecutionSpace>("counts", std::vector<int>{count, -1});
    DeviceArray<ExecutionSpace, int> const stamps("stamps", rows.size());
    DeviceArray<ExecutionSpace, int> const next_ids("next_ids", rows.size());
    DeviceArray<ExecutionSpace, int> const next_slots("next_slots", rows.size());
    DeviceArray<ExecutionSpace, int> const candidate("candidate", rows.size());
    DeviceArray<ExecutionSpace, int> const table("table", std::bit_ceil(2 * rows.size()));
    DeviceArray<ExecutionSpace, std::uint64_t> const hashes("hashes", rows.size());
    EqualSamples const equal{hashes,         table,    static_cast<int>(table.size()) - 1, candidate, worth,
                             represented_by, hash_mask};
    list_distinct_samples(space, PanelPositions<float>{device_panel, tile, static_cast<int>(width), from_slot, counts},
                          ListDistinctSamples<ExecutionSpace>{counts, part_of(counts, 1), stamps, 1, device_ids,
                                                              next_ids, from_slot, next_slots, equal, count},
                          stamps);
    space.fence("list distinct samples");
    auto const num_distinct = static_cast<std::size_t>(download(counts)[1]);
    Found found{download(next_ids), download(next_slots), download(represented_by), download(worth)[0]};
    found.distinct.resize(num_distinct);
    found.from_slot.resize(num_distinct);
    return found;
  }

  /// `kinds` different samples, many times each, in random slots.
  static Rows draw(test::RandomCases& random, std::size_t count, std::size_t width, std::size_t kinds) {
    Rows different(kinds, std::vector<float>(width));
    for (auto& row : different) {
      for (auto& value : row) value = random.below(3) == 0 ? static_cast<float>(random.real(0.0, 1.0)) : 0.0F;
    }
    for (std::size_t kind = 1; kind < kinds; kind += 2) { // half of them differ from their neighbour in one last bit
      different[kind] = different[kind - 1];
      auto& value = different[kind][random.below(width)];
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1U);
    }
    Rows rows;
    for (std::size_t i = 0; i < count; ++i) rows.push_back(different[random.below(kinds)]);
    return rows;
  }

  static std::vector<int> draw_slots(test::RandomCases& random, std::size_t count) {
    std::vector<int> slots(count);
    int slot = 0;
    for (auto& next : slots) next = slot += 1 + static_cast<int>(random.below(3));
    return slots;
  }
};
TYPED_TEST_SUITE(EqualSamplesOf, test::ExecutionSpaces, test::NameOfSpace);

TYPED_TEST(EqualSamplesOf, EachKindOneStays) {
  test::RandomCases random(3);
  for (std::size_t const count : {1U, 2U, 33U, 500U}) {
    for (std::size_t const width : {1U, 127U, 128U, 129U, 300U}) {
      auto const rows = this->draw(random, count, width, 1 + count / 5);
      auto const slots = this->draw_slots(random, count);
      auto const found = this->find(rows, slots, ~std::uint64_t(0));
      std::map<std::vector<float>, std::vector<int>> by_activations;
      for (std::size_t i = 0; i < count; ++i) by_activations[rows[i]].push_back(static_cast<int>(i));
      EXPECT_EQ(found.distinct.size(), by_activations.size());
      EXPECT_TRUE(std::ranges::is_sorted(found.distinct));
      for (std::size_t i = 0; i < found.distinct.size(); ++i)
        EXPECT_EQ(found.from_slot[i], slots[static_cast<std::size_t>(found.distinct[i])]);
      for (auto const& [row, ids] : by_activations) {
        int const stays = found.represented_by[static_cast<std::size_t>(ids.front())];
        EXPECT_EQ(found.represented_by[static_cast<std::size_t>(stays)], stays);
        EXPECT_TRUE(std::ranges::binary_search(found.distinct, stays));
        for (int const id : ids) EXPECT_EQ(found.represented_by[static_cast<std::size_t>(id)], stays);
      }
    }
  }
}

/// If hashes collide, fewer equal samples are found, but no sample is joined to a different one.
TYPED_TEST(EqualSamplesOf, CollidingHashesJoinNobody) {
  test::RandomCases random(4);
  for (std::uint64_t const hash_mask : {std::uint64_t(0), std::uint64_t(1) << 20U, std::uint64_t(7) << 20U}) {
    auto const rows = this->draw(random, 300, 70, 40);
    auto const slots = this->draw_slots(random, 300);
    auto const found = this->find(rows, slots, hash_mask);
    EXPECT_GE(found.distinct.size(), 40U - 5U);
    std::size_t num_represented = 0;
    for (std::size_t id = 0; id < rows.size(); ++id) {
      auto const by = static_cast<std::size_t>(found.represented_by[id]);
      EXPECT_EQ(rows[id], rows[by]) << id << " is represented by " << by;
      num_represented += by != id ? 1 : 0;
    }
    EXPECT_GT(num_represented, 0U);
    EXPECT_EQ(num_represented + found.distinct.size(), rows.size());
  }
}

TYPED_TEST(EqualSamplesOf, WhereFewAreEqualNobodyLooksAgain) {
  test::RandomCases random(6);
  auto rows = this->draw(random, 200, 50, 2);
  for (std::size_t i = 2; i < rows.size(); ++i) {
    for (auto& value : rows[i]) value = static_cast<float>(random.real(0.0, 1.0));
  }
  auto const slots = this->draw_slots(random, rows.size());
  EXPECT_EQ(this->find(rows, slots, ~std::uint64_t(0)).pays_off, 0);
  EXPECT_EQ(this->find(this->draw(random, 200, 50, 100), slots, ~std::uint64_t(0)).pays_off, 1);
}

} // namespace
} // namespace varve
