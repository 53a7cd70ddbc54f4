#include "distribute/tile_queue.hpp"

#include "core/config.hpp"

#include <algorithm>
#include <utility>

#if VARVE_HAVE_MPI
#include <mpi.h>
#endif

namespace varve {

struct TaskStations::Window {
  std::vector<std::uint64_t> own; ///< used if there is one rank
#if VARVE_HAVE_MPI
  MPI_Win window = MPI_WIN_NULL;
#endif
};

#if VARVE_HAVE_MPI

TaskStations::TaskStations(Communicator const& communicator, std::size_t words_per_rank)
    : window_(std::make_unique<Window>()) {
  if (communicator.size() == 1) {
    window_->own.assign(words_per_rank, 0);
    return;
  }
  std::uint64_t* words = nullptr;
  MPI_Win_allocate(static_cast<MPI_Aint>(words_per_rank * sizeof(*words)), sizeof(*words), MPI_INFO_NULL,
                   MPI_COMM_WORLD, static_cast<void*>(&words), &window_->window);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_->window);
  std::fill_n(words, words_per_rank, 0);
  MPI_Win_sync(window_->window);
  MPI_Barrier(MPI_COMM_WORLD);
}

TaskStations::~TaskStations() {
  if (window_->window == MPI_WIN_NULL) return;
  MPI_Win_unlock_all(window_->window);
  MPI_Win_free(&window_->window);
}

std::uint64_t TaskStations::read(int rank, std::size_t word) {
  if (window_->window == MPI_WIN_NULL) return window_->own[word];
  std::uint64_t const nothing = 0;
  std::uint64_t found = 0;
  MPI_Fetch_and_op(&nothing, &found, MPI_UINT64_T, rank, static_cast<MPI_Aint>(word), MPI_NO_OP, window_->window);
  MPI_Win_flush(rank, window_->window);
  return found;
}

std::uint64_t TaskStations::exchange(int rank, std::size_t word, std::uint64_t wanted) {
  if (window_->window == MPI_WIN_NULL) return std::exchange(window_->own[word], wanted);
  std::uint64_t found = 0;
  MPI_Fetch_and_op(&wanted, &found, MPI_UINT64_T, rank, static_cast<MPI_Aint>(word), MPI_REPLACE, window_->window);
  MPI_Win_flush(rank, window_->window);
  return found;
}

#else

TaskStations::TaskStations(Communicator const&, std::size_t words_per_rank) : window_(std::make_unique<Window>()) {
  window_->own.assign(words_per_rank, 0);
}

TaskStations::~TaskStations() = default;

std::uint64_t TaskStations::read(int, std::size_t word) { return window_->own[word]; }

std::uint64_t TaskStations::exchange(int, std::size_t word, std::uint64_t wanted) {
  return std::exchange(window_->own[word], wanted);
}

#endif

TileQueue::TileQueue(Communicator const& communicator, std::vector<std::uint64_t> tasks, std::size_t station_size,
                     Stealing stealing, std::size_t run_length)
    : communicator_(communicator),
      tasks_(std::move(tasks)),
      station_size_(station_size),
      run_length_(run_length),
      stealing_(stealing),
      counter_(communicator, 1),
      stations_(communicator, station_size) {}

std::optional<std::uint64_t> TileQueue::next(Priority const& priority) {
  fill();
  int const own = communicator_.rank();
  if (auto const task = take_from(own, priority)) return task;
  for (int step = 1; step < communicator_.size() && stealing_ == Stealing::on; ++step) {
    auto const task = take_from((own + step) % communicator_.size(), priority);
    if (!task) continue;
    ++num_stolen_;
    return task;
  }
  return std::nullopt;
}

/// Moves runs of tasks from the list to this rank's station while it has room. A word holds a task's place in the list
/// plus 1.
void TileQueue::fill() {
  int const own = communicator_.rank();
  std::vector<std::size_t> empty;
  for (std::size_t word = 0; word < station_size_ && num_taken_ < tasks_.size(); ++word) {
    if (stations_.read(own, word) != 0) continue;
    empty.push_back(word);
    if (empty.size() < run_length_) continue;
    auto const first = counter_.add(0, run_length_);
    num_taken_ = std::min<std::uint64_t>(first + run_length_, tasks_.size());
    for (auto place = first; place < num_taken_; ++place) stations_.exchange(own, empty[place - first], place + 1);
    empty.clear();
  }
}

/// Takes the task with the highest priority from a station; another one if somebody else is faster.
std::optional<std::uint64_t> TileQueue::take_from(int rank, Priority const& priority) {
  for (;;) {
    std::optional<std::pair<std::uint64_t, std::size_t>> best; // value and word
    std::uint64_t found = 0;
    for (std::size_t word = 0; word < station_size_; ++word) {
      auto const content = stations_.read(rank, word);
      if (content == 0) continue;
      auto const value = priority(tasks_[content - 1]);
      if (best && (value < best->first || (value == best->first && content > found))) continue;
      best = {value, word};
      found = content;
    }
    if (!best) return std::nullopt;
    if (auto const taken = stations_.exchange(rank, best->second, 0); taken != 0) return tasks_[taken - 1];
  }
}

} // namespace varve
