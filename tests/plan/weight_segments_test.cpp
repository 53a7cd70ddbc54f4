#include "plan/weight_segments.hpp"

#include "core/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace varve {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::size_t sum(std::vector<std::size_t> const& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t(0));
}

/// Segments hold all layers in order, fit their places, and two neighbours of those that do not stay share no buffer.
void expect_sound(WeightSegments const& plan, std::vector<std::size_t> const& layer_bytes, std::size_t room) {
  EXPECT_LE(plan.device_bytes(), room);
  EXPECT_GE(plan.num_buffers, 2U);
  std::size_t next_layer = 0;
  std::size_t resident_bytes = 0;
  std::size_t num_streamed = 0;
  for (auto const& segment : plan.segments) {
    ASSERT_EQ(segment.first_layer, next_layer);
    ASSERT_LE(segment.first_layer, segment.last_layer);
    std::size_t bytes = 0;
    for (; next_layer <= segment.last_layer; ++next_layer) bytes += layer_bytes.at(next_layer);
    ASSERT_EQ(segment.bytes, bytes);
    ASSERT_EQ(segment.place % 256, 0U);
    if (segment.is_resident) {
      ASSERT_EQ(segment.place, resident_bytes);
      resident_bytes += bytes;
    } else {
      ASSERT_LE(bytes, plan.buffer_bytes);
      ASSERT_EQ(segment.place, plan.resident_bytes + num_streamed++ % plan.num_buffers * plan.buffer_bytes);
    }
  }
  EXPECT_EQ(next_layer, layer_bytes.size());
  EXPECT_EQ(resident_bytes, plan.resident_bytes);
  EXPECT_GE(num_streamed, 2U);
}

TEST(WeightSegments, AreSoundForLayersOfAnySize) {
  std::mt19937 random(7);
  for (int repetition = 0; repetition < 300; ++repetition) {
    std::vector<std::size_t> layer_bytes(3 + random() % 60);
    for (auto& bytes : layer_bytes) bytes = 256 * (1 + random() % (1 + random() % 100));
    std::size_t const least = 2 * std::ranges::max(layer_bytes);
    std::size_t const total = sum(layer_bytes);
    if (least >= total) continue;
    for (std::size_t const room : {least, least + random() % (total - least)}) {
      for (bool const takes_everything : {false, true})
        expect_sound(plan_segments(layer_bytes, {room, takes_everything}), layer_bytes, room);
    }
  }
}

TEST(WeightSegments, LeaveThePanelWhatBuffersDoNotNeed) {
  std::vector<std::size_t> const layers(1000, std::size_t(8) << 20U);
  auto const plan = plan_segments(layers, {std::size_t(4) << 30U, false});
  EXPECT_LE(plan.device_bytes(), std::size_t(256) << 20U);
  EXPECT_EQ(plan.resident_bytes, 0U);
}

TEST(WeightSegments, StayWhereThereIsRoom) {
  std::vector<std::size_t> const layers(1000, std::size_t(8) << 20U);
  std::size_t const room = std::size_t(4) << 30U; // about half of it
  auto const plan = plan_segments(layers, {room, true});
  EXPECT_GT(plan.device_bytes(), room - room / 20);
  auto const half = plan.segments.begin() + static_cast<std::ptrdiff_t>(plan.segments.size() / 2);
  auto const first_half =
      std::count_if(plan.segments.begin(), half, [](auto const& segment) { return segment.is_resident; });
  auto const second_half =
      std::count_if(half, plan.segments.end(), [](auto const& segment) { return segment.is_resident; });
  EXPECT_GT(first_half, 10);
  EXPECT_LE(std::abs(first_half - second_half), 2);
}

TEST(WeightSegments, TooLittleRoomForTwoLayersIsASentence) {
  try {
    plan_segments({1024, 4096, 512}, {8191, false});
    FAIL();
  } catch (ResourceError const& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("layer 1"), HasSubstr("0.00000381 GiB"), HasSubstr("0.00000763 GiB"),
                                    HasSubstr("--device-memory-limit"), HasSubstr("--device-weight-limit")));
  }
  EXPECT_EQ(plan_segments({1024, 4096, 512}, {8192, false}).device_bytes(), 8192U);
}

} // namespace
} // namespace varve
