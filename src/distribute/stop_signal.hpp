#pragma once

#include <array>
#include <csignal>

namespace varve {

/// While an object of this kind lives, SIGTERM and SIGUSR1 (what batch systems send before the time limit) do not end
/// the process: they are remembered, so that the work at hand can be finished. One at a time.
class StopSignal {
public:
  StopSignal();
  ~StopSignal();
  StopSignal(StopSignal const&) = delete;
  StopSignal& operator=(StopSignal const&) = delete;

  /// True once one of the signals has come.
  static bool has_come();

private:
  std::array<struct sigaction, 2> before_{}; ///< what the signals did, and will do again
};

} // namespace varve
