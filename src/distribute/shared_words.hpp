#pragma once

#include "distribute/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace varve {

/// Words that all ranks of a job read and change atomically, a few on each rank, without a serving rank:
/// MPI_Fetch_and_op on memory of that rank; plain numbers if there is one rank. They start at 0.
///
/// The rank of a word need not be inside MPI while others change it. On one host the memory is shared and the others
/// change it themselves (tests/distribute checks this). Between hosts the network card does it if it has remote atomics
/// (InfiniBand, Slingshot); otherwise an operation waits until that rank is inside MPI again, at the latest when it
/// takes its own next work or waits for the others.
class SharedWords {
public:
  /// Collective, as is the destructor.
  SharedWords(Communicator const& communicator, std::size_t words_per_rank);
  ~SharedWords();
  SharedWords(SharedWords const&) = delete;
  SharedWords& operator=(SharedWords const&) = delete;

  /// Adds to a word and returns its previous value. Addition is modulo 2^64, so adding 2^64 - k subtracts k.
  std::uint64_t add(int rank, std::size_t word, std::uint64_t number);
  std::uint64_t read(int rank, std::size_t word) { return add(rank, word, 0); }

  /// Stores `wanted` and returns what was there. (MPI_Compare_and_swap on a rank's own memory ends Open MPI 4.1 with a
  /// segmentation fault.)
  std::uint64_t exchange(int rank, std::size_t word, std::uint64_t wanted);

private:
  struct Window;
  std::unique_ptr<Window> window_;
};

} // namespace varve
