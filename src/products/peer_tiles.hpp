#pragma once

#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/runtime.hpp"
#include "core/shared_memory.hpp"
#include "core/stopwatch.hpp"
#include "core/views.hpp"
#include "core/work_mark.hpp"
#include "products/job_thread.hpp"
#include "products/product_blocks.hpp"
#include "products/product_engine.hpp"
#include "products/tile_directory.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// What a ProductOn holds for its tasks and tiles.
template <class ExecutionSpace, class Scalar>
struct ProductParts {
  using Numbers = DeviceArray<ExecutionSpace, Scalar>;
  using HostNumbers =
      Kokkos::View<Scalar*,
                   std::conditional_t<kOnHost<ExecutionSpace>, Kokkos::HostSpace, Kokkos::SharedHostPinnedSpace>>;
  using Mark = WorkMark<ExecutionSpace>;

  /// A finished task on its way to the caller.
  struct Finished {
    std::uint64_t job = 0; ///< of the thread that hands it over; 0: none
    std::uint64_t task = 0;
    double task_begin = 0.0; ///< times on the timeline
    double begin = 0.0;
    double end = 0.0;
  };

  /// A task at a time, and the memory for it.
  struct Lane {
    ExecutionSpace space;
    double begin = 0.0; ///< of the task, on the timeline
    Numbers sums;
    HostNumbers sums_h; ///< on hosts the same memory
    Mark sums_came;     ///< to sums_h
    Numbers loose;      ///< a tile as it was read; on hosts that of a buffer
    Finished finished;  ///< what lies in sums_h
  };

  /// Host memory for a tile that is read.
  struct Buffer {
    HostNumbers numbers;
    Mark taken; ///< by the device
  };

  /// A packed tile on the device.
  struct Slot {
    Numbers memory; ///< on hosts; on GPUs and where tiles are shared, slots are parts of one allocation
    ArrayView<Scalar> numbers;
    std::size_t brought_by = 0; ///< a lane, or the number of lanes for a copy from another rank
    Mark brought;
    std::vector<Mark> used; ///< by each lane
  };

  static std::vector<ExecutionSpace> instances(std::size_t count) {
    if constexpr (kOnHost<ExecutionSpace>) {
      return std::vector<ExecutionSpace>(count); // a thread pool has no parts to compute side by side
    } else {
      return Kokkos::Experimental::partition_space(ExecutionSpace(), std::vector<int>(count, 1));
    }
  }

  static Numbers make_numbers(std::string const& label, std::size_t bytes) {
    return Numbers(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), bytes / sizeof(Scalar));
  }

  static HostNumbers on_host(Numbers const& numbers, std::string const& label) {
    if constexpr (kOnHost<ExecutionSpace>) {
      return HostNumbers(numbers);
    } else {
      return HostNumbers(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), numbers.size());
    }
  }
};

/// The second level of a product's cache: the packed tiles of this rank, in memory that other ranks of the machine can
/// open, and those of the others. A tile that another rank has is copied from its device; one that it brings is waited
/// for, no longer than reading it would take. The thread of the engine owns the object; another thread may call
/// is_elsewhere().
template <class ExecutionSpace, class Scalar>
class PeerTiles {
public:
  using Parts = ProductParts<ExecutionSpace, Scalar>;
  using Numbers = typename Parts::Numbers;

  /// Rows and columns of the blocks in which tiles of A and B are packed.
  struct Widths {
    int rows;
    int columns;
  };

  /// Takes the memory of all slots. Throws ResourceError if the system does not let processes share so much.
  PeerTiles(ProductTiles const& tiles, ProductMemory const& memory, Widths const& widths)
      : tiles_(tiles),
        widths_(widths),
        slot_size_(memory.slot_bytes / sizeof(Scalar)),
        words_(num_tiles(tiles) * sizeof(std::uint64_t)),
        slots_(memory.num_slots * memory.slot_bytes),
        in_slot_(memory.num_slots),
        space_(Parts::instances(1).front()) {}

