#pragma once

#include "core/execution.hpp"
#include "core/intrinsics.hpp"
#include "core/types.hpp"
#include "kernels/training_tile.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace varve {

/// Rows of a sparse matrix on a device.
template <class ExecutionSpace, class Scalar>
struct DeviceRows {
  ConstDeviceArray<ExecutionSpace, std::uint64_t> row_pointers;
  ConstDeviceArray<ExecutionSpace, NeuronIndex> columns; ///< ascending within each row
  ConstDeviceArray<ExecutionSpace, Scalar> values;       ///< one per entry, or one for all entries
};

/// Hosts: writes row rows_of(p) of a matrix, with its zeros, to position p of a panel. league: leaves x parts of the
/// neurons; team: one thread. It processes `block` neurons at a time: their lines stay in the L1 while the entries of
/// all positions of the leaf are written (neighbouring entries of a row go to different lines of 256 bytes). Rows are
/// scattered in memory, so after each block the entries of a row that the next block needs are prefetched. Reads each
/// entry and writes each line once. Bound by memory bandwidth.
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
struct GatherPositionsOnHost {
  using Tile = TrainingTile<ExecutionSpace, Scalar, Links>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  using Member = typename Policy::member_type;
  static constexpr int samples = Tile::num_samples;
  static constexpr int block = 96; ///< neurons of a block: 24 KiB

  DeviceRows<ExecutionSpace, Scalar> matrix;
  ConstDeviceArray<ExecutionSpace, std::uint64_t> rows_of;
  TrainingPanel<ExecutionSpace, Scalar, Links> panel;
  int num_neurons;
  int num_positions;
  int num_parts; ///< parts of the neurons

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const leaf = team.league_rank() / num_parts;
    int const part = team.league_rank() % num_parts;
    int const first = first_of(part);
    int const last = first_of(part + 1);
    int const position = leaf * samples;
    int const count = num_positions - position < samples ? num_positions - position : samples;
    std::uint64_t next[samples];     // [position]: the first entry that is not written yet
    std::uint64_t in_block[samples]; // [position]: estimated number of entries in a block
    for (int p = 0; p < count; ++p) {
      auto const row = rows_of(position + p);
      auto const of_row = matrix.row_pointers(row + 1) - matrix.row_pointers(row);
      next[p] = first_entry(row, static_cast<NeuronIndex>(first));
      in_block[p] = of_row * block / static_cast<std::uint64_t>(num_neurons) + 1;
      fetch_entries(next[p], in_block[p]);
    }
    std::size_t const lines = static_cast<std::size_t>(leaf) * static_cast<std::size_t>(num_neurons);
    for (int begin = first; begin < last; begin += block) {
      int const end = begin + block < last ? begin + block : last;
      for (int neuron = begin; neuron < end; ++neuron)
        panel(lines + static_cast<std::size_t>(neuron)) = typename Tile::Line{};
      for (int p = 0; p < count; ++p) {
        std::uint64_t const row_end = matrix.row_pointers(rows_of(position + p) + 1);
        next[p] = matrix.values.size() == 1 ? write<true>(lines, p, next[p], row_end, static_cast<NeuronIndex>(end))
                                            : write<false>(lines, p, next[p], row_end, static_cast<NeuronIndex>(end));
        fetch_entries(next[p], row_end - next[p] < in_block[p] ? row_end - next[p] : in_block[p]);
      }
    }
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION int first_of(int part) const {
    return static_cast<int>(static_cast<std::int64_t>(num_neurons) * part / num_parts);
  }

  /// The first entry of a row whose column is at least `column`.
  KOKKOS_FORCEINLINE_FUNCTION std::uint64_t first_entry(std::uint64_t row, NeuronIndex column) const {
    std::uint64_t const begin = matrix.row_pointers(row);
    if (column == 0) return begin;
    return first_not_before(begin, std::uint64_t{matrix.row_pointers(row + 1)},
                            [&](std::uint64_t entry) { return matrix.columns(entry) < column; });
  }

