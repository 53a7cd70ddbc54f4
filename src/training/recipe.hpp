#pragma once

#include "core/types.hpp"
#include "network/loss.hpp"
#include "network/optimizer.hpp"
#include "training/pattern_evolution.hpp"
#include "training/rate_schedule.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace varve {

/// The options that decide the bits of a training, besides the network, the samples and their answers. Other options
/// (backend, threads, memory, micro-batches) change no bit.
struct Recipe {
  Precision precision = Precision::single_precision;
  Loss loss = Loss::cross_entropy;
  Optimizer optimizer;
  RateSchedule rate;
  std::size_t batch = 128;
  std::size_t epochs = 10;
  std::uint64_t seed = 1; ///< seed of the order of the samples and of the places of PatternKind::set
  PatternEvolution pattern;

  bool operator==(Recipe const&) const = default;
};

/// Throws UsageError, naming the option, if a value is out of its range.
void require_valid(Recipe const& recipe);

/// The recipe and the number of training samples as JSON, for checkpoints and reports.
std::string to_json(Recipe const& recipe, std::size_t num_samples);

/// Throws UsageError, naming the first difference, unless a checkpoint was made with the same recipe and the same
/// number of samples. checkpoint: its name in the message.
void require_same(std::string const& checkpoint_json, std::string const& own_json, std::string const& checkpoint);

} // namespace varve
