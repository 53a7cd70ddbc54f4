#include "core/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace varve {
namespace {

TEST(Failure, IsAnErrorWithItsKindAndSentence) {
  auto const input = error_of(InputError("net.safetensors: broken"));
  EXPECT_EQ(input.kind(), ErrorKind::input);
  EXPECT_STREQ(input.what(), "net.safetensors: broken");
  EXPECT_EQ(error_of(UsageError("no")).kind(), ErrorKind::usage);
  auto const other = error_of(std::runtime_error("odd"));
  EXPECT_EQ(other.kind(), ErrorKind::resource);
  EXPECT_STREQ(other.what(), "odd");
  auto const thread = error_of(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  EXPECT_EQ(std::string(thread.what()).find("a thread cannot be started: "), 0U);
  EXPECT_EQ(error_of(std::bad_alloc()).kind(), ErrorKind::resource);
  EXPECT_THAT(
      error_of(std::runtime_error("Kokkos ERROR: Host memory space failed to allocate 5 GiB (label=\"x\").")).what(),
      ::testing::AllOf(::testing::HasSubstr("--memory"), ::testing::HasSubstr("allocate 5 GiB")));
}

} // namespace
} // namespace varve
