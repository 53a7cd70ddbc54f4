#pragma once

#include "core/stopwatch.hpp"
#include "distribute/batch_queue.hpp"
#include "distribute/communicator.hpp"
#include "distribute/ranks.hpp"
#include "io/sample_reader.hpp"
#include "products/product_engine.hpp"
#include "products/product_tiles.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

/// The tasks of a product, shared by all ranks as batches of a BatchQueue: neighbours of a list, which share inputs, so
/// many that ranks of any speeds finish together, up to a task. Batches are whole runs but for the last run of each
/// rank.
class TileQueue {
public:
  /// The value of a task to this rank, such as the number of its inputs that are on the device.
  using Priority = std::function<std::uint64_t(std::uint64_t task)>;

  /// Collective, as is the destructor. All ranks must pass the same arguments. `are_alike`: all have devices of one
  /// kind; `run_length`: tasks of a run, one after the other of the list, which share inputs.
  TileQueue(Communicator const& communicator, std::vector<std::uint64_t> tasks, bool are_alike,
            std::size_t run_length = 1);

  /// A task that no other rank gets: of the next few of this rank's batch the one with the highest priority, of equal
  /// ones the first of the list. nullopt if all tasks are taken. `num_finished`: tasks that this rank has computed.
  std::optional<std::uint64_t> next(Priority const& priority, std::uint64_t num_finished);

  /// Tasks that have left the list, as this rank last saw it.
  std::uint64_t num_taken() const { return runs_.num_taken() + last_.num_taken(); }

private:
  std::vector<std::uint64_t> tasks_;
  std::size_t num_in_runs_; ///< tasks of runs_; the others are those of last_
  BatchQueue runs_, last_;
  std::deque<std::uint64_t> batch_; ///< what is left of this rank's batch
  Stopwatch const time_;
};

/// The record of a finished tile (JOURNAL.md): the number of its task in 8 bytes, and its numbers row by row.
std::string record_of_tile(std::uint64_t task, std::string_view numbers);
std::uint64_t task_of_record(std::string_view record);
std::string_view numbers_of_record(std::string_view record);

/// The range [task, task + 1) of a record. Throws InputError, naming `place`, unless it is a tile of this product.
SampleRange range_of_tile(ProductTiles const& tiles, std::size_t element_size, std::string_view record,
                          std::string const& place);

/// The tasks of `order` that no rank has finished. `finished`: the ranges of this rank's records. Collective. Throws
/// InputError if a tile is stored twice.
std::vector<std::uint64_t> tasks_left(Communicator const& communicator, std::vector<std::uint64_t> const& order,
                                      std::vector<SampleRange> const& finished);

/// Lets the engines of all ranks of a machine copy tiles from each other (see ProductEngine::share_tiles()), until it
/// is destroyed.
class TileSharing {
public:
  /// Collective, as is the destructor; before the first run of the engine, which must outlive this object.
  template <class Scalar>
  TileSharing(Communicator const& communicator, ProductEngine<Scalar>& engine)
      : communicator_(communicator),
        leave_([&engine] { engine.leave_peers(); }),
        exchange_(exchange_between_ranks()),
        peers_(
            engine.share_tiles(exchange_->rank(), [&](std::string const& text) { return exchange_->gather(text); })) {}
  ~TileSharing();
  TileSharing(TileSharing const&) = delete;
  TileSharing& operator=(TileSharing const&) = delete;

  /// The other ranks of this machine.
  std::vector<TilePeer> const& peers() const { return peers_; }

private:
  Communicator communicator_;
  std::function<void()> leave_;
  std::shared_ptr<RankExchange> exchange_;
  std::vector<TilePeer> peers_;
};

} // namespace varve
