#include "training/pattern_evolution.hpp"

#include "core/error.hpp"
#include "training/rate_schedule.hpp"

#include <fmt/format.h>

#include <cmath>

namespace varve {

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