  KOKKOS_FORCEINLINE_FUNCTION void fetch_entries(std::uint64_t entry, std::uint64_t count) const {
    fetch(matrix.columns.data() + entry, count);
    if (matrix.values.size() != 1) fetch(matrix.values.data() + entry, count);
  }

  /// Writes the entries of a row from `entry` on whose columns are below `last`; returns the next entry.
  template <bool IsIso>
  KOKKOS_FORCEINLINE_FUNCTION std::uint64_t write(std::size_t lines, int place, std::uint64_t entry,
                                                  std::uint64_t row_end, NeuronIndex last) const {
    Scalar const only = IsIso ? matrix.values(0) : Scalar(0);
    for (; entry < row_end && matrix.columns(entry) < last; ++entry)
      number_at(panel, lines + matrix.columns(entry), place) = IsIso ? only : matrix.values(entry);
    return entry;
  }
};

/// GPUs: scatters row rows_of(p) of a matrix to position p of a panel of zeros. league: positions; team threads:
/// entries. Reads and writes each entry once.
template <class ExecutionSpace, class Scalar, int Links = kChainLength>
struct GatherPositions {
  using Tile = TrainingTile<ExecutionSpace, Scalar, Links>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace>;
  using Member = typename Policy::member_type;

  DeviceRows<ExecutionSpace, Scalar> matrix;
  ConstDeviceArray<ExecutionSpace, std::uint64_t> rows_of;
  TrainingPanel<ExecutionSpace, Scalar, Links> panel;
  int num_neurons;

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    int const position = team.league_rank();
    auto const row = rows_of(position);
    std::size_t const first_line =
        static_cast<std::size_t>(position / Tile::num_samples) * static_cast<std::size_t>(num_neurons);
    int const place = PlaceInLine<Tile>::place_of(position % Tile::num_samples);
    auto const begin = matrix.row_pointers(row);
    int const count = static_cast<int>(matrix.row_pointers(row + 1) - begin);
    bool const is_iso = matrix.values.size() == 1;
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, count), [&](int i) {
      auto const entry = begin + static_cast<std::uint64_t>(i);
      number_at(panel, first_line + matrix.columns(entry), place) = matrix.values(is_iso ? 0 : entry);
    });
  }
};

/// Gathers rows of a matrix, with their zeros, at the positions of a panel, by the kernel of the execution space. Does
/// not fence.
template <class ExecutionSpace, class Scalar, int Links>
void gather_positions(ExecutionSpace const& space, GatherPositions<ExecutionSpace, Scalar, Links> const& kernel,
                      int num_positions) {
  using Kernel = GatherPositions<ExecutionSpace, Scalar, Links>;
  using Tile = typename Kernel::Tile;
  int const leaves = num_tiles(num_positions, Tile::num_samples);
  if (leaves == 0 || kernel.num_neurons == 0) return;
  if constexpr (kOnHost<ExecutionSpace>) {
    using OnHost = GatherPositionsOnHost<ExecutionSpace, Scalar, Links>;
    constexpr int tasks_per_processor = 4;
    int const wanted = tasks_per_processor * num_processors(space);
    int const most = (kernel.num_neurons + OnHost::block - 1) / OnHost::block;
    int const parts = std::clamp((wanted + leaves - 1) / leaves, 1, most);
    launch_teams("varve::gather_positions", typename OnHost::Policy(space, leaves * parts, 1),
                 OnHost{kernel.matrix, kernel.rows_of, kernel.panel, kernel.num_neurons, num_positions, parts});
  } else {
    auto const lines = static_cast<std::size_t>(leaves) * static_cast<std::size_t>(kernel.num_neurons);
    Kokkos::View<Scalar*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged> const numbers(
        reinterpret_cast<Scalar*>(kernel.panel.data()), lines * Tile::num_samples);
    Kokkos::deep_copy(space, numbers, Scalar(0));
    constexpr int team_size = 128;
    launch_teams("varve::gather_positions", typename Kernel::Policy(space, num_positions, team_size), kernel);
  }
}

} // namespace varve
