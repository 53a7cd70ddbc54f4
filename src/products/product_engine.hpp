#pragma once

#include "core/backend.hpp"
#include "core/device_memory.hpp"
#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "products/peer_tiles.hpp"
#include "products/product_kernels.hpp"
#include "products/product_schedule.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
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

/// The kernels of this implementation. Throws UsageError if the build lacks the backend, or Kokkos Kernels. (float and
/// double)
template <class Scalar>
std::unique_ptr<ProductKernels<Scalar>> product_kernels(Backend backend, ProductWay way);

template <class Scalar>
ProductDevice device_of(ProductKernels<Scalar> const& kernels, std::size_t memory_limit) {
  return {sizeof(Scalar), static_cast<std::size_t>(kernels.block_rows()),
          static_cast<std::size_t>(kernels.block_columns()), memory_limit};
}

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
                ProductWay way = ProductWay::own)
      : kernels_(product_kernels<Scalar>(backend, way)),
        device_(kernels_->memory()),
        tiles_(tiles),
        inputs_(std::move(inputs)),
        memory_(plan_product(tiles, device_of(*kernels_, memory_limit))),
        schedule_(
            {tiles, inputs_.transpose_a, inputs_.transpose_b, memory_.num_lanes, memory_.num_slots, memory_.order}),
        slots_(memory_.num_slots),
        lanes_(memory_.num_lanes) {
    for (auto& lane : lanes_) {
      lane.lane = device_.new_stream();
      lane.sums_came = device_.new_mark();
    }
  }

  /// Computes the tasks that next() returns until it returns none, several concurrently. Another thread passes each
  /// result to take(), one task after the other; the sums are valid only during this call. Exceptions from reading,
  /// next() or take() end the run.
  void run(Next const& next, Take const& take) {
    ProfilingRegion const region("varve::product");
    timeline_ = {};
    schedule_.begin(std::exchange(all_tiles_came_, false));
    try {
      if (auto const first = next()) {
        make_arrays();
        run_from(first, next, take);
      }
      all_tiles_came_ = true;
    } catch (...) {
      if (shares_tiles()) peers_->end(false);
      throw;
    }
    if (shares_tiles()) peers_->end(true);
  }

  /// The number of tiles of a task's inputs that are on the device.
  std::uint64_t num_kept(std::uint64_t task) const { return schedule_.num_kept(task); }

  ProductMemory const& memory() const { return memory_; }
  ProductTraffic traffic() const {
    auto traffic = traffic_;
    traffic.num_hits = schedule_.num_hits();
    traffic.num_misses = schedule_.num_misses();
    traffic.loaded_bytes = schedule_.loaded_numbers() * sizeof(Scalar);
    traffic.all_bytes = schedule_.all_numbers() * sizeof(Scalar);
    if (peers_) traffic.peers = peers_->traffic();
    return traffic;
  }

  /// Enables the second level of the cache: tiles that other ranks of the machine have on their devices are copied from
  /// there, with the same bits in the result. Collective, before the first run. Returns the other ranks of the machine.
  /// All ranks must call leave_peers() after the last run, before one of the engines is destroyed.
  std::vector<TilePeer> share_tiles(std::size_t rank, MachineMemory::Gather const& gather) {
    VARVE_REQUIRE(buffers_.empty(), "tiles are shared before the first run");
    auto const layout = std::string(device_.is_host() ? "host" : "GPU") + ", blocks of " +
                        std::to_string(kernels_->block_rows()) + " and " + std::to_string(kernels_->block_columns()) +
                        " lines";
    peers_ = std::make_unique<PeerTiles>(device_, tiles_, memory_, layout, rank, gather);
    auto const peers = peers_->peers();
    if (!peers_->has_memory()) peers_.reset();
    return peers;
  }

  void leave_peers() {
    if (peers_) peers_->leave();
  }

  /// The events of run(); the caller may add events of next().
  ProductTimeline& timeline() { return timeline_; }

