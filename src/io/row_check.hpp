#pragma once

#include "core/types.hpp"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

namespace varve {

/// Checks the columns of a sparse matrix part by part, on the threads that have just decoded the parts, whose caches
/// still hold them: columns ascend within each row and are below the number of columns. The parts cover all entries
/// once.
template <class Column>
class RowCheck {
public:
  /// Row pointers ascend from 0 to the number of entries. What the spans refer to must outlive this object.
  RowCheck(std::span<EdgeOffset const> row_pointers, std::size_t num_columns, std::span<Column const> columns)
      : row_pointers_(row_pointers), num_columns_(num_columns), columns_(columns) {}

  /// True if the columns of this part of the matrix are right by themselves. Any thread may call it.
  bool accepts(std::span<Column const> part) {
    if (part.empty()) return true;
    auto const first = static_cast<std::size_t>(part.data() - columns_.data());
    auto const last = first + part.size();
    auto const after = std::ranges::upper_bound(row_pointers_, first); // the end of the row of the first entry
    bool is_right = true;
    auto end = after;
    for (auto entry = first; entry < last; ++end) {
      auto const row_end = std::min<std::size_t>(*end, last);
      if (row_end > entry) is_right &= ascends(columns_.subspan(entry, row_end - entry));
      entry = row_end;
    }
    std::lock_guard const lock(guard_);
    borders_.push_back(first);
    return is_right;
  }

  /// To be called when all parts have been accepted: true if rows also ascend from one part to the next.
  bool accepts_borders() const {
    return std::ranges::all_of(borders_, [&](std::size_t border) {
      return std::ranges::binary_search(row_pointers_, border) || columns_[border - 1] < columns_[border];
    });
  }

private:
  /// True if the columns ascend and the last one is within the matrix.
  bool ascends(std::span<Column const> row) const {
    unsigned descents = 0;
    for (std::size_t entry = 1; entry < row.size(); ++entry) descents |= row[entry] <= row[entry - 1] ? 1U : 0U;
    return descents == 0 && row.back() < num_columns_;
  }

  std::span<EdgeOffset const> row_pointers_;
  std::size_t num_columns_;
  std::span<Column const> columns_;
  std::mutex guard_;
  std::vector<std::size_t> borders_; ///< first entry of each part
};

} // namespace varve
