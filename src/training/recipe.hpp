#pragma once

#include "core/types.hpp"
#include "network/loss.hpp"
#include "network/network.hpp"
#include "network/optimizer.hpp"
#include "network/sample_set.hpp"
#include "passes/regrow.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// The factor of the rate in each step:
///   constant: 1
///   step:     factor^n after n times `every` epochs
///   cosine:   (1 + cos(pi * step / steps)) / 2 (Loshchilov and Hutter, "SGDR", 2016, without restarts)
/// In the first `warm_up` steps, the rate is also multiplied by (step + 1) / warm_up.
enum class ScheduleKind { constant, step, cosine };

/// "constant", "step" or "cosine".
std::string to_string(ScheduleKind kind);

/// The schedule with this name. Throws UsageError if there is none.
ScheduleKind parse_rate_schedule(std::string const& name);

/// A rate schedule with its parameters.
struct RateSchedule {
  ScheduleKind kind = ScheduleKind::constant;
  double rate = 0.1;
  double factor = 0.1;
  std::size_t every = 10;    ///< interval in epochs; kind `step` only
  std::uint64_t warm_up = 0; ///< number of steps with a reduced rate at the beginning

  bool operator==(RateSchedule const&) const = default;
};

/// Throws UsageError unless rate and factor are positive and finite and `every` is not 0.
void require_valid(RateSchedule const& schedule);

/// The rate of step `step` (from 0) of num_epochs * steps_per_epoch steps. All processors compute the same bits.
double rate_at(RateSchedule const& schedule, std::uint64_t step, std::uint64_t steps_per_epoch,
               std::uint64_t num_epochs);

/// The fraction of edges that a change of the pattern drops:
///   constant: the given one
///   cosine:   the given one times (1 + cos(pi * step / last)) / 2, where `last` is the step before which changes end
enum class PatternSchedule { constant, cosine };

/// "constant" or "cosine".
std::string to_string(PatternSchedule schedule);

/// The schedule with this name. Throws UsageError if there is none.
PatternSchedule parse_pattern_schedule(std::string const& name);

/// When and how much the pattern of edges changes. The defaults are those of Evci and others (PatternKind::rigl).
struct PatternEvolution {
  PatternKind kind = PatternKind::keep;
  double fraction = 0.3;     ///< part of the edges of each layer that a change drops, above 0 and at most 1
  std::uint64_t every = 100; ///< steps between changes
  double until = 0.75;       ///< where changes end: a part of all steps if at most 1, else a number of steps
  PatternSchedule schedule = PatternSchedule::cosine;

  bool operator==(PatternEvolution const&) const = default;
};

/// Throws UsageError unless the fraction is above 0 and at most 1, `every` is not 0 and `until` is positive.
void require_valid(PatternEvolution const& evolution);

/// The change of the pattern before step `step` (from 0) of num_steps steps, if there is one: every `every` steps,
/// first after as many, and before step floor(until * num_steps), or floor(until) if `until` is a number of steps. The
/// n-th change has the number n, from 1. All processors compute the same bits.
std::optional<PatternEvent> event_before(PatternEvolution const& evolution, std::uint64_t step, std::uint64_t num_steps,
                                         std::uint64_t seed);

/// What a training begins with besides its recipe, as hashes: a checkpoint continues with the same data only.
struct TrainingData {
  std::size_t num_samples = 0;
  std::uint64_t network = 0; ///< weights_hash() of the network before the first step
  std::uint64_t samples = 0; ///< of all values that are not 0, each with its row and neuron
  std::uint64_t answers = 0; ///< of the labels, or of the targets that are not 0, each with its row and output
};

/// Hashes what is trained, in the precision in which it is trained: data that differ in how they are stored alone, or
/// by less than the precision tells, have the same hashes.
TrainingData training_data_of(Network const& network, SampleSet const& samples, Answers const& answers,
                              Precision precision);

/// The order of the samples in an epoch (from 0): the row of the sample at each position. It depends only on the seed
/// and the epoch, so that training can continue at any step. (Fisher and Yates's shuffle with the counter-based
/// generator of radixnet/random.hpp.)
std::vector<std::uint64_t> sample_order(std::uint64_t seed, std::uint64_t epoch, std::uint64_t num_samples);

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
