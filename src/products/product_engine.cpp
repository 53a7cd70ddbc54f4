#include "products/product_engine.hpp"

#include "core/config.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <utility>

namespace varve {
char const* name_of(ProductEvent::What what) {
  static constexpr std::array<char const*, ProductEvent::num_kinds> names = {"task", "copy", "wait", "finish"};
  return names[static_cast<std::size_t>(what)];
}

void ProductTimeline::add(ProductEvent const& event) {
  auto& events = kinds_[static_cast<std::size_t>(event.what)];
  events.push_back(event);
  if (events.size() <= max_of_a_kind) return;
  auto const middle = events.begin() + static_cast<std::ptrdiff_t>(events.size() / 2);
  std::ranges::nth_element(events, middle, std::ranges::greater(),
                           [](ProductEvent const& one) { return one.end - one.begin; });
  num_dropped_ += static_cast<std::uint64_t>(std::distance(middle, events.end()));
  events.erase(middle, events.end());
}

std::vector<ProductEvent> ProductTimeline::events() const {
  std::vector<ProductEvent> all;
  for (auto const& events : kinds_) all.insert(all.end(), events.begin(), events.end());
  std::ranges::sort(all, {}, [](ProductEvent const& event) { return event.begin; });
  return all;
}

namespace {

constexpr double shortest_wait = 1e-5; ///< seconds: shorter waits are not on the timeline

template <class Scalar>
std::unique_ptr<ProductKernels<Scalar>> kernels_of(Backend backend, ProductWay way) {
#if VARVE_HAVE_KOKKOS_KERNELS
  if (way == ProductWay::library)
    return on_chosen_backend<VARVE_BACKENDS>(backend, []<Backend one>() { return library_kernels_of<one, Scalar>(); });
#endif
  if (way == ProductWay::library) {
    throw UsageError("this build lacks Kokkos Kernels, which --tuning product=library takes gemm from (cmake "
                     "-DVARVE_ENABLE_KOKKOS_KERNELS=ON)");
  }
  return on_chosen_backend<VARVE_BACKENDS>(backend, []<Backend one>() { return product_kernels_of<one, Scalar>(); });
}

template <class Scalar>
ProductDevice device_of(ProductKernels<Scalar> const& kernels, std::size_t memory_limit) {
  return {sizeof(Scalar), static_cast<std::size_t>(kernels.block_rows()),
          static_cast<std::size_t>(kernels.block_columns()), memory_limit};
}

template <class Number>
std::span<Number> numbers_of(TileSlot const& slot) {
  return {reinterpret_cast<Number*>(slot.memory.data()), slot.memory.size() / sizeof(Number)};
}

} // namespace

template <class Scalar>
ProductEngine<Scalar>::ProductEngine(Backend backend, ProductTiles const& tiles, std::size_t memory_limit,
                                     ProductInputs<Scalar> inputs, ProductWay way)
    : kernels_(kernels_of<Scalar>(backend, way)),
      device_(kernels_->memory()),
      tiles_(tiles),
      inputs_(std::move(inputs)),
      memory_(plan_product(tiles, device_of(*kernels_, memory_limit))),
      schedule_({tiles, inputs_.transpose_a, inputs_.transpose_b, memory_.num_lanes, memory_.num_slots, memory_.order}),
      slots_(memory_.num_slots),
      lanes_(memory_.num_lanes) {
  for (auto& lane : lanes_) {
    lane.lane = device_.new_stream();
    lane.sums_came = device_.new_mark();
  }
}

template <class Scalar>
void ProductEngine<Scalar>::run(Next const& next, Take const& take) {
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

template <class Scalar>
std::vector<TilePeer> ProductEngine<Scalar>::share_tiles(std::size_t rank, MachineMemory::Gather const& gather) {
  VARVE_REQUIRE(buffers_.empty(), "tiles are shared before the first run");
  auto const layout = std::string(device_.is_host() ? "host" : "GPU") + ", blocks of " +
                      std::to_string(kernels_->block_rows()) + " and " + std::to_string(kernels_->block_columns()) +
                      " lines";
  peers_ = std::make_unique<PeerTiles>(device_, tiles_, memory_, layout, rank, gather);
  auto const peers = peers_->peers();
  if (!peers_->has_memory()) peers_.reset();
  return peers;
}

template <class Scalar>
void ProductEngine<Scalar>::leave_peers() {
  if (peers_) peers_->leave();
}

template <class Scalar>
ProductTraffic ProductEngine<Scalar>::traffic() const {
  auto traffic = traffic_;
  traffic.num_hits = schedule_.num_hits();
  traffic.num_misses = schedule_.num_misses();
  traffic.loaded_bytes = schedule_.loaded_numbers() * sizeof(Scalar);
  traffic.all_bytes = schedule_.all_numbers() * sizeof(Scalar);
  if (peers_) traffic.peers = peers_->traffic();
  return traffic;
}

/// Allocates arrays of lanes, slots and buffers in the first run with a task. A GPU has two buffers in host memory for
/// each lane.
template <class Scalar>
void ProductEngine<Scalar>::make_arrays() {
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
template <class Scalar>
DeviceNumbers<Scalar> ProductEngine<Scalar>::on_host(Numbers const& numbers, std::string const& label) const {
  return device_.is_host() ? numbers : numbers_in<Scalar>(device_.allocate_on_host(label, numbers.num_bytes()));
}

template <class Scalar>
void ProductEngine<Scalar>::run_from(std::optional<std::uint64_t> first, Next const& next, Take const& take) {
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
template <class Scalar>
void ProductEngine<Scalar>::start(PlannedStep const& step, Run& run) {
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
template <class Scalar>
void ProductEngine<Scalar>::open(TileSlot& slot, std::size_t number) {
  auto const bytes = memory_.slot_bytes;
  slot.loaded = device_.new_mark();
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) slot.used.push_back(device_.new_mark());
  slot.memory = peers_              ? peers_->slot(number)
                : device_.is_host() ? new_numbers<std::byte>(device_, "varve::product_tile", bytes)
                                    : slots_memory_.part(number * bytes, (number + 1) * bytes);
}

/// Fills a buffer, on the reading thread.
template <class Scalar>
void ProductEngine<Scalar>::load(TileKey const& key, Buffer& buffer) {
  buffer.taken->await();
  buffer.is_elsewhere = shares_tiles() && peers_->is_elsewhere(key);
  if (!buffer.is_elsewhere) read(key, buffer);
}

template <class Scalar>
void ProductEngine<Scalar>::read(TileKey const& key, Buffer& buffer) {
  std::lock_guard const lock(reading_);
  buffer.begin = timeline_.now();
  (key.operand == TileKey::Operand::a ? inputs_.a : inputs_.b)(schedule_.extent_of(key).block, buffer.numbers.data());
  buffer.end = timeline_.now();
}

template <class Scalar>
void ProductEngine<Scalar>::load_tile(std::size_t lane, std::uint64_t task, PlannedTile const& tile, Run& run) {
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
template <class Scalar>
bool ProductEngine<Scalar>::copy_from_peer(std::size_t lane, std::uint64_t task, PlannedTile const& tile) {
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
template <class Scalar>
void ProductEngine<Scalar>::pack(std::size_t lane_number, PlannedTile const& tile, Buffer& buffer) {
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
template <class Scalar>
void ProductEngine<Scalar>::hand_over(TaskLane& lane, PlannedStep const& step, Run& run) {
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
template <class Scalar>
void ProductEngine<Scalar>::await_taken(TaskLane& lane, Run& run) {
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
template <class Scalar>
template <class Wait>
auto ProductEngine<Scalar>::waited_for(Wait const& wait) {
  auto const begin = timeline_.now();
  auto const result = wait();
  auto const end = timeline_.now();
  traffic_.wait_seconds += end - begin;
  if (end - begin > shortest_wait) timeline_.add({ProductEvent::What::wait, 0, 0, begin, end});
  return result;
}

template class ProductEngine<float>;
template class ProductEngine<double>;

template <class Scalar>
ProductDevice product_device(Backend backend, std::size_t memory_limit) {
  return device_of(*kernels_of<Scalar>(backend, ProductWay::own), memory_limit);
}
template ProductDevice product_device<float>(Backend, std::size_t);
template ProductDevice product_device<double>(Backend, std::size_t);

std::size_t default_product_memory(Backend backend, std::size_t num_sharing) {
  auto const available = available_memory(backend);
  return (has_own_memory(backend) ? available / 10 * 9 : available / 2) / num_sharing;
}

template <class Scalar>
std::uint64_t default_product_tile(ProductShape const& shape, Backend backend, std::size_t memory_limit) {
  std::uint64_t const largest = has_own_memory(backend) ? 8192 : 4096;
  return choose_tile(shape, product_device<Scalar>(backend, memory_limit), largest);
}
template std::uint64_t default_product_tile<float>(ProductShape const&, Backend, std::size_t);
template std::uint64_t default_product_tile<double>(ProductShape const&, Backend, std::size_t);

} // namespace varve
