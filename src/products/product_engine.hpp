#pragma once

#include "core/backend.hpp"
#include "core/device_memory.hpp"
#include "core/host_threads.hpp"
#include "core/stopwatch.hpp"
#include "products/peer_tiles.hpp"
#include "products/product_kernels.hpp"
#include "products/product_schedule.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace varve {
/// An activity of a rank in a product, in seconds since the start of its run.
struct ProductEvent {
  enum class What {
    task,  ///< from the first step of a task until its numbers were handed over
    copy,  ///< reading a tile of A or B
    wait,  ///< the thread that starts kernels waits for a tile, or for room for finished sums
    finish ///< scaling and storing a finished task
  };
  static constexpr std::size_t num_kinds = 4;

  What what = What::task;
  std::size_t lane = 0; ///< among the concurrent tasks of a rank
  std::uint64_t task = 0;
  double begin = 0.0;
  double end = 0.0;
};

/// The name of a kind of event in reports.
char const* name_of(ProductEvent::What what);

/// The events of a rank since the start of this object, at most `max_of_a_kind` of each kind: if there are more, the
/// shorter half is dropped.
class ProductTimeline {
public:
  static constexpr std::size_t max_of_a_kind = 1000;

  double now() const { return clock_.seconds(); }

  void add(ProductEvent const& event);

  /// All kept events, ordered by begin.
  std::vector<ProductEvent> events() const;

  /// Number of dropped events.
  std::uint64_t num_dropped() const { return num_dropped_; }

private:
  Stopwatch clock_;
  std::array<std::vector<ProductEvent>, ProductEvent::num_kinds> kinds_;
  std::uint64_t num_dropped_ = 0;
};

/// Reads a block of a matrix in host memory or in a file, row by row. May throw.
template <class Scalar>
using ReadBlock = std::function<void(MatrixBlock const& block, Scalar* values)>;

/// A and B as they are stored, and whether op() transposes them. A thread other than that of run() reads them.
template <class Scalar>
struct ProductInputs {
  ReadBlock<Scalar> a;
  ReadBlock<Scalar> b;
  bool transpose_a = false;
  bool transpose_b = false;
  std::function<void()> before_step = {}; ///< called before each step of a task; an exception ends the run
};

/// Reads and cache hits of a device.
struct ProductTraffic {
  std::uint64_t num_hits = 0;   ///< tiles found on the device
  std::uint64_t num_misses = 0; ///< tiles that were copied to it
  double loaded_bytes = 0.0;    ///< bytes of numbers of A and B copied to it
  double all_bytes = 0.0;       ///< bytes that would have been copied without a cache
  double read_seconds = 0.0;    ///< time of reading tiles from host memory or files, while the device computes
  double wait_seconds = 0.0;    ///< the thread that starts kernels waited for tiles, or for room for finished sums
  double take_seconds = 0.0;    ///< time of handing over finished sums, while the device computes
  PeerTraffic peers;            ///< part of the misses and bytes: from other ranks of the machine
};

/// The implementation that adds up the products of a tile.
enum class ProductWay {
  own,    ///< Varve's kernel: one chain of fma for each number, so the same bits everywhere
  library ///< gemm of Kokkos Kernels, which may call a BLAS such as cuBLAS: bits depend on the library
};

/// Computes tiles of C = op(A) op(B) on a device, whose memory may be smaller than the matrices. Tiles of A and B are
/// kept there, packed, until others need the room. The thread of run() starts kernels in the order of a
/// ProductSchedule; a second thread reads the tiles of the next steps, a third hands over finished sums. On GPUs each
/// concurrent task has a separate lane, so that tasks copy and compute concurrently. Lanes share only tiles: a lane
/// waits for the lane that provides a tile before it uses the tile, and for all lanes that use a tile before it
/// replaces the tile. (float and double)
template <class Scalar>
class ProductEngine {
public:
  using Next = std::function<std::optional<std::uint64_t>()>;
  using Take = std::function<void(std::uint64_t task, TileSums<Scalar> const& sums)>;

  /// `memory_limit`: bytes of the backend's memory that the engine may use. Throws UsageError if the build lacks the
  /// backend, or Kokkos Kernels for ProductWay::library; ResourceError if the memory does not suffice.
  ProductEngine(Backend backend, ProductTiles const& tiles, std::size_t memory_limit, ProductInputs<Scalar> inputs,
                ProductWay way = ProductWay::own);

  /// Computes the tasks that next() returns until it returns none, several concurrently. Another thread passes each
  /// result to take(), one task after the other; the sums are valid only during this call. Exceptions from reading,
  /// next() or take() end the run.
  void run(Next const& next, Take const& take);

