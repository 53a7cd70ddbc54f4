#include "distribute/stop_signal.hpp"

#include <atomic>
#include <csignal>

namespace varve {
namespace {

std::atomic<bool> signal_has_come = false; // may come in any thread
static_assert(std::atomic<bool>::is_always_lock_free, "only then may a signal handler change it");

constexpr int watched_signals[] = {SIGTERM, SIGUSR1};

extern "C" void remember_signal(int) { signal_has_come = true; }

} // namespace

StopSignal::StopSignal() {
  signal_has_come = false;
  struct sigaction action {};
  action.sa_handler = remember_signal;
  action.sa_flags = SA_RESTART; // reading and writing go on
  for (int const number : watched_signals) sigaction(number, &action, nullptr);
}

StopSignal::~StopSignal() {
  for (int const number : watched_signals) std::signal(number, SIG_DFL);
}

bool StopSignal::has_come() { return signal_has_come; }

} // namespace varve
