#pragma once

#include <cstddef>
#include <cstdint>
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

} // namespace varve
