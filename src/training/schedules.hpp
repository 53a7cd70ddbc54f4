#pragma once

#include "network/pattern_change.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace varve {

/// cos(pi * part) for a part from 0 to 1, by the Taylor series of the sine: libraries' cos() differ in last bits.
double half_turn_cosine(double part);

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

} // namespace varve
