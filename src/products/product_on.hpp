#pragma once

#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/stopwatch.hpp"
#include "core/views.hpp"
#include "core/work_mark.hpp"
#include "products/add_tile.hpp"
#include "products/job_thread.hpp"
#include "products/pack_tile.hpp"
#include "products/product_engine.hpp"
#include "products/product_schedule.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// ProductEngine on an execution space. The thread of run() starts kernels, in the order of a ProductSchedule; one
/// other thread reads the tiles of the next steps, another hands over finished sums. A lane of a GPU has an execution
/// space instance of its own, so that lanes copy and compute side by side. Work of two lanes meets in the tiles alone:
/// a lane's work waits for the one that brings a tile before it uses it, and for all that use a tile before it replaces
/// it. Library: void for Varve's kernel, else LibraryProduct.
template <class ExecutionSpace, class Scalar, class Library = void>
class ProductOn final : public ProductEngine<Scalar> {
public:
  using typename ProductEngine<Scalar>::Next;
  using typename ProductEngine<Scalar>::Take;
  using Blocks =
      std::conditional_t<std::is_void_v<Library>, ProductBlocks<ExecutionSpace, Scalar>, Library>; ///< of packed tiles

  static ProductDevice device(std::size_t memory_limit) {
    return {sizeof(Scalar), Blocks::rows, Blocks::columns, memory_limit};
  }

  ProductOn(ProductTiles const& tiles, std::size_t memory_limit, ProductInputs<Scalar> inputs)
      : tiles_(tiles),
        inputs_(std::move(inputs)),
        memory_(plan_product(tiles, device(memory_limit))),
        schedule_({tiles, Blocks::rows, Blocks::columns, inputs_.transpose_a, inputs_.transpose_b, memory_.num_lanes,
                   memory_.num_slots}),
        slots_(memory_.num_slots),
        lanes_(memory_.num_lanes) {
    auto const spaces = instances(memory_.num_lanes);
    for (std::size_t number = 0; number < lanes_.size(); ++number) lanes_[number].space = spaces[number];
  }

  void run(Next const& next, Take const& take) override {
    ProfilingRegion const region("varve::product");
    timeline_.restart();
    schedule_.begin(std::exchange(all_tiles_came_, false));
    if (auto const first = next()) {
      make_arrays();
      run_from(first, next, take);
    }
    all_tiles_came_ = true;
  }

  std::uint64_t num_kept(std::uint64_t task) const override { return schedule_.num_kept(task); }

  ProductMemory const& memory() const override { return memory_; }

  ProductTraffic traffic() const override {
    auto traffic = traffic_;
    traffic.num_hits = schedule_.num_hits();
    traffic.num_misses = schedule_.num_misses();
    traffic.brought_bytes = schedule_.brought_numbers() * sizeof(Scalar);
    traffic.all_bytes = schedule_.all_numbers() * sizeof(Scalar);
    return traffic;
  }

  ProductTimeline& timeline() override { return timeline_; }

private:
  using Numbers = DeviceArray<ExecutionSpace, Scalar>;
  using HostNumbers =
      Kokkos::View<Scalar*,
                   std::conditional_t<kOnHost<ExecutionSpace>, Kokkos::HostSpace, Kokkos::SharedHostPinnedSpace>>;
  using Mark = WorkMark<ExecutionSpace>;

