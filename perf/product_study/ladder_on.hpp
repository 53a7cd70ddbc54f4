#pragma once

#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/views.hpp"
#include "cublas.hpp"
#include "ladder.hpp"
#include "packed_product.hpp"

#include <algorithm>
#include <memory>
#include <optional>

namespace varve::product_study {

/// Matrices in device memory, row by row.
template <class Scalar>
struct Matrices {
  ArrayView<Scalar const> a;
  ArrayView<Scalar const> b;
  ArrayView<Scalar> c;
  int rows;
  int columns;
  int depth;

  KOKKOS_FORCEINLINE_FUNCTION Scalar a_or_0(int row, int k) const {
    return row < rows && k < depth ? a[static_cast<std::size_t>(row) * depth + k] : Scalar(0);
  }
  KOKKOS_FORCEINLINE_FUNCTION Scalar b_or_0(int k, int column) const {
    return k < depth && column < columns ? b[static_cast<std::size_t>(k) * columns + column] : Scalar(0);
  }
  KOKKOS_FORCEINLINE_FUNCTION void store(int row, int column, Scalar sum) const {
    if (row < rows && column < columns) c[static_cast<std::size_t>(row) * columns + column] = sum;
  }
};

/// One number of C for each index; every number of A and B comes from memory for each of them.
template <class Scalar>
struct Naive {
  Matrices<Scalar> matrices;

  KOKKOS_FUNCTION void operator()(std::int64_t index) const {
    int const row = static_cast<int>(index / matrices.columns);
    int const column = static_cast<int>(index % matrices.columns);
    Scalar sum = 0;
    for (int k = 0; k < matrices.depth; ++k)
      sum = Kokkos::fma(matrices.a_or_0(row, k), matrices.b_or_0(k, column), sum);
    matrices.store(row, column, sum);
  }
};

/// A tile of C for each team, PerThread x PerThread numbers of it for each place; the numbers of A and B for 16 of k at
/// a time are in scratch, and those of a place in registers. Places are those of a tile divided by PerThread, and the
/// threads of the team share them: a host has one thread, a GPU one for each place.
template <class ExecutionSpace, class Scalar, int Tile, int PerThread>
struct Tiled {
  using Policy = Kokkos::TeamPolicy<ExecutionSpace>;
  using Member = typename Policy::member_type;
  static constexpr int depth = 16;
  static constexpr int across = Tile / PerThread;
  static constexpr int places = across * across;
  static constexpr bool on_host = kOnHost<ExecutionSpace>;

  Matrices<Scalar> matrices;
  int tiles_across;

  static std::size_t scratch_bytes() { return sizeof(Scalar) * (2 * Tile * depth + (on_host ? Tile * Tile : 0)); }

  KOKKOS_FUNCTION void operator()(Member const& team) const {
    constexpr std::size_t bytes = sizeof(Scalar) * (2 * Tile * depth + (on_host ? Tile * Tile : 0));
    ScratchArrays arrays(team, 0, bytes, 64);
    auto const a = arrays.template take<Scalar>(Tile * depth);
    auto const b = arrays.template take<Scalar>(Tile * depth);
    int const row = team.league_rank() / tiles_across * Tile;
    int const column = team.league_rank() % tiles_across * Tile;
    Scalar sums[on_host ? places : 1][PerThread][PerThread] = {};
    for (int k = 0; k < matrices.depth; k += depth) {
      team.team_barrier();
      for (int i = team.team_rank(); i < Tile * depth; i += team.team_size()) {
        a[i] = matrices.a_or_0(row + i / depth, k + i % depth);
        b[i] = matrices.b_or_0(k + i / Tile, column + i % Tile);
      }
      team.team_barrier();
      for (int place = team.team_rank(), own = 0; place < places; place += team.team_size(), ++own)
        add(sums[own], a, b, place / across, place % across, matrices.depth - k);
    }
    for (int place = team.team_rank(), own = 0; place < places; place += team.team_size(), ++own) {
      for (int r = 0; r < PerThread; ++r)
        for (int c = 0; c < PerThread; ++c)
          matrices.store(row + place / across + r * across, column + place % across + c * across, sums[own][r][c]);
    }
  }

private:
  KOKKOS_FORCEINLINE_FUNCTION static void add(Scalar (&sums)[PerThread][PerThread], ArrayView<Scalar> const& a,
                                              ArrayView<Scalar> const& b, int row, int column, int left) {
    for (int k = 0; k < (left < depth ? left : depth); ++k) {
      VARVE_UNROLL
      for (int r = 0; r < PerThread; ++r) {
        VARVE_UNROLL
        for (int c = 0; c < PerThread; ++c)
          sums[r][c] = Kokkos::fma(a[(row + r * across) * depth + k], b[k * Tile + column + c * across], sums[r][c]);
      }
    }
  }
};

/// Numbers (line, k) of a matrix in memory.
template <class Scalar>
struct Lines {
  ArrayView<Scalar const> matrix;
  std::int64_t line_stride;
  std::int64_t k_stride;

