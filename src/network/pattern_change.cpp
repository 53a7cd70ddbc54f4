#include "network/pattern_change.hpp"

#include "core/error.hpp"

#include <cmath>

namespace varve {

std::string to_string(PatternKind kind) {
  return kind == PatternKind::keep ? "keep" : kind == PatternKind::set ? "set" : "rigl";
}

PatternKind parse_pattern_kind(std::string const& name) {
  for (auto const kind : {PatternKind::keep, PatternKind::set, PatternKind::rigl})
    if (name == to_string(kind)) return kind;
  throw UsageError("there is no way '" + name + "' to change the pattern of edges; there are: keep, set, rigl");
}

EdgeOffset edges_to_drop(double fraction, EdgeOffset num_edges, EdgeOffset num_places) {
  VARVE_REQUIRE(fraction >= 0.0 && fraction <= 1.0, "a fraction of the edges is from 0 to 1");
  if (num_edges == num_places) return 0;
  return static_cast<EdgeOffset>(std::floor(fraction * static_cast<double>(num_edges) + 0.5));
}

} // namespace varve