  /// Makes `peers` and says how others can open its tiles, or why not.
  static PeerOffer offer(ProductTiles const& tiles, ProductMemory const& memory, Widths const& widths,
                         std::unique_ptr<PeerTiles>& peers) {
    PeerOffer offer;
    offer.layout = layout(widths);
    if (num_tiles(tiles) > most_shared_tiles || memory.num_slots > TileDirectory::most_slots) {
      offer.obstacle = "its tiles are too many";
      return offer;
    }
    try {
      peers = std::make_unique<PeerTiles>(tiles, memory, widths);
    } catch (ResourceError const& error) {
      offer.obstacle = error.what();
      return offer;
    }
    offer.words = peers->words_.handle();
    offer.slots = peers->slots_.handle();
    if (!kOnHost<ExecutionSpace>) offer.device = device_identity(to_backend<ExecutionSpace>());
    return offer;
  }

  /// Opens the tiles of other ranks, nearest first. Returns for each of them why it is not used; nothing if it is.
  std::vector<std::string> open(std::vector<std::optional<PeerOffer>> const& offers) {
    std::vector<std::string> obstacles(offers.size());
    for (std::size_t rank = 0; rank < offers.size(); ++rank) {
      if (!offers[rank]) continue;
      obstacles[rank] = offers[rank]->obstacle;
      if (obstacles[rank].empty() && offers[rank]->layout != layout(widths_))
        obstacles[rank] = "it keeps its tiles in another layout (" + offers[rank]->layout + ")";
      if (!obstacles[rank].empty()) continue;
      try {
        auto peer = std::make_unique<Peer>(*offers[rank]);
        VARVE_REQUIRE(peer->words.size() == words_.size(), "a rank has another number of tiles");
        peers_.push_back(std::move(peer));
      } catch (Error const& error) {
        obstacles[rank] = error.what();
      }
    }
    std::ranges::stable_sort(peers_, {}, [](auto const& peer) { return peer->distance; });
    std::vector<std::uint64_t*> words;
    for (auto const& peer : peers_) words.push_back(reinterpret_cast<std::uint64_t*>(peer->words.data()));
    directory_.emplace(std::span(reinterpret_cast<std::uint64_t*>(words_.data()), num_tiles(tiles_)), words);
    return obstacles;
  }

  /// Lets the tiles of other ranks go.
  void leave() {
    directory_.reset();
    peers_.clear();
  }

  bool is_used() const { return directory_.has_value(); }

  /// The memory of a slot.
  ArrayView<Scalar> slot(std::size_t number) const {
    return ArrayView<Scalar>(reinterpret_cast<Scalar*>(slots_.data()) + number * slot_size_, slot_size_);
  }

  /// True if another rank has a tile or brings it. Else tells the others that this rank brings it.
  bool is_elsewhere(TileKey const& key) {
    auto const tile = number_of_tile(tiles_, key);
    if (directory_->look(tile) != TileDirectory::Place::nowhere) return true;
    directory_->claim(tile);
    return false;
  }

  /// Takes the tile of a slot from the others, and waits for those who copy it.
  void vacate(std::size_t slot) {
    Stopwatch const time;
    if (auto const before = std::exchange(in_slot_[slot], std::nullopt)) directory_->close(before->tile);
    traffic_.wait_seconds += time.seconds();
  }

  /// Tells the others that a tile comes to a slot, which was vacated.
  void begin(TileKey const& key, std::size_t slot) {
    auto const tile = number_of_tile(tiles_, key);
    in_slot_[slot] = Held{tile, directory_->begin(tile, slot)};
  }

