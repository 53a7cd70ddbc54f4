#include "plan/memory.hpp"

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

/// Segments hold all pieces in order, fit their places, and two neighbours of those that do not stay share no buffer.
void expect_sound(WeightSegments const& plan, std::vector<std::size_t> const& piece_bytes, std::size_t room) {
  EXPECT_LE(plan.device_bytes(), room);
  EXPECT_GE(plan.num_buffers, 2U);
  std::size_t next_piece = 0;
  std::size_t resident_bytes = 0;
  std::size_t num_streamed = 0;
  for (auto const& segment : plan.segments) {
    ASSERT_EQ(segment.first_piece, next_piece);
    ASSERT_LE(segment.first_piece, segment.last_piece);
    std::size_t bytes = 0;
    for (; next_piece <= segment.last_piece; ++next_piece) bytes += piece_bytes.at(next_piece);
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
  EXPECT_EQ(next_piece, piece_bytes.size());
  EXPECT_EQ(resident_bytes, plan.resident_bytes);
  EXPECT_GE(num_streamed, 2U);
}

TEST(WeightSegments, AreSoundForLayersOfAnySize) {
  std::mt19937 random(7);
  for (int repetition = 0; repetition < 300; ++repetition) {
    std::vector<std::size_t> piece_bytes(3 + random() % 60);
    for (auto& bytes : piece_bytes) bytes = 256 * (1 + random() % (1 + random() % 100));
    std::size_t const least = 2 * std::ranges::max(piece_bytes);
    std::size_t const total = sum(piece_bytes);
    if (least >= total) continue;
    for (std::size_t const room : {least, least + random() % (total - least)}) {
      for (bool const takes_everything : {false, true})
        expect_sound(plan_segments(piece_bytes, {room, takes_everything}), piece_bytes, room);
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

TEST(WeightSegments, OneAtLeastPassesThroughTheBuffers) {
  std::vector<std::size_t> const strips(10, std::size_t(10) << 20U); // of a layer that was larger with its padding
  auto const plan = plan_segments(strips, {std::size_t(2) << 30U, true});
  EXPECT_GT(plan.resident_bytes, 0U);
  EXPECT_EQ(std::ranges::count(plan.segments, false, &WeightSegment::is_resident), 1);
}

TEST(WeightSegments, StripsAreAsLargeAsUsualBuffersOrLastLongerThanALaunch) {
  constexpr std::size_t mebibyte = std::size_t(1) << 20U;
  EXPECT_EQ(max_strip_bytes({1000, false}), 500U);
  EXPECT_EQ(max_strip_bytes({4 * mebibyte, false}), mebibyte);
  EXPECT_EQ(max_strip_bytes({4 * mebibyte, true}), mebibyte);
  EXPECT_EQ(max_strip_bytes({64 * mebibyte, false}), 4 * mebibyte) << "so that the panel gets the most";
  EXPECT_EQ(max_strip_bytes({64 * mebibyte, true}), 16 * mebibyte);
  EXPECT_EQ(max_strip_bytes({65536 * mebibyte, false}), 64 * mebibyte);
}

TEST(WeightSegments, TooLittleRoomForTwoLayersIsASentence) {
  try {
    plan_segments({1024, 4096, 512}, {8191, false});
    FAIL();
  } catch (ResourceError const& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("layer 1"), HasSubstr("0.00000381 GiB"), HasSubstr("0.00000763 GiB"),
                                    HasSubstr("--memory device"), HasSubstr("--memory weights")));
  }
  EXPECT_EQ(plan_segments({1024, 4096, 512}, {8192, false}).device_bytes(), 8192U);
}

} // namespace
} // namespace varve
