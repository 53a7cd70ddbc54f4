#pragma once

#include "core/stopwatch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
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

/// The events of a rank, at most `most_of_a_kind` of each kind: if there are more, the shorter half is dropped.
class ProductTimeline {
public:
  static constexpr std::size_t most_of_a_kind = 1000;

  /// Starts again, at 0 seconds.
  void restart();
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

} // namespace varve
