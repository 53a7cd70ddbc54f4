#include "core/repeated_launches.hpp"

#include "core/device_stream.hpp"
#include "core/execution.hpp"
#include "core/views.hpp"
#include "kernels/execution_spaces.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace varve {
namespace {

struct AddToAll {
  ArrayView<int> numbers;
  int more;

  KOKKOS_FUNCTION void operator()(std::size_t i) const { numbers(i) += more; }
};

/// Launches that add `more` to all numbers, and what the host knows after them.
template <class ExecutionSpace>
struct Adding {
  DeviceArray<ExecutionSpace, int> numbers;
  int more = 0;
  int* num_calls = nullptr;

  int operator()(Stream const& lane) const {
    ++*num_calls;
    auto const& space = instance_of<ExecutionSpace>(lane);
    Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>> const range(space, 0, numbers.size());
    Kokkos::parallel_for("add", range, AddToAll{numbers, more});
    return more;
  }
};

template <class ExecutionSpace>
class Repeated : public testing::Test {
protected:
  using Launches = RepeatedLaunches<int, int>;

  static constexpr std::size_t size = 100;

  /// Launches with this key, which is what they add.
  void run(int key) {
    EXPECT_EQ(launches_.run(*lane_, key, Adding<ExecutionSpace>{numbers_, key, &num_calls_}), key);
    sum_ += key;
  }

  /// The numbers, which are all equal.
  int found() const {
    std::vector<int> numbers(size);
    copy_and_wait(Kokkos::View<int*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(numbers.data(), size), numbers_);
    EXPECT_EQ(numbers, std::vector<int>(size, numbers.front()));
    return numbers.front();
  }

  DeviceMemory const& memory_ = device_memory(to_backend<ExecutionSpace>());
  std::unique_ptr<Stream> lane_ = memory_.default_stream();
  DeviceArray<ExecutionSpace, int> numbers_{"numbers", size};
  Launches launches_{memory_};
  int num_calls_ = 0;
  int sum_ = 0;
};
TYPED_TEST_SUITE(Repeated, test::ExecutionSpaces);

TYPED_TEST(Repeated, GiveWhatCallsGive) {
  for (int round = 0; round < 5; ++round)
    for (int const key : {1, 2, 3}) this->run(key);
  EXPECT_EQ(this->found(), this->sum_);
  bool const are_recorded = std::is_same_v<TypeParam, Kokkos::DefaultExecutionSpace> && !kOnHost<TypeParam> &&
                            to_backend<TypeParam>() == Backend::cuda;
  EXPECT_EQ(this->num_calls_, are_recorded ? 6 : 15);
  for (int key = 1; key < 9; ++key)
    for (int time = 0; time < 3; ++time) this->run(key); // more keys than are kept
  this->launches_.forget();
  for (int time = 0; time < 3; ++time) this->run(1);
  EXPECT_EQ(this->found(), this->sum_);
}

/// What other threads of Varve do beside a thread that computes: they get memory and let it go, copy, and wait.
template <class ExecutionSpace>
void get_memory_and_copy(std::atomic<bool> const& ends, int& num_rounds) {
  for (; !ends; ++num_rounds) {
    std::size_t const size = 1 + static_cast<std::size_t>(num_rounds % 1000);
    DeviceArray<ExecutionSpace, int> const zeros("zeros", 16); // in the default instance, as Kokkos makes them
    std::unique_ptr<DeviceArray<ExecutionSpace, int>> other;
    {
      auto const lock = BesideRecordings::not_while_recording();
      other = std::make_unique<DeviceArray<ExecutionSpace, int>>("other", size);
    }
    copy_and_wait(*other, num_rounds);
    auto const lock = BesideRecordings::not_while_recording();
    other.reset();
  }
}

TYPED_TEST(Repeated, StayWholeWhileOthersGetMemoryAndCopy) {
  std::atomic<bool> ends = false;
  int num_rounds = 0;
  {
    auto const other = std::async(std::launch::async, [&] { get_memory_and_copy<TypeParam>(ends, num_rounds); });
    for (int key = 1; key < 400; ++key)
      for (int time = 0; time < 3; ++time) this->run(key);
    ends = true;
  }
  EXPECT_EQ(this->found(), this->sum_);
}

/// Launches that a recording cannot hold, because they wait for the device.
template <class ExecutionSpace>
struct AddingAndWaiting {
  Adding<ExecutionSpace> adding;
  bool knows_of_recordings;

  int operator()(Stream const& lane) const {
    int const more = adding(lane);
    if (knows_of_recordings) {
      auto const lock = BesideRecordings::not_while_recording();
      Kokkos::fence("wait");
    } else {
      Kokkos::fence("wait");
    }
    return more;
  }
};

TYPED_TEST(Repeated, AreMadeByCallsWhereARecordingFails) {
  for (bool const knows_of_recordings : {true, false}) {
    typename TestFixture::Launches launches(this->memory_);
    AddingAndWaiting<TypeParam> const launch{{this->numbers_, 1, &this->num_calls_}, knows_of_recordings};
    for (int time = 0; time < 4; ++time) EXPECT_EQ(launches.run(*this->lane_, 1, launch), 1);
  }
  EXPECT_EQ(this->found(), 8);
}

TYPED_TEST(Repeated, FailLikeCalls) {
  typename TestFixture::Launches launches(this->memory_);
  auto const launch = [&](Stream const& lane) {
    Adding<TypeParam>{this->numbers_, 1, &this->num_calls_}(lane);
    if (this->num_calls_ > 1) throw std::runtime_error("no more");
    return 1;
  };
  EXPECT_EQ(launches.run(*this->lane_, 1, launch), 1);
  EXPECT_THROW(launches.run(*this->lane_, 1, launch), std::runtime_error);
  this->run(2);
  EXPECT_EQ(this->found(), 4) << "the call that failed had added";
}

} // namespace
} // namespace varve
