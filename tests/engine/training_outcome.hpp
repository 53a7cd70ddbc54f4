#pragma once

#include "engine/training_at.hpp"
#include "network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve::test {

/// What a training leaves behind.
struct TrainingOutcome {
  std::uint64_t hash = 0; ///< of all weights and biases
  std::vector<double> losses;
  OptimizerState state;
  PatternCount moved;

  bool operator==(TrainingOutcome const&) const = default;
};

/// Steps `first` to `last - 1`, each with `fewer` samples less than the one before; of `num_samples` the first. Edges
/// move before every second step unless `kind` keeps them.
inline void run_steps(Training& training, PatternKind kind, int first, int last, std::size_t num_samples,
                      std::size_t fewer, TrainingOutcome& outcome) {
  for (int step = first; step < last; ++step) {
    auto const first_row = static_cast<std::size_t>(step);
    auto const rows = rows_from(first_row, num_samples - fewer * first_row);
    if (kind != PatternKind::keep && step % 2 == 1)
      outcome.moved += training.evolve(0, rows, {kind, 0.4, 5, static_cast<std::uint64_t>(step)});
    outcome.losses.push_back(training.step(0, rows, 0.01).loss);
    outcome.losses.push_back(training.evaluate(0).loss);
  }
  outcome.hash = weights_hash(training.network());
  outcome.state = training.state();
}

} // namespace varve::test
