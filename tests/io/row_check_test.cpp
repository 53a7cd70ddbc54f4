#include "io/stored_matrix.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace varve {
namespace {

template <class Column>
bool is_right(std::vector<EdgeOffset> const& row_pointers, std::vector<Column> const& columns, std::size_t part) {
  RowCheck<Column> check(row_pointers, 10, std::span<Column const>(columns));
  bool accepted = true;
  for (std::size_t first = 0; first < columns.size(); first += part)
    accepted &= check.accepts(std::span(columns).subspan(first, std::min(part, columns.size() - first)));
  return accepted && check.accepts_borders();
}

template <class Column>
class RowChecks : public ::testing::Test {};
using Columns = ::testing::Types<std::uint16_t, NeuronIndex>;
TYPED_TEST_SUITE(RowChecks, Columns);

/// Rows of 3, 0, 1, 4, 0 and 2 entries in parts of every size.
TYPED_TEST(RowChecks, FindEveryColumnThatIsWrong) {
  std::vector<EdgeOffset> const rows = {0, 3, 3, 4, 8, 8, 10};
  std::vector<TypeParam> const good = {0, 3, 9, 9, 1, 2, 7, 8, 0, 9};
  for (std::size_t part = 1; part <= good.size(); ++part) {
    EXPECT_TRUE(is_right(rows, good, part)) << part;
    for (std::size_t entry = 0; entry < good.size(); ++entry) {
      auto bad = good;
      bad[entry] = 10;
      EXPECT_FALSE(is_right(rows, bad, part)) << "beyond the matrix: entry " << entry << ", parts of " << part;
      bool const begins_row = entry == 0 || entry == 3 || entry == 4 || entry == 8;
      if (begins_row) continue;
      bad[entry] = bad[entry - 1];
      EXPECT_FALSE(is_right(rows, bad, part)) << "twice: entry " << entry << ", parts of " << part;
    }
  }
}

TYPED_TEST(RowChecks, AcceptNothing) { EXPECT_TRUE(is_right({0, 0, 0}, std::vector<TypeParam>(), 1)); }

} // namespace
} // namespace varve