  /// The number of tiles of a task's inputs that are on the device.
  std::uint64_t num_kept(std::uint64_t task) const { return schedule_.num_kept(task); }

  ProductMemory const& memory() const { return memory_; }
  ProductTraffic traffic() const;

  /// Enables the second level of the cache: tiles that other ranks of the machine have on their devices are copied from
  /// there, with the same bits in the result. Collective, before the first run. Returns the other ranks of the machine.
  /// All ranks must call leave_peers() after the last run, before one of the engines is destroyed.
  std::vector<TilePeer> share_tiles(std::size_t rank, MachineMemory::Gather const& gather);
  void leave_peers();

  /// The events of run(); the caller may add events of next().
  ProductTimeline& timeline() { return timeline_; }

private:
  using Numbers = DeviceNumbers<Scalar>;

  /// A finished task that is being handed to the caller.
  struct Finished {
    std::uint64_t job = 0; ///< number of its job in the thread that hands it over; 0: none
    std::uint64_t task = 0;
    double task_begin = 0.0; ///< times on the timeline
    double begin = 0.0;
    double end = 0.0;
  };

  /// One of the concurrent tasks, and its memory.
  struct TaskLane {
    std::unique_ptr<Stream> lane;
    double begin = 0.0;                    ///< begin of the task, on the timeline
    Numbers sums, sums_h;                  ///< on hosts the same memory
    std::unique_ptr<StreamMark> sums_came; ///< set after the copy of the sums to sums_h
    Numbers loose;                         ///< a tile as it was read; on hosts the memory of a buffer
    Finished finished;                     ///< the task whose sums are in sums_h
  };

  /// Host memory for a tile that is read.
  struct Buffer {
    Numbers numbers;
    std::unique_ptr<StreamMark> taken; ///< set after the device has copied the numbers
    double begin = 0.0;                ///< begin of reading, on the timeline
    double end = 0.0;
    bool is_elsewhere = false; ///< not read, because another rank has the tile
  };

  /// State of a run besides the engine's.
  struct Run {
    Take const& take;
    LoadAhead reads; ///< loads into buffers
    JobThread takes; ///< last member: it ends before the members that it uses
  };

  void make_arrays();
  Numbers on_host(Numbers const& numbers, std::string const& label) const;
  void run_from(std::optional<std::uint64_t> first, Next const& next, Take const& take);
  void start(PlannedStep const& step, Run& run);
  void open(TileSlot& slot, std::size_t number);
  bool shares_tiles() const { return peers_ && peers_->is_used(); }
  void load(TileKey const& key, Buffer& buffer);
  void read(TileKey const& key, Buffer& buffer);
  void load_tile(std::size_t lane, std::uint64_t task, PlannedTile const& tile, Run& run);
  bool copy_from_peer(std::size_t lane, std::uint64_t task, PlannedTile const& tile);
  void pack(std::size_t lane, PlannedTile const& tile, Buffer& buffer);
  void add_tile(TaskLane const& lane, PlannedStep const& step);
  void hand_over(TaskLane& lane, PlannedStep const& step, Run& run);
  void await_taken(TaskLane& lane, Run& run);
  std::size_t width_of(TileKey const& key) const;
  template <class Wait>
  auto waited_for(Wait const& wait);

  std::unique_ptr<ProductKernels<Scalar>> kernels_;
  DeviceMemory const& device_;
  ProductTiles tiles_;
  ProductInputs<Scalar> inputs_;
  ProductMemory memory_;
  ProductSchedule schedule_;
  std::vector<TileSlot> slots_;
  DeviceNumbers<std::byte> slots_memory_; ///< memory of all slots, on GPUs
  std::vector<TaskLane> lanes_;
  std::vector<Buffer> buffers_;
  std::mutex reading_;               ///< one thread reads at a time
  std::unique_ptr<PeerTiles> peers_; ///< tiles of the ranks that share them
  ProductTraffic traffic_;
  std::uint64_t num_read_ = 0; ///< number of tiles
  ProductTimeline timeline_;
  bool all_tiles_came_ = true; ///< all tiles that the schedule planned have arrived: no exception ended the last run
};

/// The properties of a backend for plan_product() and choose_tile(). (float and double)
template <class Scalar>
ProductDevice product_device(Backend backend, std::size_t memory_limit);

/// The default memory limit of a product in bytes, if num_sharing processes share the device: nine tenths of the free
/// memory; on hosts half of it.
std::size_t default_product_memory(Backend backend, std::size_t num_sharing = 1);

/// The default tile size in rows: many tiles that fit the device. (float and double)
template <class Scalar>
std::uint64_t default_product_tile(ProductShape const& shape, Backend backend, std::size_t memory_limit);

} // namespace varve
