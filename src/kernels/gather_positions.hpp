#pragma once

#include "kernels/device_rows.hpp"
#include "kernels/gather_positions_host.hpp"
#include "kernels/training_tile.hpp"

namespace varve {

/// GPUs: scatters row rows_of(p) of a matrix to position p of a panel of zeros. league: positions; team threads:
/// entries. Reads and writes each entry once.
template <class ExecutionSpace, class Scalar>
struct GatherPositions {
  using Tile = TrainingTile<ExecutionSpace, Scalar>;
  using Policy = Kokkos::TeamPolicy<ExecutionSpace>;
  using Member = typename Policy::member_type;

  DeviceRows<ExecutionSpace, Scalar> matrix;
  ConstDeviceArray<ExecutionSpace, std::uint64_t> rows_of;
  TrainingPanel<ExecutionSpace, Scalar> panel;
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

/// Brings rows of a matrix, with their zeros, to the positions of a panel, by the kernel of the execution space. Does
/// not fence.
template <class ExecutionSpace, class Scalar>
void gather_positions(ExecutionSpace const& space, GatherPositions<ExecutionSpace, Scalar> const& kernel,
                      int num_positions) {
  using Kernel = GatherPositions<ExecutionSpace, Scalar>;
  using Tile = typename Kernel::Tile;
  int const leaves = num_tiles(num_positions, Tile::num_samples);
  if (leaves == 0 || kernel.num_neurons == 0) return;
  if constexpr (kOnHost<ExecutionSpace>) {
    gather_positions_on_host(space,
                             GatherPositionsOnHost<ExecutionSpace, Scalar>{kernel.matrix, kernel.rows_of, kernel.panel,
                                                                           kernel.num_neurons, num_positions, 1});
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
