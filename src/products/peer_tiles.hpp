#pragma once

#include "core/device_numbers.hpp"
#include "core/host_threads.hpp"
#include "core/machine_memory.hpp"
#include "products/tile_directory.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// A packed tile on the device.
struct TileSlot {
  DeviceNumbers<std::byte> memory;
  std::size_t brought_by = 0; ///< the lane that read it, or the number of lanes for a copy from another rank
  std::unique_ptr<LaneMark> brought;
  std::vector<std::unique_ptr<LaneMark>> used; ///< [lane]: set after the lane's last use
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
  void publish(std::size_t slot, Lane const& lane);

  PeerTraffic const& traffic() const { return traffic_; }

  /// Ends a run: waits for its copies and messages. Without `keeps_tiles`, withdraws all tiles of this rank.
  void end(bool keeps_tiles);

private:
  /// A tile in a slot of this rank.
  struct Held {
    std::size_t tile = 0;
    std::uint64_t ticket = 0;
  };

  void after(Lane const& lane, JobThread& thread, JobThread::Job const& work) const;

  DeviceMemory const& device_;
  ProductTiles tiles_;
  std::size_t slot_bytes_;
  MachineMemory memory_;             ///< bytes: all slots; words: the directory
  std::vector<std::size_t> nearest_; ///< ranks whose tiles are copied, nearest first
  std::vector<std::optional<Held>> in_slot_;
  std::unique_ptr<Lane> copies_; ///< lane of copies from other ranks
  std::optional<TileDirectory> directory_;
  PeerTraffic traffic_;
  JobThread publications_, releases_; ///< last members: they end before the members that they use
};

} // namespace varve
