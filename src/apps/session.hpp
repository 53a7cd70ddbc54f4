#pragma once

#include "core/runtime.hpp"
#include "distribute/communicator.hpp"

#include <optional>

namespace varve {

/// Runs commands in this process. What a process starts once stays for the next command: MPI, Kokkos, the thread that
/// removes partial outputs when a signal comes, and the limit of memory (limit_memory_to_available()), which the caller
/// may raise again. Nothing else does, so that each command gives what it gives alone.
class Session {
public:
  Session() = default;
  Session(Session const&) = delete;
  Session& operator=(Session const&) = delete;

  /// Runs the command of these arguments, the name of the program first, and returns its exit code. Prints its error on
  /// standard error. Options of Kokkos are refused, as wrong usage, where an earlier command has started it.
  int run(int num_arguments, char** arguments);

private:
  int run_on(Communicator const& communicator, int num_arguments, char** arguments);

  std::optional<ParallelEnvironment> ranks_;
  std::optional<Runtime> devices_; // ends before MPI does
  bool watches_signals_ = false;
};

} // namespace varve