private:
  using Numbers = DeviceNumbers<Scalar>;
  static constexpr double shortest_wait = 1e-5; ///< seconds: shorter waits are not on the timeline

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

  template <class Number>
  static std::span<Number> numbers_of(TileSlot const& slot) {
    return {reinterpret_cast<Number*>(slot.memory.data()), slot.memory.size() / sizeof(Number)};
  }

  /// Allocates arrays of lanes, slots and buffers in the first run with a task. A GPU has two buffers in host memory
  /// for each lane.
  void make_arrays() {
    if (!buffers_.empty()) return;
    auto const device = device_of(*kernels_, 0);
    auto const num_sums = rounded_up(std::min(tiles_.tile, tiles_.shape.rows), device.block_rows) *
                          rounded_up(std::min(tiles_.tile, tiles_.shape.columns), device.block_columns);
    for (auto& lane : lanes_) {
      lane.sums = new_numbers<Scalar>(device_, "varve::product_sums", num_sums);
      lane.loose = new_numbers<Scalar>(device_, "varve::product_loose", memory_.lane_bytes / sizeof(Scalar) - num_sums);
    }
    if (!device_.is_host() && !peers_)
      slots_memory_ = new_numbers<std::byte>(device_, "varve::product_tiles", memory_.num_slots * memory_.slot_bytes);
    buffers_.resize(device_.is_host() ? lanes_.size() : 2 * lanes_.size());
    for (std::size_t number = 0; number < buffers_.size(); ++number) {
      buffers_[number].numbers = on_host(lanes_[number % lanes_.size()].loose, "varve::product_buffer");
      buffers_[number].taken = device_.new_mark();
    }
  }

  /// Host memory for numbers of the device; on hosts the same memory.
  Numbers on_host(Numbers const& numbers, std::string const& label) const {
    return device_.is_host() ? numbers : numbers_in<Scalar>(device_.allocate_on_host(label, numbers.num_bytes()));
  }

  void run_from(std::optional<std::uint64_t> first, Next const& next, Take const& take) {
    std::size_t const steps_ahead = device_.is_host() ? 2 : 8; // planned steps: their tiles are read meanwhile
    for (auto& lane : lanes_) lane.finished = {};
    Run run{take, LoadAhead(buffers_.size()), {}};
    std::deque<PlannedStep> planned;
    auto const next_task = [&] { return first ? std::exchange(first, std::nullopt) : next(); };
    auto const plan = [&] {
      auto const step = schedule_.next(next_task);
      if (!step) return false;
      for (auto const& tile : {step->a, step->b})
        if (tile.is_loaded) run.reads.want([this, key = tile.key](std::size_t buffer) { load(key, buffers_[buffer]); });
      planned.push_back(*step);
      return true;
    };
    for (;;) {
      while (planned.size() <= steps_ahead && plan()) {
      }
      if (planned.empty()) break;
      start(planned.front(), run);
      planned.pop_front();
    }
    for (auto& lane : lanes_) await_taken(lane, run);
  }

  /// Starts a step: copies its tiles to the device and adds their products to the sums of its task.
  void start(PlannedStep const& step, Run& run) {
    if (inputs_.before_step) inputs_.before_step();
    auto& lane = lanes_[step.lane];
    if (step.is_first) {
      if (device_.is_host()) await_taken(lane, run); // the sums that are handed over are in the same memory
      lane.begin = timeline_.now();
    }
    for (auto const& tile : {step.a, step.b})
      if (tile.is_loaded) load_tile(step.lane, step.task, tile, run);
    for (auto const& tile : {step.a, step.b})
      if (auto const& slot = slots_[tile.slot]; slot.loaded_by != step.lane) slot.loaded->make_wait(*lane.lane);
    kernels_->add_tile(*lane.lane, step, numbers_of<Scalar const>(slots_[step.a.slot]),
                       numbers_of<Scalar const>(slots_[step.b.slot]), {lane.sums.data(), lane.sums.size()},
                       static_cast<int>(lanes_.size()));
    for (auto const& tile : {step.a, step.b}) slots_[tile.slot].used[step.lane]->set(*lane.lane);
    if (step.is_last) hand_over(lane, step, run);
  }

  /// Allocates the memory of a slot.
  void open(TileSlot& slot, std::size_t number) {
    auto const bytes = memory_.slot_bytes;
    slot.loaded = device_.new_mark();
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) slot.used.push_back(device_.new_mark());
    slot.memory = peers_              ? peers_->slot(number)
                  : device_.is_host() ? new_numbers<std::byte>(device_, "varve::product_tile", bytes)
                                      : slots_memory_.part(number * bytes, (number + 1) * bytes);
  }

  bool shares_tiles() const { return peers_ && peers_->is_used(); }
  /// Fills a buffer, on the reading thread.
  void load(TileKey const& key, Buffer& buffer) {
    buffer.taken->await();
    buffer.is_elsewhere = shares_tiles() && peers_->is_elsewhere(key);
    if (!buffer.is_elsewhere) read(key, buffer);
  }

  void read(TileKey const& key, Buffer& buffer) {
    std::lock_guard const lock(reading_);
    buffer.begin = timeline_.now();
    (key.operand == TileKey::Operand::a ? inputs_.a : inputs_.b)(schedule_.extent_of(key).block, buffer.numbers.data());
    buffer.end = timeline_.now();
  }

  void load_tile(std::size_t lane, std::uint64_t task, PlannedTile const& tile, Run& run) {
    auto& slot = slots_[tile.slot];
    if (slot.used.empty()) open(slot, tile.slot);
    auto& buffer = buffers_[waited_for([&] { return run.reads.next(); })];
    if (shares_tiles()) waited_for([&] { return peers_->vacate(tile.slot), true; });
    if (!buffer.is_elsewhere || !copy_from_peer(lane, task, tile)) {
      if (shares_tiles()) peers_->begin(tile.key, tile.slot);
      if (buffer.is_elsewhere) waited_for([&] { return read(tile.key, buffer), true; });
      traffic_.read_seconds += buffer.end - buffer.begin;
      ++num_read_;
      timeline_.add({ProductEvent::What::copy, lane, task, buffer.begin, buffer.end});
      pack(lane, tile, buffer);
      slot.loaded_by = lane;
      slot.loaded->set(*lanes_[lane].lane);
      if (shares_tiles()) peers_->publish(tile.slot, *lanes_[lane].lane);
    }
    run.reads.give_back();
  }

  /// Copies a tile from another rank, if one has it or will have it soon.
  bool copy_from_peer(std::size_t lane, std::uint64_t task, PlannedTile const& tile) {
    auto& slot = slots_[tile.slot];
    auto const [block, shape] = schedule_.extent_of(tile.key);
    auto const width = static_cast<std::size_t>(tile.key.operand == TileKey::Operand::a ? kernels_->block_rows()
                                                                                        : kernels_->block_columns());
    auto const packed = rounded_up(static_cast<std::uint64_t>(shape.num_lines), width) *
                        static_cast<std::size_t>(shape.depth) * sizeof(Scalar);
    auto const mean_seconds = num_read_ == 0 ? 0.0 : traffic_.read_seconds / static_cast<double>(num_read_);
    auto const begin = timeline_.now();
    auto const fetch = [&, bytes = block.size() * sizeof(Scalar)] {
      return peers_->fetch(tile.key, tile.slot, slot, packed, bytes, mean_seconds);
    };
    if (!waited_for(fetch)) return false;
    slot.loaded_by = lanes_.size();
    timeline_.add({ProductEvent::What::copy, lane, task, begin, timeline_.now()});
    return true;
  }

  /// Copies the numbers of a buffer to the device and packs them into a slot, after all uses of its present tile.
  void pack(std::size_t lane_number, PlannedTile const& tile, Buffer& buffer) {
    auto& slot = slots_[tile.slot];
    auto const& lane = *lanes_[lane_number].lane;
    auto const& loose = lanes_[lane_number].loose;
    auto const [block, shape] = schedule_.extent_of(tile.key);
    auto const size = static_cast<std::size_t>(block.size());
    if (!device_.is_host()) {
      lane.copy_to_device(loose.data(), buffer.numbers.data(), size * sizeof(Scalar));
      buffer.taken->set(lane);
    }
    for (std::size_t other = 0; other < lanes_.size(); ++other)
      if (other != lane_number) slot.used[other]->make_wait(lane);
    std::span<Scalar const> const from((device_.is_host() ? buffer.numbers : loose).data(), size);
    kernels_->pack(lane, tile.key.operand, shape, from, numbers_of<Scalar>(slot));
  }

  /// Passes the sums of a finished task to the thread that hands them over.
  void hand_over(TaskLane& lane, PlannedStep const& step, Run& run) {
    await_taken(lane, run);
    auto const device = device_of(*kernels_, 0);
    if (lane.sums_h.size() == 0) lane.sums_h = on_host(lane.sums, "varve::product_sums_h");
    if (device_.is_host()) {
      lane.lane->fence("varve::product");
    } else {
      auto const num_sums = rounded_up(static_cast<std::uint64_t>(step.num_rows), device.block_rows) *
                            rounded_up(static_cast<std::uint64_t>(step.num_columns), device.block_columns);
      lane.lane->copy_to_host(lane.sums_h.data(), lane.sums.data(), num_sums * sizeof(Scalar));
      lane.sums_came->set(*lane.lane);
    }
    auto const block = tiles_.block(step.task);
    auto const block_columns =
        device.block_columns == 1 ? static_cast<std::size_t>(block.num_columns) : device.block_columns;
    TileSums<Scalar> const sums{lane.sums_h.data(), block, device.block_rows, block_columns};
    lane.finished = {0, step.task, lane.begin};
    lane.finished.job = run.takes.add([this, &lane, &run, sums] {
      lane.sums_came->await();
      lane.finished.begin = timeline_.now();
      run.take(lane.finished.task, sums);
      lane.finished.end = timeline_.now();
    });
  }

  /// Waits until the last finished task of a lane, if any, has been handed over.
  void await_taken(TaskLane& lane, Run& run) {
    auto& [job, task, task_begin, begin, end] = lane.finished;
    if (job == 0) return;
    waited_for([&] { return run.takes.await(job), true; });
    traffic_.take_seconds += end - begin;
    auto const number = static_cast<std::size_t>(&lane - lanes_.data());
    timeline_.add({ProductEvent::What::finish, number, task, begin, end});
    timeline_.add({ProductEvent::What::task, number, task, task_begin, end});
    job = 0;
  }

  /// Returns wait(), and records the time that it takes.
  template <class Wait>
  auto waited_for(Wait const& wait) {
    auto const begin = timeline_.now();
    auto const result = wait();
    auto const end = timeline_.now();
    traffic_.wait_seconds += end - begin;
    if (end - begin > shortest_wait) timeline_.add({ProductEvent::What::wait, 0, 0, begin, end});
    return result;
  }

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

extern template class ProductEngine<float>;
extern template class ProductEngine<double>;

/// The properties of a backend for plan_product() and choose_tile().
template <class Scalar>
ProductDevice product_device(Backend backend, std::size_t memory_limit) {
  return device_of(*product_kernels<Scalar>(backend, ProductWay::own), memory_limit);
}

/// The default memory limit of a product in bytes, if num_sharing processes share the device: nine tenths of the free
/// memory; on hosts half of it.
std::size_t default_product_memory(Backend backend, std::size_t num_sharing = 1);

/// The default tile size in rows: many tiles that fit the device.
template <class Scalar>
std::uint64_t default_product_tile(ProductShape const& shape, Backend backend, std::size_t memory_limit) {
  std::uint64_t const largest = has_own_memory(backend) ? 8192 : 4096;
  return choose_tile(shape, product_device<Scalar>(backend, memory_limit), largest);
}

} // namespace varve
