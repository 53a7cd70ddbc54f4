#include "plan/memory.hpp"

#include "core/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace varve {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(MemoryLimits, OfAHostAreSharedByWeightsOnTheirWay) {
  MemoryRequest request;
  request.memory_limit = 1000;
  auto limits = memory_limits(request, Backend::serial);
  EXPECT_EQ(limits.device, 1000U);
  EXPECT_EQ(limits.host_weights, 0U);
  request.device_memory_limit = 300;
  request.device_weight_limit = 100;
  limits = memory_limits(request, Backend::serial);
  EXPECT_EQ(limits.device, 300U);
  EXPECT_EQ(limits.host_weights, 700U);
  EXPECT_EQ(limits.encoding, 1000U);
  EXPECT_EQ(limits.device_weights, 100U);
  request.device_memory_limit = 5000;
  EXPECT_EQ(memory_limits(request, Backend::serial).device, 1000U);
}

TEST(RoomForWeights, IsWhatTheSmallestBatchLeavesOrWhatWasAskedFor) {
  MemoryLimits limits;
  limits.device = 1000;
  EXPECT_EQ(room_for_weights(limits, 300), 700U);
  EXPECT_EQ(room_for_weights(limits, 3000), 0U);
  limits.device_weights = 500;
  EXPECT_EQ(room_for_weights(limits, 300), 500U);
  EXPECT_EQ(room_for_weights(limits, 600), 400U);
}

std::size_t ten_each(std::size_t samples) { return 10 * samples; }

TEST(Batches, TakeAllSamplesIfTheyFit) {
  BatchRequest request{50, std::nullopt, std::nullopt, 100, 8, 1000};
  EXPECT_EQ(choose_batch(request, 10000, ten_each), 50U);
  request.num_samples = 0;
  EXPECT_EQ(choose_batch(request, 10000, ten_each), 1U);
  request.num_samples = 5000; // 990 fit, 984 in steps of 8
  EXPECT_EQ(choose_batch(request, 10000, ten_each), 984U);
  request.asked = 70;
  EXPECT_EQ(choose_batch(request, 10000, ten_each), 70U);
  request.asked.reset();
  request.enough = 64;
  EXPECT_EQ(choose_batch(request, 10000, ten_each), 64U);
  request.enough.reset();
  request.max_at_all = 100;
  EXPECT_EQ(choose_batch(request, 10000, ten_each), 96U);
}

TEST(Batches, SayWhatTheyNeed) {
  BatchRequest request{5000, 2000, std::nullopt, 100, 8, 10000};
  try {
    choose_batch(request, 10000, ten_each);
    FAIL();
  } catch (ResourceError const& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("a batch of 2000 samples"), HasSubstr("enough for 984 samples")));
  }
  request.asked.reset();
  EXPECT_THROW(choose_batch(request, 150, ten_each), ResourceError);
}

} // namespace
} // namespace varve
