#pragma once

#include "core/execution.hpp"
#include "core/types.hpp"
#include "kernels/samples.hpp"
#include "kernels/tile.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// A dense matrix in the memory of a device, with any strides.
template <class Scalar>
struct DenseRows {
  Scalar* data = nullptr;
  std::size_t num_rows = 0, num_columns = 0;
  std::size_t row_stride = 0, column_stride = 0;

  KOKKOS_FORCEINLINE_FUNCTION Scalar& operator()(std::size_t row, std::size_t column) const {
    return data[row * row_stride + column * column_stride];
  }
};

/// Counts the nonzero values of each row, row_ends(row + 1) = count, and finds the position (row * columns + column) of
/// the first value that is not finite. Reads each value once. Index: row. For hosts, and on GPUs for matrices whose
/// rows are adjacent in memory.
template <class ExecutionSpace, class Scalar>
struct CountEntries {
  DenseRows<Scalar const> rows;
  ArrayView<EdgeOffset> row_ends;

  KOKKOS_FUNCTION void operator()(std::size_t row, std::size_t& first_bad) const {
    std::uint32_t count = 0;
    std::uint32_t num_finite = 0;
    for (std::size_t column = 0; column < rows.num_columns; ++column) { // no branch: vectorizes
      Scalar const value = rows(row, column);
      count += value != Scalar(0) ? 1U : 0U;
      num_finite += Kokkos::abs(value) <= Kokkos::Experimental::finite_max_v<Scalar> ? 1U : 0U;
    }
    for (std::size_t column = 0; num_finite < rows.num_columns && column < rows.num_columns; ++column) {
      std::size_t const place = row * rows.num_columns + column;
      if (!Kokkos::isfinite(rows(row, column)) && place < first_bad) first_bad = place;
    }
    row_ends(row + 1) = count;
    if (row == 0) row_ends(0) = 0;
  }
};

/// Computes the same as CountEntries. league: rows; team threads: values. For GPUs, if the values of a row are adjacent
/// in memory. Reads each value twice, the second time from a cache if the row fits.
template <class ExecutionSpace, class Scalar>
struct CountEntriesByTeams {
  using Member = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  DenseRows<Scalar const> rows;
  ArrayView<EdgeOffset> row_ends;

  KOKKOS_FUNCTION void operator()(Member const& team, std::size_t& first_bad) const {
    auto const row = static_cast<std::size_t>(team.league_rank());
    EdgeOffset count = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, rows.num_columns),
        [&](std::size_t column, EdgeOffset& sum) {
          if (rows(row, column) != Scalar(0)) ++sum;
        },
        count);
    std::size_t bad = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, rows.num_columns),
        [&](std::size_t column, std::size_t& least) {
          std::size_t const place = row * rows.num_columns + column;
          if (!Kokkos::isfinite(rows(row, column)) && place < least) least = place;
        },
        Kokkos::Min<std::size_t>(bad));
    if (team.team_rank() != 0) return;
    row_ends(row + 1) = count;
    if (row == 0) row_ends(0) = 0;
    if (bad < first_bad) first_bad = bad;
  }
};

/// Turns the counts of CountEntries into ends: row_ends(i) = sum of row_ends(1) ... row_ends(i).
struct AddRowEnds {
  ArrayView<EdgeOffset> row_ends;

  KOKKOS_FUNCTION void operator()(std::size_t i, EdgeOffset& sum, bool is_final) const {
    sum += row_ends(i);
    if (is_final) row_ends(i) = sum;
  }
};

/// Writes the nonzero values of each row and their columns, ascending. Index and use: see CountEntries. Reads each
/// value once and writes each entry once.
template <class ExecutionSpace, class Scalar>
struct FillEntries {
  DenseRows<Scalar const> rows;
  ArrayView<EdgeOffset const> row_ends;
  ArrayView<NeuronIndex> columns;
  ArrayView<Scalar> values;

  KOKKOS_FUNCTION void operator()(std::size_t row) const {
    EdgeOffset entry = row_ends(row);
    if constexpr (kOnHost<ExecutionSpace>) {
      EdgeOffset const end = row_ends(row + 1);
      // Stores every value and advances only after nonzeros, so that scattered zeros cost no branch.
      for (std::size_t column = 0; entry < end && column < rows.num_columns; ++column) {
        Scalar const value = rows(row, column);
        columns(entry) = static_cast<NeuronIndex>(column);
        values(entry) = value;
        entry += value != Scalar(0) ? 1U : 0U;
      }
    } else {
      for (std::size_t column = 0; column < rows.num_columns; ++column)
        if (rows(row, column) != Scalar(0)) put(entry++, row, column);
    }
  }

