#include "core/device_memory.hpp"
#include "core/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <string>

namespace varve {
namespace {

DeviceMemory const& host() { return device_memory(Backend::serial); }

std::string error_of(std::string const& handle) {
  try {
    host().open_peer_memory(handle);
  } catch (ResourceError const& error) {
    return error.what();
  }
  return "";
}

TEST(SharedHostMemories, AreTheSameForAllWhoOpenThem) {
  auto const made = host().new_peer_memory(100000);
  EXPECT_GE(made->size(), 100000U);
  for (std::size_t place = 0; place < 100000; ++place) ASSERT_EQ(made->data()[place], std::byte{0});
  auto const opened = host().open_peer_memory(made->handle());
  EXPECT_EQ(opened->size(), made->size());
  EXPECT_NE(opened->data(), made->data());
  made->data()[99999] = std::byte{7};
  EXPECT_EQ(opened->data()[99999], std::byte{7});
  opened->data()[0] = std::byte{8};
  EXPECT_EQ(made->data()[0], std::byte{8});
}

TEST(SharedHostMemories, AreOpenedByOtherProcesses) {
  auto const made = host().new_peer_memory(8);
  auto const child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      auto const opened = host().open_peer_memory(made->handle());
      opened->data()[3] = std::byte{5};
      _exit(0);
    } catch (...) {
      _exit(1);
    }
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(made->data()[3], std::byte{5});
}

TEST(SharedHostMemories, OutliveTheirMaker) {
  auto made = host().new_peer_memory(64);
  made->data()[10] = std::byte{9};
  auto const opened = host().open_peer_memory(made->handle());
  made.reset();
  EXPECT_EQ(opened->data()[10], std::byte{9});
}

TEST(SharedHostMemories, OfOthersAreNotTakenForTheirs) {
  auto first = host().new_peer_memory(64);
  auto const handle = first->handle();
  first.reset();
  EXPECT_THAT(error_of(handle), ::testing::HasSubstr("is closed"));
  auto const second = host().new_peer_memory(64); // has the number of the first
  EXPECT_THAT(error_of(handle), ::testing::HasSubstr("is another one"));
  auto const larger = host().new_peer_memory(128);
  EXPECT_EQ(error_of(larger->handle()), "");
  EXPECT_THAT(error_of("nothing"), ::testing::HasSubstr("is no handle"));
}

} // namespace
} // namespace varve
