#pragma once

#include "distribute/communicator.hpp"
#include "distribute/shared_words.hpp"
#include "io/sample_reader.hpp"
#include "products/product_engine.hpp"
#include "products/product_tiles.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace varve {

/// The tasks of a product, shared by all ranks; no rank serves the others. A rank moves tasks from the head of a common
/// list, which a shared counter marks, to its reservation station, and takes from there the one whose inputs it has at
/// hand. A rank with an empty station that finds the list at its end takes a task from another rank's station (Wang,
/// Wu, Xu, Xiao and Yang, "BLASX", 2016). So ranks of any speeds finish together, up to a task. (Only the owner puts
/// tasks into its empty words, so an exchange does what a compare and swap would do.)
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
  SharedWords words_; ///< of each rank: its station, then, of rank 0, the number of tasks that have left the list
  std::uint64_t num_taken_ = 0;
  std::uint64_t num_stolen_ = 0;
};

/// The record of a finished tile (JOURNAL.md): the number of its task in 8 bytes, and its numbers row by row.
std::string record_of_tile(std::uint64_t task, std::string_view numbers);
std::uint64_t task_of_record(std::string_view record);
std::string_view numbers_of_record(std::string_view record);

/// The range [task, task + 1) of a record. Throws InputError, naming `place`, unless it is a tile of this product.
SampleRange range_of_tile(ProductTiles const& tiles, std::size_t element_size, std::string_view record,
                          std::string const& place);

/// The tiles of `order` of which no rank has finished a part, and of the others the quarters that are not finished.
/// `finished`: the ranges of this rank's records. Collective. Throws InputError if a tile is stored twice, or beside a
/// quarter of it.
std::vector<std::uint64_t> tasks_left(Communicator const& communicator, ProductTiles const& tiles,
                                      std::vector<std::uint64_t> const& order,
                                      std::vector<SampleRange> const& finished);

/// A rank of the same machine, from the view of another one.
struct TilePeer {
  int rank = 0;
  std::string obstacle; ///< why its tiles are not copied; empty if they are
};

/// Lets the engines of all ranks of a machine copy tiles from each other (see ProductEngine::offer_tiles()), until it
/// is destroyed.
class TileSharing {
public:
  /// Collective, as is the destructor; before the first run of the engine, which must outlive this object.
  template <class Scalar>
  TileSharing(Communicator const& communicator, ProductEngine<Scalar>& engine)
      : communicator_(communicator), leave_([&engine] { engine.leave_peers(); }) {
    PeerOffer mine;
    communicator.together([&] { mine = engine.offer_tiles(); });
    auto const offers = exchange(mine);
    communicator.together([&] { set_peers(offers, engine.open_peers(offers)); });
  }
  ~TileSharing();
  TileSharing(TileSharing const&) = delete;
  TileSharing& operator=(TileSharing const&) = delete;

  /// The other ranks of this machine.
  std::vector<TilePeer> const& peers() const { return peers_; }

private:
  /// The offers of the other ranks of this machine, by rank.
  std::vector<std::optional<PeerOffer>> exchange(PeerOffer const& mine) const;
  void set_peers(std::vector<std::optional<PeerOffer>> const& offers, std::vector<std::string> const& obstacles);

  Communicator communicator_;
  std::function<void()> leave_;
  std::vector<TilePeer> peers_;
};

} // namespace varve
