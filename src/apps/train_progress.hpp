#pragma once

#include "core/stopwatch.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// A line on a terminal (standard error) that says how far the present epoch is, how fast samples are trained with, and
/// how long all epochs will take; nothing if standard error is no terminal. It is removed before other lines are
/// printed.
class TrainProgress {
public:
  /// Training goes on after `num_taken` samples, repetitions in epochs included.
  TrainProgress(std::size_t samples_per_epoch, std::uint64_t num_epochs, double num_taken);
  ~TrainProgress() { clear(); }
  TrainProgress(TrainProgress const&) = delete;
  TrainProgress& operator=(TrainProgress const&) = delete;

  /// To be called after a step: `epoch` (from 0) has taken so many of its samples. Shows a line five times a second at
  /// most.
  void show(std::uint64_t epoch, std::size_t num_taken);

  /// Removes the line.
  void clear();

private:
  std::size_t samples_per_epoch_;
  double num_samples_; ///< of all epochs
  double num_before_;  ///< samples taken before this run
  Stopwatch time_;
  double last_seconds_ = 0.0; ///< when a line was shown last
  bool is_terminal_;
  bool is_shown_ = false;
};

} // namespace varve
