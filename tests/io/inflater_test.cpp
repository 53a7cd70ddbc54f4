#include "io/inflater_cases.hpp"

namespace varve {
namespace {

TEST(Inflater, GivesExactlyAsManyBytesAsAreWanted) { testing::expect_inflates_exactly(); }

} // namespace
} // namespace varve
