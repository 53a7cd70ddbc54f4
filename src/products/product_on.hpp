#pragma once

#include "core/error.hpp"
#include "core/execution.hpp"
#include "core/stopwatch.hpp"
#include "core/views.hpp"
#include "products/add_tile.hpp"
#include "products/job_thread.hpp"
#include "products/peer_tiles.hpp"
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
                   memory_.num_slots, memory_.order}),
        slots_(memory_.num_slots),
        lanes_(memory_.num_lanes) {
    auto const spaces = Parts::instances(memory_.num_lanes);
    for (std::size_t number = 0; number < lanes_.size(); ++number) lanes_[number].space = spaces[number];
  }

  void run(Next const& next, Take const& take) override {
    ProfilingRegion const region("varve::product");
    timeline_.restart();
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

  PeerOffer offer_tiles() override {
    VARVE_REQUIRE(buffers_.empty(), "tiles are offered before the first run");
    return Peers::offer(tiles_, memory_, {Blocks::rows, Blocks::columns}, peers_);
  }

  std::vector<std::string> open_peers(std::vector<std::optional<PeerOffer>> const& offers) override {
    return peers_ ? peers_->open(offers) : std::vector<std::string>(offers.size());
  }

  void leave_peers() override {
    if (peers_) peers_->leave();
  }

  std::uint64_t num_kept(std::uint64_t task) const override { return schedule_.num_kept(task); }

  ProductMemory const& memory() const override { return memory_; }

  ProductTraffic traffic() const override {
    auto traffic = traffic_;
    traffic.num_hits = schedule_.num_hits();
    traffic.num_misses = schedule_.num_misses();
    traffic.brought_bytes = schedule_.brought_numbers() * sizeof(Scalar);
    if (peers_) traffic.peers = peers_->traffic();
    traffic.all_bytes = schedule_.all_numbers() * sizeof(Scalar);
    return traffic;
  }

  ProductTimeline& timeline() override { return timeline_; }

private:
  using Parts = ProductParts<ExecutionSpace, Scalar>;
  using Numbers = typename Parts::Numbers;
  using Lane = typename Parts::Lane;
  using Buffer = typename Parts::Buffer;
  using Slot = typename Parts::Slot;
  using Peers = PeerTiles<ExecutionSpace, Scalar>;

  /// Steps that are planned ahead of the one that is started: their tiles are read meanwhile.
  static constexpr std::size_t steps_ahead = kOnHost<ExecutionSpace> ? 2 : 8;
  static constexpr double shortest_wait = 1e-5; ///< on the timeline, in seconds

  /// What a run has besides the engine.
  struct Run {
    Take const& take;
    TileReader<Scalar> reader;
    JobThread takes; ///< last, so that it ends before what it uses
  };

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
      lane.sums = Parts::make_numbers("varve::product_sums", sums_bytes);
      lane.loose = Parts::make_numbers("varve::product_loose", memory_.lane_bytes - sums_bytes);
    }
    if (!kOnHost<ExecutionSpace> && !peers_)
      tiles_memory_ = Parts::make_numbers("varve::product_tiles", memory_.num_slots * memory_.slot_bytes);
    buffers_.resize(kOnHost<ExecutionSpace> ? lanes_.size() : 2 * lanes_.size());
    for (std::size_t number = 0; number < buffers_.size(); ++number)
      buffers_[number].numbers = Parts::on_host(lanes_[number % lanes_.size()].loose, "varve::product_buffer");
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
        if (tile.is_brought)
          run.reader.want(tile.key.operand, schedule_.extent_of(tile.key).block, is_elsewhere(tile.key));
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
    if (peers_) {
      slot.numbers = peers_->slot(number);
    } else if constexpr (kOnHost<ExecutionSpace>) {
      slot.memory = Parts::make_numbers("varve::product_tile", memory_.slot_bytes);
      slot.numbers = part_of(slot.memory, 0);
    } else {
      auto const size = memory_.slot_bytes / sizeof(Scalar);
      slot.numbers = part_of(tiles_memory_, number * size, size);
    }
  }

  /// What the reading thread asks before it reads a tile; nothing without other ranks.
  std::function<bool()> is_elsewhere(TileKey const& key) {
    if (!shares_tiles()) return {};
    return [this, key] { return peers_->is_elsewhere(key); };
  }

  bool shares_tiles() const { return peers_ && peers_->is_used(); }

  void bring(Lane& lane, std::uint64_t task, PlannedTile const& tile, Run& run) {
    auto& slot = slots_[tile.slot];
    if (slot.used.empty()) open(slot, tile.slot);
    auto read = waited_for([&] { return run.reader.next(); });
    if (shares_tiles()) waited_for([&] { return peers_->vacate(tile.slot), true; });
    if (!read.is_elsewhere || !copy_from_peer(lane, task, tile)) {
      auto const extent = schedule_.extent_of(tile.key);
      if (shares_tiles()) peers_->begin(tile.key, tile.slot);
      if (read.is_elsewhere) read = waited_for([&] { return run.reader.read_now(tile.key.operand, extent.block); });
      traffic_.read_seconds += read.end - read.begin;
      ++num_read_;
      timeline_.add({ProductEvent::What::copy, number_of(lane), task, read.begin, read.end});
      pack(lane, extent, tile, buffers_[read.buffer]);
      slot.brought_by = number_of(lane);
      slot.brought.set(lane.space);
      if (shares_tiles()) peers_->publish(tile.slot, lane.space);
    }
    run.reader.give_back();
  }

  /// Copies a tile from another rank, if one has it or will soon.
  bool copy_from_peer(Lane const& lane, std::uint64_t task, PlannedTile const& tile) {
    auto& slot = slots_[tile.slot];
    auto const extent = schedule_.extent_of(tile.key);
    auto const mean_seconds = num_read_ == 0 ? 0.0 : traffic_.read_seconds / static_cast<double>(num_read_);
    auto const begin = timeline_.now();
    if (!waited_for([&] { return peers_->fetch(tile.key, extent, mean_seconds, slot, tile.slot); })) return false;
    slot.brought_by = lanes_.size();
    timeline_.add({ProductEvent::What::copy, number_of(lane), task, begin, timeline_.now()});
    return true;
  }

  /// Brings the numbers of a buffer to the device and packs them into a slot, after those who use what is there.
  void pack(Lane& lane, TileExtent const& extent, PlannedTile const& tile, Buffer& buffer) {
    auto& slot = slots_[tile.slot];
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
    if (tile.key.operand == TileKey::Operand::a) {
      pack_tile<Blocks::rows>(lane.space, extent.shape, loose, slot.numbers);
    } else {
      pack_tile<Blocks::columns>(lane.space, extent.shape, loose, slot.numbers);
    }
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
    if (lane.sums_h.size() == 0) lane.sums_h = Parts::on_host(lane.sums, "varve::product_sums_h");
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
  std::unique_ptr<Peers> peers_; ///< of the ranks that share tiles
  ProductTraffic traffic_;
  std::uint64_t num_read_ = 0; ///< tiles
  ProductTimeline timeline_;
  bool all_tiles_came_ = true; ///< that the schedule planned: no exception ended the last run
};

} // namespace varve
