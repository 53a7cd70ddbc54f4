#include "process.hpp"

#include "gil.hpp"

#include "core/error.hpp"

#include <varve/runtime.hpp>

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

namespace varve::python {
namespace {

constexpr std::chrono::milliseconds patience{50}; ///< time between two looks for signals

/// The state of Kokkos in this process.
struct Process {
  std::recursive_timed_mutex turn;
  std::mutex guard; ///< of `holders`
  std::set<HoldsViews*> holders;
  std::optional<v0_3::Runtime> runtime;
  std::atomic<pid_t> starter = 0;     ///< the process that started Kokkos; 0: none yet
  std::atomic<std::thread::id> ender; ///< the thread that called end(), if one has

  void forget(HoldsViews* holder) {
    std::lock_guard const lock(guard);
    holders.erase(holder);
  }
};

Process& process() {
  static auto* const the_process = new Process; // never destroyed: objects of Python may outlive static ones
  return *the_process;
}

[[noreturn]] void fail_at_the_end() { throw ResourceError("varve cannot run anything more: this process is ending"); }

void start_in_turn(std::optional<int> num_threads, std::optional<int> device) {
  auto& here = process();
  if (here.ender.load() != std::thread::id()) fail_at_the_end();
  here.runtime.emplace(v0_3::RuntimeOptions{num_threads, device});
  here.starter = getpid();
}

void require_own_process() {
  if (is_forked()) {
    throw ResourceError(
        "this process was forked after varve had started its threads, which a fork does not copy; start "
        "processes by multiprocessing.get_context('spawn'), or fork before the first use of varve");
  }
}

std::unique_lock<std::recursive_timed_mutex> wait_for_turn() {
  require_own_process();
  std::unique_lock lock(process().turn, std::defer_lock);
  while (!lock.try_lock_for(patience)) run_signal_handlers();
  return lock;
}

} // namespace

HoldsViews::HoldsViews() {
  std::lock_guard const lock(process().guard);
  process().holders.insert(this);
}

HoldsViews::~HoldsViews() { process().forget(this); }

void HoldsViews::close_in_turn() {
  if (is_forked()) return lose();
  WithoutGil const no_gil;
  std::lock_guard const lock(process().turn);
  GpuOfThread const gpu;  // which freeing memory may change
  process().forget(this); // before the end of the process could find an object that is half destroyed
  close();
}

Turn::Turn() : lock_(wait_for_turn()) {
  if (!process().runtime) start_in_turn(std::nullopt, std::nullopt);
  gpu_.use_that_of_kokkos();
}

void start(std::optional<int> num_threads, std::optional<int> device) {
  auto const lock = wait_for_turn();
  GpuOfThread const gpu;
  if (process().runtime)
    throw UsageError("varve has started already; set threads and device before its first use in a process");
  start_in_turn(num_threads, device);
}

bool is_forked() {
  pid_t const starter = process().starter;
  return starter != 0 && starter != getpid();
}

void end() {
  auto& here = process();
  if (is_forked()) return;
  here.ender = std::this_thread::get_id(); // daemon threads give up their turn as soon as they look for signals
  std::unique_lock const lock(here.turn);
  std::set<HoldsViews*> holders;
  {
    std::lock_guard const guard(here.guard);
    holders = here.holders;
  }
  for (auto* const holder : holders) holder->close();
  here.runtime.reset();
}

void run_signal_handlers() {
  using Clock = std::chrono::steady_clock;
  auto const ender = process().ender.load();
  if (ender != std::thread::id() && ender != std::this_thread::get_id()) fail_at_the_end();
  thread_local Clock::time_point last_look;
  auto const now = Clock::now();
  if (now - last_look < patience) return;
  last_look = now;
  WithGil const gil;
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

v0_3::Progress to_progress(nanobind::object const& callback) {
  return [called = callback.is_none() ? nullptr : callback.ptr()](std::size_t done, std::size_t total) {
    if (called != nullptr) {
      WithGil const gil;
      nanobind::borrow(called)(done, total);
    }
    if (done < total) run_signal_handlers();
  };
}

char const* name_of(v0_3::Precision precision) {
  return precision == v0_3::Precision::double_precision ? "float64" : "float32";
}

v0_3::Precision to_precision(std::string const& name) {
  return name == "float64" ? v0_3::Precision::double_precision : v0_3::Precision::single_precision;
}

} // namespace varve::python
