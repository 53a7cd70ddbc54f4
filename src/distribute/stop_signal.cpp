#include "distribute/stop_signal.hpp"

#include <atomic>
#include <cstddef>

namespace varve {
namespace {

std::atomic<bool> signal_has_come = false; // atomic, because a signal may arrive in any thread
static_assert(std::atomic<bool>::is_always_lock_free, "only then may a signal handler change it");

constexpr std::array<int, 2> watched_signals = {SIGTERM, SIGUSR1};

extern "C" void remember_signal(int) { signal_has_come = true; }

} // namespace

StopSignal::StopSignal() {
  signal_has_come = false;
  struct sigaction action {};
  action.sa_handler = remember_signal;
  action.sa_flags = SA_RESTART; // restarts interrupted reads and writes
  for (std::size_t place = 0; place < before_.size(); ++place)
    sigaction(watched_signals[place], &action, &before_[place]);
}

StopSignal::~StopSignal() {
  for (std::size_t place = 0; place < before_.size(); ++place)
    sigaction(watched_signals[place], &before_[place], nullptr);
}

bool StopSignal::has_come() { return signal_has_come; }

} // namespace varve
