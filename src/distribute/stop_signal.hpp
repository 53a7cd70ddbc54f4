#pragma once

#include <array>
#include <csignal>

namespace varve {

/// During the lifetime of this object, SIGTERM and SIGUSR1 (sent by batch systems before the time limit) do not end the
/// process but are remembered, so that the current batch can be finished. Only one object may exist at a time.
class StopSignal {
public:
  StopSignal();
  ~StopSignal();
  StopSignal(StopSignal const&) = delete;
  StopSignal& operator=(StopSignal const&) = delete;

  /// True once one of the signals has arrived.
  static bool has_come();

private:
  std::array<struct sigaction, 2> before_{}; ///< the previous signal handlers, restored on destruction
};

} // namespace varve
