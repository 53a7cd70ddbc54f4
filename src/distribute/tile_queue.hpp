#pragma once

#include "distribute/communicator.hpp"
#include "distribute/shared_counters.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace varve {

/// Words that all ranks of a job read and exchange atomically, a few on each rank, without a serving rank:
/// MPI_Fetch_and_op on memory of that rank, or plain numbers if there is one rank. They start at 0. Ranks need not be
/// inside MPI while others exchange their words, see SharedCounters. (An exchange does what a compare and swap would do
/// here, for only the owner puts tasks into its empty words; MPI_Compare_and_swap on a rank's own memory ends Open MPI
/// 4.1 with a segmentation fault.)
class TaskStations {
public:
  /// Collective, as is the destructor.
  TaskStations(Communicator const& communicator, std::size_t words_per_rank);
  ~TaskStations();
  TaskStations(TaskStations const&) = delete;
  TaskStations& operator=(TaskStations const&) = delete;

  std::uint64_t read(int rank, std::size_t word);

  /// Stores `wanted` and returns what was there.
  std::uint64_t exchange(int rank, std::size_t word, std::uint64_t wanted);

private:
  struct Window;
  std::unique_ptr<Window> window_;
};

/// The tasks of a product, shared by all ranks; no rank serves the others. A rank moves tasks from the head of a common
/// list, which a shared counter marks, to its reservation station, and takes from there the one whose inputs it has at
/// hand. A rank with an empty station that finds the list at its end takes a task from another rank's station (Wang,
/// Wu, Xu, Xiao and Yang, "BLASX", 2016). So ranks of any speeds finish together, up to a task.
class TileQueue {
public:
  /// The value of a task to this rank, such as the number of its inputs that are on the device.
  using Priority = std::function<std::uint64_t(std::uint64_t task)>;

  /// Whether ranks take tasks from the stations of others.
  enum class Stealing { on, off };

  /// Collective, as is the destructor. All ranks must pass the same arguments. `station_size`: tasks that a rank
  /// reserves; `run_length`, not more: tasks that it moves to its station at a time, one after the other of the list,
  /// because they share inputs.
  TileQueue(Communicator const& communicator, std::vector<std::uint64_t> tasks, std::size_t station_size,
            Stealing stealing = Stealing::on, std::size_t run_length = 1);

  /// A task that no other rank gets: of this rank's station the one with the highest priority, of equal ones the first
  /// of the list.
  /// nullopt if all tasks are taken.
  std::optional<std::uint64_t> next(Priority const& priority);

  /// Tasks that this rank took from the stations of others.
  std::uint64_t num_stolen() const { return num_stolen_; }

  /// Tasks that have left the common list, as this rank last saw it.
  std::uint64_t num_taken() const { return num_taken_; }

private:
  void fill();
  std::optional<std::uint64_t> take_from(int rank, Priority const& priority);

  Communicator communicator_;
  std::vector<std::uint64_t> tasks_;
  std::size_t station_size_;
  std::size_t run_length_;
  Stealing stealing_;
  SharedCounters counter_;
  TaskStations stations_;
  std::uint64_t num_taken_ = 0;
  std::uint64_t num_stolen_ = 0;
};

} // namespace varve
