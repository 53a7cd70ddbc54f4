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
#endif
};

SharedWords::SharedWords(Communicator const& communicator, std::size_t num_words)
    : window_(std::make_unique<Window>()) {
  if (communicator.size() == 1) window_->own.assign(num_words, 0);
#if VARVE_HAVE_MPI
  if (communicator.size() == 1) return;
  std::uint64_t* words = nullptr;
  MPI_Win_allocate(static_cast<MPI_Aint>(num_words * sizeof(*words)), sizeof(*words), MPI_INFO_NULL, MPI_COMM_WORLD,
                   static_cast<void*>(&words), &window_->window);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_->window);
  std::fill_n(words, num_words, 0);
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

std::uint64_t SharedWords::add(std::size_t word, std::uint64_t number) {
#if VARVE_HAVE_MPI
  if (window_->window != MPI_WIN_NULL) {
    std::uint64_t before = 0;
    MPI_Fetch_and_op(&number, &before, MPI_UINT64_T, 0, static_cast<MPI_Aint>(word), MPI_SUM, window_->window);
    MPI_Win_flush(0, window_->window);
    return before;
  }
#endif
  return std::exchange(window_->own[word], window_->own[word] + number);
}

} // namespace varve
