#include "apps/timings.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

namespace varve {

double quantile(std::vector<double> const& sorted, double part) {
  VARVE_REQUIRE(!sorted.empty(), "nothing was measured");
  double const place = part * static_cast<double>(sorted.size() - 1);
  auto const below = static_cast<std::size_t>(place);
  auto const above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

Timings summarize(std::vector<double> seconds) {
  VARVE_REQUIRE(!seconds.empty(), "nothing was measured");
  std::ranges::sort(seconds);
  double const median = quantile(seconds, 0.5);
  return {median, median > 0.0 ? (quantile(seconds, 0.75) - quantile(seconds, 0.25)) / median : 0.0};
}

bool is_clearly_faster(Timings const& one, Timings const& other) {
  constexpr double least = 0.02;
  return one.median < (1.0 - std::max({least, one.spread, other.spread})) * other.median;
}

} // namespace varve
