#pragma once

#include "core/types.hpp"
#include "io/container.hpp"
#include "network/sample_set.hpp"
#include "network/sparse_matrix.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
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

/// Sparse matrices in containers: the arrays NAME.pointers, NAME.indices and NAME.values (FORMAT.md).
namespace varve::container {

/// A sparse matrix of an open container, whose arrays have the right types and sizes; what they hold is checked when it
/// is read.
class StoredMatrix {
public:
  /// Throws InputError if an array is missing or has another type or size.
  StoredMatrix(File& file, std::string const& name, std::uint64_t num_rows, std::uint64_t num_columns);

  std::uint64_t num_rows() const { return num_rows_; }
  std::uint64_t num_columns() const { return num_columns_; }
  std::uint64_t num_entries() const { return indices_->count(); }
  bool has_one_value() const { return values_->count() == 1 && num_entries() != 1; }
  /// File and name, for messages.
  std::string const& place() const { return place_; }

  /// The number of entries of the rows [first, last). Throws InputError as the functions below do.
  EdgeOffset count_entries(std::uint64_t first, std::uint64_t last) const;
  /// The rows [first, last). Throws InputError if the file is damaged or pointers do not ascend; the caller checks the
  /// rest (require_valid).
  SparseMatrix rows(std::uint64_t first, std::uint64_t last) const;
  /// The same rows, checked, with their columns in `memory`; nullopt where rows() has to read them, or its caller says
  /// what is wrong.
  std::optional<ReadySamples> ready_rows(std::uint64_t first, std::uint64_t last, SampleMemory& memory) const;

private:
  std::vector<EdgeOffset> pointers(std::uint64_t first, std::uint64_t last) const;
  std::vector<double> values(EdgeOffset first, std::size_t count) const;
  template <class Column>
  bool read_ready_columns(EdgeOffset first, SampleMemory& memory, ReadySamples& samples) const;

  File const* file_;
  std::string place_;
  std::uint64_t num_rows_;
  std::uint64_t num_columns_;
  Array const* pointers_;
  Array const* indices_;
  Array const* values_;
};

/// Runs `work`; false if the memory does not suffice for it.
template <class Work>
bool fits_memory(Work const& work) {
  try {
    work();
    return true;
  } catch (std::bad_alloc const&) {
    return false;
  } catch (std::length_error const&) {
    return false;
  }
}

/// The arrays of a matrix in the types in which they are written.
class NarrowMatrix {
public:
  explicit NarrowMatrix(SparseMatrix const& matrix);

  /// The hash over all hashes of the arrays, by which equal matrices of one shape are known.
  Digest identity() const;
  /// Call it once.
  void add_to(Writer& writer, std::string const& name);

private:
  struct List {
    NumberType type;
    std::vector<char> bytes;
    std::vector<Digest> hashes;
  };

  template <class Narrow, class Wide>
  static List list_of(std::vector<Wide> const& numbers, bool are_narrow);

  List pointers_, values_, indices_;
};

/// A sparse matrix that grows by rows.
class GrowingMatrix {
public:
  GrowingMatrix(Writer& writer, std::string name, std::uint64_t num_columns);

  /// Throws InputError if the rows are malformed or have another width, ResourceError if the disk is full or fails.
  void append(SparseMatrix const& rows);
  std::uint64_t num_rows() const { return num_rows_; }
  std::uint64_t num_columns() const { return num_columns_; }
  /// Adds its arrays to the writer. Call it once.
  void finish();

private:
  void append_values(SparseMatrix const& rows);
  void append_narrow(std::vector<double> const& values);
  void write_out_shared(std::uint64_t count);
  void widen();

  Writer& writer_;
  std::string name_;
  std::uint64_t num_columns_;
  std::uint64_t num_rows_ = 0;
  std::uint64_t num_entries_ = 0;
  GrowingBytes pointers_, indices_;
  std::optional<GrowingBytes> values_; ///< empty while all entries so far share one
  bool are_doubles_ = false;
  double shared_ = 0.0;
};

} // namespace varve::container