  /// Steps that are planned ahead of the one that is started: their tiles are read meanwhile.
  static constexpr std::size_t steps_ahead = kOnHost<ExecutionSpace> ? 2 : 8;
  static constexpr double shortest_wait = 1e-5; ///< on the timeline, in seconds

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
    Numbers memory; ///< on hosts; on GPUs the slots share `tiles_memory_`, as each allocation takes its time
    ArrayView<Scalar> numbers;
    std::size_t brought_by = 0; ///< a lane
    Mark brought;
    std::vector<Mark> used; ///< by each lane
  };

  /// What a run has besides the engine.
  struct Run {
    Take const& take;
    TileReader<Scalar> reader;
    JobThread takes; ///< last, so that it ends before what it uses
  };

  static std::vector<ExecutionSpace> instances(std::size_t count) {
    if constexpr (kOnHost<ExecutionSpace>) {
      return std::vector<ExecutionSpace>(count); // a thread pool has no parts to compute side by side
    } else {
      return Kokkos::Experimental::partition_space(ExecutionSpace(), std::vector<int>(count, 1));
    }
  }

  static HostNumbers on_host(Numbers const& numbers, std::string const& label) {
    if constexpr (kOnHost<ExecutionSpace>) {
      return HostNumbers(numbers);
    } else {
      return HostNumbers(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), numbers.size());
    }
  }

  static Numbers make_numbers(std::string const& label, std::size_t bytes) {
    return Numbers(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), bytes / sizeof(Scalar));
  }

  std::size_t number_of(Lane const& lane) const { return static_cast<std::size_t>(&lane - lanes_.data()); }

  /// Arrays of lanes, slots and buffers, which a run makes that has a task. A GPU has two buffers in host memory for
  /// each lane.
  void make_arrays() {
    if (!buffers_.empty()) return;
    auto const rows = std::min(tiles_.tile, tiles_.shape.rows);
    auto const columns = std::min(tiles_.tile, tiles_.shape.columns);
    auto const sums_bytes = num_blocks(rows, Blocks::rows) * num_blocks(columns, Blocks::columns) * Blocks::rows *
                            Blocks::columns * sizeof(Scalar);
    for (auto& lane : lanes_) {
      lane.sums = make_numbers("varve::product_sums", sums_bytes);
      lane.loose = make_numbers("varve::product_loose", memory_.lane_bytes - sums_bytes);
    }
    if constexpr (!kOnHost<ExecutionSpace>)
      tiles_memory_ = make_numbers("varve::product_tiles", memory_.num_slots * memory_.slot_bytes);
    buffers_.resize(kOnHost<ExecutionSpace> ? lanes_.size() : 2 * lanes_.size());
    for (std::size_t number = 0; number < buffers_.size(); ++number)
      buffers_[number].numbers = on_host(lanes_[number % lanes_.size()].loose, "varve::product_buffer");
  }

  std::vector<TileBuffer<Scalar>> tile_buffers() {
    std::vector<TileBuffer<Scalar>> buffers;
    for (auto& buffer : buffers_) buffers.push_back({buffer.numbers.data(), [&buffer] { buffer.taken.await(); }});
    return buffers;
  }

  void run_from(std::optional<std::uint64_t> first, Next const& next, Take const& take) {
    for (auto& lane : lanes_) lane.finished = {};
    Run run{take, {inputs_.a, inputs_.b, tile_buffers(), [this] { return timeline_.now(); }}, {}};
    std::deque<PlannedStep> planned;
    auto const next_task = [&] { return first ? std::exchange(first, std::nullopt) : next(); };
    auto const plan = [&] {
      auto const step = schedule_.next(next_task);
      if (!step) return false;
      for (auto const& tile : {step->a, step->b})
        if (tile.is_brought) run.reader.want(tile.key.operand, schedule_.extent_of(tile.key).block);
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

  /// Starts a step: its tiles come to the device, and their products are added to the sums of its task.
  void start(PlannedStep const& step, Run& run) {
    if (inputs_.before_step) inputs_.before_step();
    auto& lane = lanes_[step.lane];
    if (step.is_first) {
      if constexpr (kOnHost<ExecutionSpace>) await_taken(lane, run); // the sums are those that are handed over
      lane.begin = timeline_.now();
    }
    for (auto const& tile : {step.a, step.b})
      if (tile.is_brought) bring(lane, step.task, tile, run);
    for (auto const& tile : {step.a, step.b})
      if (auto const& slot = slots_[tile.slot]; slot.brought_by != step.lane) slot.brought.hold_back(lane.space);
    add_tile(lane, step);
    for (auto const& tile : {step.a, step.b}) slots_[tile.slot].used[step.lane].set(lane.space);
    if (step.is_last) hand_over(lane, step, run);
  }

  /// Gives a slot its memory.
  void open(Slot& slot, std::size_t number) {
    slot.used.resize(lanes_.size());
    if constexpr (kOnHost<ExecutionSpace>) {
      slot.memory = make_numbers("varve::product_tile", memory_.slot_bytes);
      slot.numbers = part_of(slot.memory, 0);
    } else {
      auto const size = memory_.slot_bytes / sizeof(Scalar);
      slot.numbers = part_of(tiles_memory_, number * size, size);
    }
  }

  void bring(Lane& lane, std::uint64_t task, PlannedTile const& tile, Run& run) {
    auto& slot = slots_[tile.slot];
    if (slot.used.empty()) open(slot, tile.slot);
    auto const read = waited_for([&] { return run.reader.next(); });
    traffic_.read_seconds += read.end - read.begin;
    timeline_.add({ProductEvent::What::copy, number_of(lane), task, read.begin, read.end});
    auto const extent = schedule_.extent_of(tile.key);
    auto& buffer = buffers_[read.buffer];
    auto const size = static_cast<std::size_t>(extent.block.size());
    auto const* from = buffer.numbers.data();
    if constexpr (!kOnHost<ExecutionSpace>) {
      std::pair<std::size_t, std::size_t> const all(0, size);
      Kokkos::deep_copy(lane.space, Kokkos::subview(lane.loose, all), Kokkos::subview(buffer.numbers, all));
      buffer.taken.set(lane.space);
      from = lane.loose.data();
    }
    for (std::size_t other = 0; other < lanes_.size(); ++other)
      if (other != number_of(lane)) slot.used[other].hold_back(lane.space);
    ArrayView<Scalar const> const loose(from, size);
    auto const& packed = slot.numbers;
    if (tile.key.operand == TileKey::Operand::a) {
      pack_tile<Blocks::rows>(lane.space, extent.shape, loose, packed);
    } else {
      pack_tile<Blocks::columns>(lane.space, extent.shape, loose, packed);
    }
    slot.brought_by = number_of(lane);
    slot.brought.set(lane.space);
    run.reader.give_back();
  }

  void add_tile(Lane const& lane, PlannedStep const& step) {
    auto const from = [&](PlannedTile const& tile, int width) -> ArrayView<Scalar const> {
      return part_of(slots_[tile.slot].numbers, static_cast<std::size_t>(tile.first_block) *
                                                    static_cast<std::size_t>(step.depth) *
                                                    static_cast<std::size_t>(width));
    };
    ArrayView<Scalar const> const from_a = from(step.a, Blocks::rows);
    ArrayView<Scalar const> const from_b = from(step.b, Blocks::columns);
    ArrayView<Scalar> const sums(lane.sums.data(), lane.sums.size());
    if constexpr (std::is_void_v<Library>) {
      TileStep<Scalar> const tile{from_a, from_b, sums, step.num_rows, step.num_columns, step.depth, step.is_first};
      varve::add_tile(lane.space, tile, static_cast<int>(lanes_.size()));
    } else {
      Library::add_tile(lane.space, from_a, from_b, sums, step.num_rows, step.num_columns, step.depth, step.is_first);
    }
  }

  /// Gives the sums of a finished task to the thread that hands them over.
  void hand_over(Lane& lane, PlannedStep const& step, Run& run) {
    await_taken(lane, run);
    if (lane.sums_h.size() == 0) lane.sums_h = on_host(lane.sums, "varve::product_sums_h");
    if constexpr (kOnHost<ExecutionSpace>) {
      lane.space.fence("varve::product");
    } else {
      auto const num_pieces = num_blocks(static_cast<std::uint64_t>(step.num_rows), Blocks::rows) *
                              num_blocks(static_cast<std::uint64_t>(step.num_columns), Blocks::columns);
      std::pair<std::size_t, std::size_t> const all(0, num_pieces * Blocks::rows * Blocks::columns);
      Kokkos::deep_copy(lane.space, Kokkos::subview(lane.sums_h, all), Kokkos::subview(lane.sums, all));
      lane.sums_came.set(lane.space);
    }
    auto const block = tiles_.block(step.task);
    auto const block_columns = Blocks::columns == 1 ? static_cast<std::size_t>(block.num_columns) : Blocks::columns;
    auto const skipped_rows = schedule_.row_lines(step.task).first % Blocks::rows;
    auto const skipped_columns = schedule_.column_lines(step.task).first % Blocks::columns;
    TileSums<Scalar> const sums{lane.sums_h.data(), block, Blocks::rows, block_columns, skipped_rows, skipped_columns};
    lane.finished = {0, step.task, lane.begin};
    lane.finished.job = run.takes.add([this, &lane, &run, sums] {
      lane.sums_came.await();
      lane.finished.begin = timeline_.now();
      run.take(lane.finished.task, sums);
      lane.finished.end = timeline_.now();
    });
  }

  /// Waits until the last finished task of a lane, if there is one, was handed over.
  void await_taken(Lane& lane, Run& run) {
    auto& [job, task, task_begin, begin, end] = lane.finished;
    if (job == 0) return;
    waited_for([&] { return run.takes.await(job), true; });
    traffic_.take_seconds += end - begin;
    timeline_.add({ProductEvent::What::finish, number_of(lane), task, begin, end});
    timeline_.add({ProductEvent::What::task, number_of(lane), task, task_begin, end});
    job = 0;
  }

  /// What wait() returns, with the time that it took.
  template <class Wait>
  auto waited_for(Wait const& wait) {
    auto const begin = timeline_.now();
    auto const result = wait();
    auto const end = timeline_.now();
    traffic_.wait_seconds += end - begin;
    if (end - begin > shortest_wait) timeline_.add({ProductEvent::What::wait, 0, 0, begin, end});
    return result;
  }

  ProductTiles tiles_;
  ProductInputs<Scalar> inputs_;
  ProductMemory memory_;
  ProductSchedule schedule_;
  Numbers tiles_memory_; ///< of all slots, on GPUs
  std::vector<Slot> slots_;
  std::vector<Lane> lanes_;
  std::vector<Buffer> buffers_;
  ProductTraffic traffic_;
  ProductTimeline timeline_;
  bool all_tiles_came_ = true; ///< that the schedule planned: no exception ended the last run
};

} // namespace varve
