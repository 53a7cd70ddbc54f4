#pragma once

#include "distribute/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace varve {

/// Counters that all ranks of a job read and change atomically, without a serving rank: MPI_Fetch_and_op on memory of
/// rank 0; plain numbers if there is one rank. They start at 0.
///
/// Rank 0 need not be inside MPI while others count. On one host the memory is shared and the others change it
/// themselves (tests/distribute checks this). Between hosts the network card does it if it has remote atomics
/// (InfiniBand, Slingshot); otherwise an operation waits until rank 0 is inside MPI again, at the latest when it takes
/// its own next batch or waits for the others.
class SharedCounters {
public:
  /// Collective, as is the destructor.
  SharedCounters(Communicator const& communicator, std::size_t count);
  ~SharedCounters();
  SharedCounters(SharedCounters const&) = delete;
  SharedCounters& operator=(SharedCounters const&) = delete;

  /// Adds to a counter and returns its previous value. Addition is modulo 2^64, so adding 2^64 - k subtracts k.
  std::uint64_t add(std::size_t counter, std::uint64_t number);
  std::uint64_t read(std::size_t counter) { return add(counter, 0); }

private:
  struct Window;
  std::unique_ptr<Window> window_;
};

} // namespace varve
