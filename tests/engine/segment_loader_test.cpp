#include "engine/segment_loader.hpp"

#include "core/error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace varve {
namespace {

/// Buffers that know what was loaded into them last.
class SegmentLoaders : public testing::TestWithParam<std::pair<std::size_t, std::size_t>> {
protected:
  std::size_t num_segments() const { return GetParam().first; }
  std::size_t num_buffers() const { return GetParam().second; }

  void load(std::size_t segment) {
    buffers_.at(segment % num_buffers()) = none; // half-written, until it is whole
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    buffers_.at(segment % num_buffers()) = static_cast<int>(segment);
    ++num_loads_;
  }
  auto loader() {
    return SegmentLoader(num_segments(), num_buffers(), [this](std::size_t segment) { load(segment); });
  }
  int buffer_of(std::size_t segment) const { return buffers_.at(segment % num_buffers()); }

  static constexpr int none = -1;
  std::array<std::atomic<int>, 8> buffers_{};
  std::atomic<std::size_t> num_loads_{0};
};
INSTANTIATE_TEST_SUITE_P(Sizes, SegmentLoaders,
                         testing::Values(std::pair(1, 2), std::pair(2, 2), std::pair(3, 2), std::pair(7, 3),
                                         std::pair(12, 4), std::pair(5, 1)));

TEST_P(SegmentLoaders, HoldEachSegmentAsLongAsItIsUsed) {
  auto loader = this->loader();
  for (int round = 0; round < 5; ++round) {
    for (std::size_t segment = 0; segment < num_segments(); ++segment) {
      loader.acquire(segment);
      ASSERT_EQ(buffer_of(segment), static_cast<int>(segment));
      std::this_thread::sleep_for(std::chrono::microseconds(segment % 2 == 0 ? 200 : 0));
      ASSERT_EQ(buffer_of(segment), static_cast<int>(segment));
      loader.release(segment);
    }
    loader.rewind(); // changes nothing at the end
  }
}

TEST_P(SegmentLoaders, LoadAheadAsManyAsThereAreBuffers) {
  auto loader = this->loader();
  std::size_t const most = std::min(num_segments(), num_buffers());
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (num_loads_ < most && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(num_loads_, most);
}

TEST_P(SegmentLoaders, BeginAgainFromAnywhere) {
  auto loader = this->loader();
  for (std::size_t used = 0; used <= num_segments(); ++used) {
    for (std::size_t segment = 0; segment < used; ++segment) {
      loader.acquire(segment);
      ASSERT_EQ(buffer_of(segment), static_cast<int>(segment));
      loader.release(segment);
    }
    loader.rewind();
  }
}

TEST_P(SegmentLoaders, EndAtAnyMoment) {
  for (std::size_t used = 0; used < num_segments(); ++used) {
    auto loader = this->loader();
    for (std::size_t segment = 0; segment < used; ++segment) {
      loader.acquire(segment);
      loader.release(segment);
    }
  }
}

TEST(SegmentLoader, PassesOnWhatALoadThrew) {
  SegmentLoader loader(4, 2, [](std::size_t segment) {
    if (segment == 1) throw InputError("the file is gone");
  });
  loader.acquire(0);
  loader.release(0);
  EXPECT_THROW(loader.acquire(1), InputError);
  EXPECT_THROW(loader.acquire(1), InputError);
}

TEST(SegmentLoader, SegmentsOutOfTurnAreACallersMistake) {
  SegmentLoader loader(4, 2, [](std::size_t) {});
  EXPECT_THROW(loader.acquire(1), std::logic_error);
}

} // namespace
} // namespace varve
