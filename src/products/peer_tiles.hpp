#pragma once

#include "core/device_memory.hpp"
#include "core/host_threads.hpp"
#include "core/machine_memory.hpp"
#include "products/product_schedule.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace varve {

inline constexpr std::size_t max_shared_tiles = std::size_t{1} << 22U;

/// Records which devices of a machine hold which tiles of a product, so that devices can copy tiles from each other:
/// words in memory that all ranks of the machine share, one for each tile on each rank. A word has the slot of the tile
/// on that rank, whether the tile is coming or ready, how many ranks copy it, and a generation, which changes each time
/// the tile comes.
///
/// A reader pins a tile by an atomic exchange that succeeds only while the tile is ready. The owner closes a tile
/// before it reassigns the slot: from then on no reader can pin it, and the owner waits for those that have. So a
/// reader never copies from a slot that holds, or is about to hold, another tile. Only the ticket of its generation
/// makes a tile ready; a late publish() has no effect after the tile was closed. (Wang, Wu, Xu, Xiao and Yang, "BLASX",
/// 2016, treat the tiles of all devices of a machine as one cache, by a protocol on the host.)
class TileDirectory {
public:
  static constexpr std::size_t slot_limit = std::size_t{1} << 22U;

  /// `own`: the words of this rank; `peers`: the words of other ranks, nearest first, each of the same length. All are
  /// zero at the start and must outlive this object. One thread calls begin() and close(), any thread the other
  /// functions.
  TileDirectory(std::span<std::uint64_t> own, std::vector<std::uint64_t*> peers);

  /// State of a tile on other ranks.
  enum class Place { nowhere, coming, ready };
  Place look(std::size_t tile) const;

  /// Announces that this rank brings a tile, if the tile is absent here and no rank still copies it.
  void claim(std::size_t tile);

  /// A tile will be in a slot of this rank; an old copy must be closed before. Returns the ticket for publish().
  std::uint64_t begin(std::size_t tile, std::size_t slot);

  /// Makes the tile of a ticket ready: other ranks may copy it. Returns false if it was closed meanwhile.
  bool publish(std::size_t tile, std::uint64_t ticket);

  /// Withdraws a tile of this rank. Returns once no rank copies it: the slot may then be overwritten. Throws
  /// ResourceError if a rank has not finished within `patience` seconds.
  void close(std::size_t tile, double patience = 60.0);

  /// Closes all tiles of this rank, including claimed ones.
  void close_all();

  /// A tile on another rank, which stays unchanged until release().
  struct Pin {
    std::size_t peer = 0; ///< index in `peers`
    std::size_t slot = 0;
  };

  /// Pins a tile on the nearest rank that has it ready; nullopt if there is none.
  std::optional<Pin> pin(std::size_t tile);
  void release(std::size_t tile, Pin const& pin);

private:
  std::span<std::uint64_t> own_;
  std::vector<std::uint64_t*> peers_;
};

/// A packed tile on the device.
struct TileSlot {
  DeviceNumbers<std::byte> memory;
  std::size_t loaded_by = 0; ///< the lane that read it, or the number of lanes for a copy from another rank
  std::unique_ptr<StreamMark> loaded;
  std::vector<std::unique_ptr<StreamMark>> used; ///< [lane]: set after the lane's last use
};

/// Another rank of the same machine, from this rank's point of view.
struct TilePeer {
  int rank = 0;
  std::string obstacle; ///< why its tiles are not copied; empty if they are
};

/// Tiles that this rank's device got from other ranks of the machine.
struct PeerTraffic {
  std::uint64_t num_copied = 0; ///< tiles
  std::uint64_t num_lost = 0;   ///< tiles that were expected from other ranks, but had to be read
  double bytes = 0.0;           ///< bytes of numbers of A and B
  double wait_seconds = 0.0;    ///< for tiles that others read, and for copies by others before a tile is replaced
};

/// The second level of a product's cache: the packed tiles of this rank, in memory that other ranks of the machine can
/// open, and the tiles of those ranks. A tile that another rank has is copied from its device. A tile that another rank
/// is reading is awaited, for about twice the time of reading it at most. The thread of the engine owns the object;
/// another thread may call is_elsewhere().
class PeerTiles {
public:
  /// Allocates the memory of all slots and opens that of other ranks. Collective. `layout`: how tiles are packed.
  PeerTiles(DeviceMemory const& device, ProductTiles const& tiles, ProductMemory const& memory,
            std::string const& layout, std::size_t rank, MachineMemory::Gather const& gather);

  /// The other ranks of this machine.
  std::vector<TilePeer> peers() const;

  /// True if the system lets this rank share its memory; otherwise it has none.
  bool has_memory() const { return memory_.own().obstacle.empty(); }

  /// Closes the tiles of other ranks. All ranks must call it after the last run.
  void leave();
  bool is_used() const { return directory_.has_value(); }

  DeviceNumbers<std::byte> slot(std::size_t number) const;

  /// True if another rank has a tile or is reading it. Otherwise announces that this rank reads it.
  bool is_elsewhere(TileKey const& key);

  /// Withdraws the tile of a slot from other ranks, and waits for those that copy it.
  void vacate(std::size_t slot);

  /// Announces that a tile will be in a slot, which was vacated.
  void begin(TileKey const& key, std::size_t slot);

  /// Copies the `packed_bytes` bytes of a tile from another rank into slot `number`, which was vacated, on a separate
  /// lane after all uses of the slot, and publishes it. Waits for a rank that is reading the tile, at most twice
  /// seconds_to_read, but at least 0.02 s. Returns false if no rank has it by then. `bytes`: bytes of its numbers, for
  /// traffic().
  bool fetch(TileKey const& key, std::size_t number, TileSlot& slot, std::size_t packed_bytes, std::uint64_t bytes,
             double seconds_to_read);

  /// Lets other ranks copy the tile of a slot after the work enqueued on the lane.
  void publish(std::size_t slot, Stream const& lane);

  PeerTraffic const& traffic() const { return traffic_; }

  /// Ends a run: waits for its copies and messages. Without `keeps_tiles`, withdraws all tiles of this rank.
  void end(bool keeps_tiles);

private:
  /// A tile in a slot of this rank.
  struct Held {
    std::size_t tile = 0;
    std::uint64_t ticket = 0;
  };

  void after(Stream const& lane, JobThread& thread, JobThread::Job const& work) const;

  DeviceMemory const& device_;
  ProductTiles tiles_;
  std::size_t slot_bytes_;
  MachineMemory memory_;             ///< bytes: all slots; words: the directory
  std::vector<std::size_t> nearest_; ///< ranks whose tiles are copied, nearest first
  std::vector<std::optional<Held>> in_slot_;
  std::unique_ptr<Stream> copies_; ///< lane of copies from other ranks
  std::optional<TileDirectory> directory_;
  PeerTraffic traffic_;
  JobThread publications_, releases_; ///< last members: they end before the members that they use
};

} // namespace varve
