#include "training/schedules.hpp"

#include "core/elementary.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <cmath>

namespace varve {

double half_turn_cosine(double part) {
  constexpr double half_pi = 1.57079632679489661923;
  double const x = half_pi * (1.0 - 2.0 * part); // cos(pi * part) = sin(pi / 2 - pi * part)
  double const square = x * x;
  double series = 1.0;
  for (int odd = 23; odd >= 3; odd -= 2) // 1 - x^2 / (2 * 3) * (1 - x^2 / (4 * 5) * (...
    series = multiply_add(-series, square / (odd * (odd - 1)), 1.0);
  return x * series;
}

std::string to_string(ScheduleKind kind) {
  return kind == ScheduleKind::constant ? "constant" : kind == ScheduleKind::step ? "step" : "cosine";
}

ScheduleKind parse_rate_schedule(std::string const& name) {
  for (auto const kind : {ScheduleKind::constant, ScheduleKind::step, ScheduleKind::cosine})
    if (name == to_string(kind)) return kind;
  throw UsageError("there is no rate schedule '" + name + "'; there are: constant, step, cosine");
}

void require_valid(RateSchedule const& schedule) {
  auto const require_positive = [](char const* name, double number) {
    if (number > 0.0 && std::isfinite(number)) return;
    throw UsageError(fmt::format("{} is {}, expected a positive number", name, number));
  };
  require_positive("the rate", schedule.rate);
  require_positive("the factor of the rate", schedule.factor);
  if (schedule.every == 0)
    throw UsageError("the rate can change after every epoch (1), every second (2) and so on, not 0");
}

double rate_at(RateSchedule const& schedule, std::uint64_t step, std::uint64_t steps_per_epoch,
               std::uint64_t num_epochs) {
  double rate = schedule.rate;
  if (schedule.kind == ScheduleKind::step) {
    for (std::uint64_t epoch = schedule.every; epoch <= step / steps_per_epoch; epoch += schedule.every)
      rate *= schedule.factor;
  } else if (schedule.kind == ScheduleKind::cosine) {
    double const part = static_cast<double>(step) / static_cast<double>(steps_per_epoch * num_epochs);
    rate *= 0.5 + 0.5 * half_turn_cosine(part);
  }
  if (step < schedule.warm_up) rate *= static_cast<double>(step + 1) / static_cast<double>(schedule.warm_up);
  return rate;
}

std::string to_string(PatternSchedule schedule) {
  return schedule == PatternSchedule::constant ? "constant" : "cosine";
}

PatternSchedule parse_pattern_schedule(std::string const& name) {
  for (auto const schedule : {PatternSchedule::constant, PatternSchedule::cosine})
    if (name == to_string(schedule)) return schedule;
  throw UsageError("there is no schedule '" + name + "' of changes of the pattern; there are: constant, cosine");
}

void require_valid(PatternEvolution const& evolution) {
  if (!(evolution.fraction > 0.0 && evolution.fraction <= 1.0)) {
    throw UsageError(fmt::format(
        "the fraction of edges that are dropped is {}, expected a number above 0 and at most 1", evolution.fraction));
  }
  if (evolution.every == 0)
    throw UsageError("the pattern can change before every step (1), every second (2) and so on, not 0");
  if (!(evolution.until > 0.0 && evolution.until <= 0x1p53)) {
    throw UsageError(fmt::format(
        "changes of the pattern end at {}, expected a part of all steps, above 0 and at most 1, or a number "
        "of steps",
        evolution.until));
  }
}

std::optional<PatternEvent> event_before(PatternEvolution const& evolution, std::uint64_t step, std::uint64_t num_steps,
                                         std::uint64_t seed) {
  if (evolution.kind == PatternKind::keep || step == 0 || step % evolution.every != 0) return std::nullopt;
  double const last =
      std::floor(evolution.until <= 1.0 ? evolution.until * static_cast<double>(num_steps) : evolution.until);
  if (static_cast<double>(step) >= last) return std::nullopt;
  PatternEvent event{evolution.kind, evolution.fraction, seed, step / evolution.every};
  if (evolution.schedule == PatternSchedule::cosine)
    event.fraction *= 0.5 + 0.5 * half_turn_cosine(static_cast<double>(step) / last);
  return event;
}

} // namespace varve