  /// Copies a tile from another rank into its slot, which was vacated, by an instance of its own after all who use the
  /// slot, and tells the others that it is here. Waits for a rank that brings the tile, twice as long as reading one
  /// takes. False if no rank has it.
  bool fetch(TileKey const& key, TileExtent const& extent, double seconds_to_read, typename Parts::Slot& to,
             std::size_t slot_number) {
    auto const tile = number_of_tile(tiles_, key);
    auto const patience = seconds_to_read > 0.0 ? std::max(2.0 * seconds_to_read, least_patience) : first_patience;
    Stopwatch const time;
    auto pin = directory_->pin(tile);
    while (!pin && time.seconds() < patience && directory_->look(tile) != TileDirectory::Place::nowhere) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      pin = directory_->pin(tile);
    }
    traffic_.wait_seconds += time.seconds();
    if (!pin) {
      ++traffic_.num_lost;
      return false;
    }
    auto const width = key.operand == TileKey::Operand::a ? widths_.rows : widths_.columns;
    auto const num_lines =
        num_blocks(static_cast<std::uint64_t>(extent.shape.num_lines), width) * static_cast<std::size_t>(width);
    begin(key, slot_number);
    copy(*pin, tile, num_lines * static_cast<std::size_t>(extent.shape.depth), to);
    publish(slot_number, space_);
    ++traffic_.num_copied;
    traffic_.bytes += static_cast<double>(extent.block.size() * sizeof(Scalar));
    return true;
  }

  /// The tile of a slot is there after the work before the mark: the others may copy it then.
  void publish(std::size_t slot, ExecutionSpace const& space) {
    auto const [tile, ticket] = *in_slot_[slot];
    if constexpr (kOnHost<ExecutionSpace>) {
      directory_->publish(tile, ticket);
    } else {
      after(space, publications_, [this, tile, ticket] { directory_->publish(tile, ticket); });
    }
  }

  PeerTraffic const& traffic() const { return traffic_; }

  /// Ends a run: all that it began is done. Without `keeps_tiles` no tile is had from this rank any more.
  void end(bool keeps_tiles) {
    publications_.await(publications_.last());
    releases_.await(releases_.last());
    if (keeps_tiles) return;
    directory_->close_all();
    std::ranges::fill(in_slot_, std::nullopt);
  }

private:
  using Mark = typename Parts::Mark;

  /// Seconds to wait for a tile that another rank brings.
  static constexpr double least_patience = 0.02;
  static constexpr double first_patience = 0.2; ///< before this rank has read one

  static std::string layout(Widths const& widths) {
    return std::string(kOnHost<ExecutionSpace> ? "host" : "GPU") + ", blocks of " + std::to_string(widths.rows) +
           " and " + std::to_string(widths.columns) + " lines";
  }

  /// Another rank.
  struct Peer {
    explicit Peer(PeerOffer const& offer)
        : words(offer.words), slots(offer.slots), distance(distance_to<ExecutionSpace>(offer.device)) {}

    SharedHostMemory words;
    SharedMemory<ExecutionSpace> slots;
    int distance;
  };

  /// A tile in a slot of this rank.
  struct Held {
    std::size_t tile = 0;
    std::uint64_t ticket = 0;
  };

  /// Copies from a slot that is pinned, and releases it.
  void copy(TileDirectory::Pin const& pin, std::size_t tile, std::size_t count, typename Parts::Slot& to) {
    auto const* from = reinterpret_cast<Scalar const*>(peers_[pin.peer]->slots.data()) + pin.slot * slot_size_;
    using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
    using Space = typename ExecutionSpace::memory_space;
    Kokkos::View<Scalar*, Space, Unmanaged> const target(to.numbers.data(), count);
    Kokkos::View<Scalar const*, Space, Unmanaged> const source(from, count);
    for (auto const& mark : to.used) mark.hold_back(space_);
    Kokkos::deep_copy(space_, target, source);
    if constexpr (kOnHost<ExecutionSpace>) {
      space_.fence("varve::product_peer_tile");
      directory_->release(tile, pin);
    } else {
      after(space_, releases_, [this, tile, pin] { directory_->release(tile, pin); });
    }
    to.brought.set(space_);
  }

  /// Another thread does the work once the device has done what the instance was given.
  template <class Work>
  static void after(ExecutionSpace const& space, JobThread& thread, Work const& work) {
    auto const mark = std::make_shared<Mark>();
    mark->set(space);
    thread.add([mark, work] {
      mark->await();
      work();
    });
  }

  ProductTiles tiles_;
  Widths widths_;
  std::size_t slot_size_; ///< in numbers
  SharedHostMemory words_;
  SharedMemory<ExecutionSpace> slots_;
  std::vector<std::optional<Held>> in_slot_;
  ExecutionSpace space_; ///< for copies from others
  std::vector<std::unique_ptr<Peer>> peers_;
  std::optional<TileDirectory> directory_;
  PeerTraffic traffic_;
  JobThread publications_, releases_; ///< last, so that they end before what they use
};

} // namespace varve
