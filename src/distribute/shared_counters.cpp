#include "distribute/shared_counters.hpp"

#include "core/config.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#if VARVE_HAVE_MPI
#include <mpi.h>
#endif

namespace varve {

#if VARVE_HAVE_MPI

struct SharedCounters::Window {
  std::vector<std::uint64_t> own; ///< used if there is one rank
  MPI_Win window = MPI_WIN_NULL;
};

SharedCounters::SharedCounters(Communicator const& communicator, std::size_t count)
    : window_(std::make_unique<Window>()) {
  if (communicator.size() == 1) {
    window_->own.assign(count, 0);
    return;
  }
  std::uint64_t* counters = nullptr;
  auto const bytes = communicator.is_root() ? static_cast<MPI_Aint>(count * sizeof(*counters)) : 0;
  MPI_Win_allocate(bytes, sizeof(*counters), MPI_INFO_NULL, MPI_COMM_WORLD, &counters, &window_->window);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_->window);
  if (communicator.is_root()) {
    std::fill_n(counters, count, 0);
    MPI_Win_sync(window_->window);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

SharedCounters::~SharedCounters() {
  if (window_->window == MPI_WIN_NULL) return;
  MPI_Win_unlock_all(window_->window);
  MPI_Win_free(&window_->window);
}

std::uint64_t SharedCounters::add(std::size_t counter, std::uint64_t number) {
  if (window_->window == MPI_WIN_NULL) return std::exchange(window_->own[counter], window_->own[counter] + number);
  std::uint64_t before = 0;
  MPI_Fetch_and_op(&number, &before, MPI_UINT64_T, 0, static_cast<MPI_Aint>(counter), MPI_SUM, window_->window);
  MPI_Win_flush(0, window_->window);
  return before;
}

#else

struct SharedCounters::Window {
  std::vector<std::uint64_t> own;
};

SharedCounters::SharedCounters(Communicator const&, std::size_t count) : window_(std::make_unique<Window>()) {
  window_->own.assign(count, 0);
}

SharedCounters::~SharedCounters() = default;

std::uint64_t SharedCounters::add(std::size_t counter, std::uint64_t number) {
  return std::exchange(window_->own[counter], window_->own[counter] + number);
}

#endif

} // namespace varve
