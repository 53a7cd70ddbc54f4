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
  std::size_t brought_by = 0; ///< a lane, or the number of lanes for a copy from another rank
  std::unique_ptr<LaneMark> brought;
  std::vector<std::unique_ptr<LaneMark>> used; ///< by each lane
};

/// A rank of the same machine, from the view of another one.
struct TilePeer {
  int rank = 0;
  std::string obstacle; ///< why its tiles are not copied; empty if they are
};

/// What came from other ranks of the machine, to this rank's device.
struct PeerTraffic {
  std::uint64_t num_copied = 0; ///< tiles
  std::uint64_t num_lost = 0;   ///< tiles that were expected there, but had to be read
  double bytes = 0.0;           ///< numbers of A and B
  double wait_seconds = 0.0; ///< for tiles that others bring, and for others to finish copies of tiles to be replaced
};

/// The second level of a product's cache: the packed tiles of this rank, in memory that other ranks of the machine can
/// open, and those of the others. A tile that another rank has is copied from its device; one that it brings is waited
/// for, no longer than reading it would take. The thread of the engine owns the object; another thread may call
/// is_elsewhere().
class PeerTiles {
public:
  /// Takes the memory of all slots and opens that of other ranks. Collective. `layout`: how tiles are packed.
  PeerTiles(DeviceMemory const& device, ProductTiles const& tiles, ProductMemory const& memory,
            std::string const& layout, std::size_t rank, MachineMemory::Gather const& gather);

  /// The other ranks of this machine.
  std::vector<TilePeer> peers() const;

  /// True if the system lets this rank share its memory. Else it has none.
  bool has_memory() const { return memory_.own().obstacle.empty(); }

  /// Lets the tiles of other ranks go. To be called by all ranks after the last run.
  void leave();
  bool is_used() const { return directory_.has_value(); }

  /// The memory of a slot.
  DeviceNumbers<std::byte> slot(std::size_t number) const;

  /// True if another rank has a tile or brings it. Else tells the others that this rank brings it.
  bool is_elsewhere(TileKey const& key);

  /// Takes the tile of a slot from the others, and waits for those who copy it.
  void vacate(std::size_t slot);

  /// Tells the others that a tile comes to a slot, which was vacated.
  void begin(TileKey const& key, std::size_t slot);

  /// Copies the `packed_bytes` of a tile from another rank into slot `number`, which was vacated, by a lane of its own
  /// after all who use the slot, and tells the others that it is here. Waits for a rank that brings the tile, twice as
  /// long as reading one takes. False if no rank has it. `bytes`: of its numbers, for traffic().
  bool fetch(TileKey const& key, std::size_t number, TileSlot& slot, std::size_t packed_bytes, std::uint64_t bytes,
             double seconds_to_read);

  /// The tile of a slot is there after the work that the lane was given: the others may copy it then.
  void publish(std::size_t slot, Lane const& lane);

  PeerTraffic const& traffic() const { return traffic_; }

  /// Ends a run: all that it began is done. Without `keeps_tiles` no tile is had from this rank any more.
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
  std::vector<std::size_t> nearest_; ///< ranks whose tiles are copied
  std::vector<std::optional<Held>> in_slot_;
  std::unique_ptr<Lane> copies_; ///< where copies from others run
  std::optional<TileDirectory> directory_;
  PeerTraffic traffic_;
  JobThread publications_, releases_; ///< last, so that they end before what they use
};

} // namespace varve
