#include "distribute/shared_words.hpp"

#include "core/config.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#if VARVE_HAVE_MPI
#include <mpi.h>
#endif

namespace varve {

struct SharedWords::Window {
  std::vector<std::uint64_t> own; ///< used if there is one rank
#if VARVE_HAVE_MPI
  MPI_Win window = MPI_WIN_NULL;

  std::uint64_t change(int rank, std::size_t word, std::uint64_t number, MPI_Op operation) const {
    std::uint64_t before = 0;
    MPI_Fetch_and_op(&number, &before, MPI_UINT64_T, rank, static_cast<MPI_Aint>(word), operation, window);
    MPI_Win_flush(rank, window);
    return before;
  }
#endif
};

SharedWords::SharedWords(Communicator const& communicator, std::size_t words_per_rank)
    : window_(std::make_unique<Window>()) {
  if (communicator.size() == 1) window_->own.assign(words_per_rank, 0);
#if VARVE_HAVE_MPI
  if (communicator.size() == 1) return;
  std::uint64_t* words = nullptr;
  MPI_Win_allocate(static_cast<MPI_Aint>(words_per_rank * sizeof(*words)), sizeof(*words), MPI_INFO_NULL,
                   MPI_COMM_WORLD, static_cast<void*>(&words), &window_->window);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_->window);
  std::fill_n(words, words_per_rank, 0);
  MPI_Win_sync(window_->window);
  MPI_Barrier(MPI_COMM_WORLD);
#endif
}

SharedWords::~SharedWords() {
#if VARVE_HAVE_MPI
  if (window_->window == MPI_WIN_NULL) return;
  MPI_Win_unlock_all(window_->window);
  MPI_Win_free(&window_->window);
#endif
}

std::uint64_t SharedWords::add(int rank, std::size_t word, std::uint64_t number) {
#if VARVE_HAVE_MPI
  if (window_->window != MPI_WIN_NULL) return window_->change(rank, word, number, MPI_SUM);
#endif
  static_cast<void>(rank);
  return std::exchange(window_->own[word], window_->own[word] + number);
}

std::uint64_t SharedWords::exchange(int rank, std::size_t word, std::uint64_t wanted) {
#if VARVE_HAVE_MPI
  if (window_->window != MPI_WIN_NULL) return window_->change(rank, word, wanted, MPI_REPLACE);
#endif
  static_cast<void>(rank);
  return std::exchange(window_->own[word], wanted);
}

} // namespace varve
