#include "engine/ceilings.hpp"

#include <gtest/gtest.h>

namespace varve {
namespace {

TEST(Ceilings, OfTwoMeasurementsTheBestOfEachCounts) {
  Ceilings const one{64, 10.0, 2.0, 30.0, 4.0, 5.0};
  Ceilings const other{64, 1.0, 20.0, 3.0, 40.0, 0.5};
  for (auto const& best : {best_of(one, other), best_of(other, one)}) {
    EXPECT_EQ(best.copy_bytes, 64U);
    EXPECT_EQ(best.copy_bytes_per_second, 10.0);
    EXPECT_EQ(best.gather_bytes_per_second, 20.0);
    EXPECT_EQ(best.far_gather_bytes_per_second, 30.0);
    EXPECT_EQ(best.fma_per_second, 40.0);
    EXPECT_EQ(best.launch_seconds, 0.5);
  }
}

} // namespace
} // namespace varve