  KOKKOS_FORCEINLINE_FUNCTION Scalar operator()(std::int64_t line, std::int64_t k) const {
    return matrix[line * line_stride + k * k_stride];
  }
};

template <class ExecutionSpace, class Scalar>
struct LadderOn {
  DeviceArray<ExecutionSpace, Scalar> a, b, c;
  Matrices<Scalar> matrices;
  ExecutionSpace space;
  std::optional<PackedProduct<ExecutionSpace, Scalar>> packed;
  std::optional<Cublas> cublas;

  explicit LadderOn(Problem<Scalar> const& problem)
      : a("a", problem.a.size), b("b", problem.b.size), c("c", problem.rows * problem.columns) {
    auto const upload = [](auto const& target, HostNumbers<Scalar> const& source) {
      Kokkos::deep_copy(target, Kokkos::View<Scalar const*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                                    source.values.get(), source.size));
    };
    upload(a, problem.a);
    upload(b, problem.b);
    matrices = {ArrayView<Scalar const>(a.data(), a.size()), ArrayView<Scalar const>(b.data(), b.size()),
                ArrayView<Scalar>(c.data(), c.size()),       static_cast<int>(problem.rows),
                static_cast<int>(problem.columns),           static_cast<int>(problem.depth)};
  }

  void run_naive() const {
    Kokkos::parallel_for("naive",
                         Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(
                             space, 0, static_cast<std::int64_t>(c.size())),
                         Naive<Scalar>{matrices});
    space.fence();
  }

  template <int Tile, int PerThread>
  void run_tiled() const {
    using Kernel = Tiled<ExecutionSpace, Scalar, Tile, PerThread>;
    int const across = (matrices.columns + Tile - 1) / Tile;
    int const down = (matrices.rows + Tile - 1) / Tile;
    typename Kernel::Policy policy(space, across * down, Kernel::on_host ? 1 : Kernel::places);
    policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(Kernel::scratch_bytes()) + 128));
    Kokkos::parallel_for("tiled", policy, Kernel{matrices, across});
    space.fence();
  }

  void run_kernel() {
    if (!packed)
      packed.emplace(space, matrices.rows, matrices.columns, matrices.depth,
                     Lines<Scalar>{matrices.a, matrices.depth, 1}, Lines<Scalar>{matrices.b, 1, matrices.columns});
    packed->run();
    space.fence();
  }

  void run_cublas(std::string const& library) {
    void* stream = nullptr;
#if defined(KOKKOS_ENABLE_CUDA)
    if constexpr (std::is_same_v<ExecutionSpace, Kokkos::Cuda>) stream = space.cuda_stream();
#endif
    if (to_backend<ExecutionSpace>() != Backend::cuda) throw UsageError("--cublas needs --backend cuda");
    if (!cublas) cublas.emplace(library, stream);
    cublas->multiply(a.data(), b.data(), c.data(), matrices.rows, matrices.columns, matrices.depth);
    space.fence();
  }

  std::vector<Scalar> numbers(std::vector<std::size_t> const& places) const {
    std::vector<Scalar> values(places.size());
    for (std::size_t number = 0; number < places.size(); ++number)
      Kokkos::deep_copy(values[number], Kokkos::subview(c, places[number]));
    return values;
  }

  std::vector<Scalar> packed_numbers(std::vector<std::size_t> const& places) const {
    auto const columns = static_cast<std::size_t>(matrices.columns);
    std::vector<Scalar> values(places.size());
    for (std::size_t number = 0; number < places.size(); ++number)
      values[number] = packed->number(places[number] / columns, places[number] % columns);
    return values;
  }
};

template <Backend backend, class Scalar>
std::vector<Rung<Scalar>> ladder_on(Problem<Scalar> const& problem, std::string const& cublas) {
  using Ladder = LadderOn<SpaceOf<backend>, Scalar>;
  auto const made = std::make_shared<std::optional<Ladder>>();
  auto const ladder = [made, &problem]() -> Ladder& { return *made ? **made : made->emplace(problem); };
  auto const numbers = [ladder](std::vector<std::size_t> const& places) { return ladder().numbers(places); };
  auto const packed_numbers = [ladder](std::vector<std::size_t> const& places) {
    return ladder().packed_numbers(places);
  };
  auto const part_of = [](int rows, int columns) { return [=] { return Part{rows, columns}; }; };
  std::vector<Rung<Scalar>> rungs = {
      {"naive", [ladder] { ladder().run_naive(); }, numbers, part_of(1, 1)},
      {"scratch", [ladder] { ladder().template run_tiled<32, 1>(); }, numbers, part_of(32, 32)},
      {"registers", [ladder] { ladder().template run_tiled<64, 4>(); }, numbers, part_of(64, 64)},
      {"kernel", [ladder] { ladder().run_kernel(); }, packed_numbers, [ladder] { return ladder().packed->part(); }}};
  if (!cublas.empty()) rungs.push_back({"cublas", [ladder, cublas] { ladder().run_cublas(cublas); }, numbers});
  return rungs;
}

} // namespace varve::product_study
