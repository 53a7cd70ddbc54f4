#pragma once

/// \file
/// Start and end of Kokkos and MPI.

#include <varve/namespace.hpp>

#include <memory>
#include <optional>

namespace varve::v0_3 {

/// How Kokkos and MPI start.
struct RuntimeOptions {
  std::optional<int> num_threads; ///< of Kokkos; empty: as OMP_NUM_THREADS says, else all
  std::optional<int> device;      ///< number of the GPU; empty: Kokkos chooses
  bool uses_mpi = false;          ///< start MPI, too
};

/// Starts Kokkos, and MPI if it is wanted, and ends them on destruction, in the reverse order. What already runs is
/// left as it is: a program that starts Kokkos or MPI itself needs no Runtime. At most one object lives at a time; all
/// objects that hold memory of Kokkos (PreparedNetwork) must be destroyed before it.
class Runtime {
public:
  /// Throws UsageError about bad settings or a second object, ResourceError if Kokkos or the device cannot start, or if
  /// MPI is wanted and this build has none.
  explicit Runtime(RuntimeOptions const& options = {});
  ~Runtime();
  Runtime(Runtime const&) = delete;
  Runtime& operator=(Runtime const&) = delete;

  /// The number of this process among those that MPI started, from 0; 0 without MPI.
  int rank() const;
  /// Processes that MPI started; 1 without MPI.
  int num_ranks() const;

private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

} // namespace varve::v0_3
