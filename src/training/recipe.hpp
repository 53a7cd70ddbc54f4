#pragma once

#include "core/types.hpp"
#include "network/loss.hpp"
#include "network/optimizer.hpp"
#include "training/schedules.hpp"
#include "training/training_data.hpp"

#include <nlohmann/json.hpp>

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

/// The number of steps of this recipe with so many samples. A mini-batch larger than all samples holds all of them.
/// Throws UsageError if there are more steps than 64 bits count.
std::uint64_t num_steps_of(Recipe const& recipe, std::size_t num_samples);

/// The recipe and the number of training samples as JSON, for checkpoints and reports.
std::string to_json(Recipe const& recipe, std::size_t num_samples);

/// The recipe of which to_json() made this. Throws InputError "PLACE: ..." if it is none.
Recipe recipe_from(nlohmann::ordered_json const& json, std::string const& place);

/// The same with the hashes of what is trained.
std::string to_json(Recipe const& recipe, TrainingData const& data);

/// Throws UsageError, naming the first difference, unless a checkpoint was made with the same recipe and the same
/// number of samples. The number of epochs may differ if no rate and no change of the pattern depends on it. Hashes of
/// data are not compared. checkpoint: its name in the message.
void require_same(std::string const& checkpoint_json, std::string const& own_json, std::string const& checkpoint);

/// Throws InputError, naming the first difference, unless a checkpoint was made from the same network, samples and
/// answers. Checkpoints without hashes, which older versions wrote, pass.
void require_same_data(std::string const& checkpoint_json, std::string const& own_json, std::string const& checkpoint);

} // namespace varve