  KOKKOS_FORCEINLINE_FUNCTION void put(EdgeOffset entry, std::size_t row, std::size_t column) const {
    columns(entry) = static_cast<NeuronIndex>(column);
    values(entry) = rows(row, column);
  }
};

/// Computes the same as FillEntries. league, team and use: see CountEntriesByTeams.
template <class ExecutionSpace, class Scalar>
struct FillEntriesByTeams {
  using Member = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  FillEntries<ExecutionSpace, Scalar> fill;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    auto const row = static_cast<std::size_t>(team.league_rank());
    EdgeOffset const first = fill.row_ends(row);
    Kokkos::parallel_scan(Kokkos::TeamThreadRange(team, fill.rows.num_columns),
                          [&](std::size_t column, EdgeOffset& before, bool is_final) {
                            if (fill.rows(row, column) == Scalar(0)) return;
                            if (is_final) fill.put(first + before, row, column);
                            ++before;
                          });
  }
};

/// True if a team reads each row, false if a thread does.
template <class ExecutionSpace, class Scalar>
bool teams_read_rows(DenseRows<Scalar const> const& rows) {
  return !kOnHost<ExecutionSpace> && rows.column_stride < rows.row_stride;
}

/// The result of count_entries().
struct EntryCount {
  EdgeOffset num_entries = 0;
  std::size_t first_bad = 0; ///< position of the first value that is not finite; SIZE_MAX if all are finite
};

/// Threads of a team that reads a row.
inline constexpr int row_team_size = 128;

/// Launches CountEntries and AddRowEnds, waits for them and returns the two numbers.
template <class ExecutionSpace, class Scalar>
EntryCount count_entries(ExecutionSpace const& space, DenseRows<Scalar const> const& rows,
                         ArrayView<EdgeOffset> const& row_ends) {
  using Rows = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>;
  EntryCount found;
  Kokkos::Min<std::size_t> const least(found.first_bad);
  if constexpr (!kOnHost<ExecutionSpace>) {
    if (teams_read_rows<ExecutionSpace>(rows)) {
      Kokkos::parallel_reduce("varve::count_entries",
                              Kokkos::TeamPolicy<ExecutionSpace>(space, static_cast<int>(rows.num_rows), row_team_size),
                              CountEntriesByTeams<ExecutionSpace, Scalar>{rows, row_ends}, least);
    }
  }
  if (!teams_read_rows<ExecutionSpace>(rows)) {
    Kokkos::parallel_reduce("varve::count_entries", Rows(space, 0, rows.num_rows),
                            CountEntries<ExecutionSpace, Scalar>{rows, row_ends}, least);
  }
  Kokkos::parallel_scan("varve::add_row_ends", Rows(space, 0, rows.num_rows + 1), AddRowEnds{row_ends},
                        found.num_entries);
  space.fence("varve: entries are counted");
  return found;
}

/// Launches FillEntries. Does not fence.
template <class ExecutionSpace, class Scalar>
void fill_entries(ExecutionSpace const& space, FillEntries<ExecutionSpace, Scalar> const& fill) {
  if constexpr (!kOnHost<ExecutionSpace>) {
    if (teams_read_rows<ExecutionSpace>(fill.rows)) {
      Kokkos::parallel_for(
          "varve::fill_entries",
          Kokkos::TeamPolicy<ExecutionSpace>(space, static_cast<int>(fill.rows.num_rows), row_team_size),
          FillEntriesByTeams<ExecutionSpace, Scalar>{fill});
      return;
    }
  }
  launch_range("varve::fill_entries", space, fill.rows.num_rows, fill);
}

/// target(s, output) = the last activation of sample s. Index: element of `target`, numbered so that neighbouring
/// indices are adjacent in memory. Reads and writes each activation once.
template <class Scalar>
struct WriteRows {
  static constexpr char const* label = "varve::write_rows";

  LastActivations<Scalar> source;
  DenseRows<Scalar> target;

  std::size_t num_indices() const { return target.num_rows * target.num_columns; }
  KOKKOS_FUNCTION void operator()(std::size_t place) const {
    bool const by_rows = target.column_stride <= target.row_stride;
    std::size_t const sample = by_rows ? place / target.num_columns : place % target.num_rows;
    std::size_t const output = by_rows ? place % target.num_columns : place / target.num_rows;
    target(sample, output) = source.number(source.ends(sample), output);
  }
};

} // namespace varve
