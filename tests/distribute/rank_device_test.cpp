#include "distribute/ranks.hpp"

#include "core/error.hpp"
#include "core/runtime.hpp"
#include "io/files.hpp"

#include <gtest/gtest.h>

namespace varve {
namespace {

TEST(RankDevices, MayBeProcessorsForAnyNumberOfRanks) {
  EXPECT_NO_THROW(require_own_devices({{"node1", "8 threads", ""}, {"node1", "8 threads", ""}}));
}

TEST(RankDevices, AreNotShared) {
  EXPECT_NO_THROW(require_own_devices({{"node1", "GPU (device 0)", "aa"}, {"node1", "GPU (device 0)", "ab"}}));
  auto const sentence = varve::test::sentence_of<ResourceError>([] {
    require_own_devices({{"node1", "GPU (device 0)", "aa"},
                         {"node2", "8 threads", ""},
                         {"node2", "GPU (device 1)", "bb"},
                         {"node2", "GPU (device 1)", "bb"}});
  });
  EXPECT_EQ(sentence, "ranks 2 and 3 on node2 would share GPU (device 1); start as many ranks as there are devices, or "
                      "add --tuning share-devices=on");
}

TEST(RankDevices, OfThisRankHaveNames) {
  auto const mine = device_of_this_rank(Backend::serial);
  EXPECT_FALSE(mine.host.empty());
  EXPECT_EQ(mine.device, "1 thread");
  EXPECT_EQ(mine.identity, "");
}

TEST(RankDevices, OfOneKindDifferByTheirNumberAlone) {
  EXPECT_EQ(kind_of({"a", "NVIDIA H200 (device 0)", "1"}), kind_of({"b", "NVIDIA H200 (device 13)", "2"}));
  EXPECT_NE(kind_of({"a", "NVIDIA H200 (device 0)", "1"}), kind_of({"a", "NVIDIA H100 (device 0)", "2"}));
  EXPECT_NE(kind_of({"a", "2 threads", ""}), kind_of({"a", "3 threads", ""}));
}

} // namespace
} // namespace varve
