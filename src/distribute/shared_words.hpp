#pragma once

#include "distribute/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace varve {

/// Words on rank 0 that all ranks of a job read and change atomically, without a serving rank: MPI_Fetch_and_op on
/// memory of rank 0; plain numbers if there is one rank. They start at 0.
///
/// Rank 0 need not be inside MPI while others change a word. On one host the memory is shared and the others
/// change it themselves (tests/distribute checks this). Between hosts the network card does it if it has remote atomics
/// (InfiniBand, Slingshot); otherwise an operation waits until that rank is inside MPI again, at the latest when it
/// takes its own next work or waits for the others.
class SharedWords {
public:
  /// Collective, as is the destructor.
  SharedWords(Communicator const& communicator, std::size_t num_words);
  ~SharedWords();
  SharedWords(SharedWords const&) = delete;
  SharedWords& operator=(SharedWords const&) = delete;

  /// Adds to a word and returns its previous value. Addition is modulo 2^64, so adding 2^64 - k subtracts k.
  std::uint64_t add(std::size_t word, std::uint64_t number);
  std::uint64_t read(std::size_t word) { return add(word, 0); }

private:
  struct Window;
  std::unique_ptr<Window> window_;
};

} // namespace varve
