#pragma once

#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <array>
#include <vector>

namespace varve::test {

/// A sum that meets its threshold up to rounding: three equal neurons of value x, then x * (w0 + w1 + w2) + bias, which
/// is 0 in decimal numbers and not quite in the doubles nearest to them.
struct Tie {
  std::array<double, 3> weights;
  double x;
  double bias;
  bool is_alive;           ///< category in exact arithmetic on these doubles
  bool is_alive_in_double; ///< category in double, with edges in ascending order
  bool is_alive_merged;    ///< category in double, with the three neurons merged and their weights added
};

/// Every combination that there is; the first one is that of docs/numerics.md.
inline constexpr std::array<Tie, 7> kTies = {{
    {{0.75, 0.83, 0.54}, 0.86, -1.8232, true, false, true},
    {{0.18, 0.73, 0.98}, 0.09, -0.1701, false, false, false},
    {{0.33, 0.16, 0.64}, 0.98, -1.1074, true, false, false},
    {{0.49, 0.88, 0.28}, 0.55, -0.9075, true, true, true},
    {{0.93, 0.92, 0.65}, 0.55, -1.375, true, true, false},
    {{0.75, 0.71, 0.99}, 0.14, -0.343, false, false, true},
    {{0.48, 0.17, 0.39}, 0.22, -0.2288, false, true, false},
}};

inline Network network_of(Tie const& tie) {
  Layer copies;
  copies.weights = {3, 1, {0, 1, 2, 3}, {0, 0, 0}, {1.0}};
  copies.activation = Activation::relu();
  Layer sum;
  sum.weights = {1, 3, {0, 3}, {0, 1, 2}, {tie.weights.begin(), tie.weights.end()}};
  sum.bias = {tie.bias};
  sum.activation = Activation::relu();
  return Network({copies, sum}, "a tie");
}

inline SampleSet sample_of(Tie const& tie) { return {{1, 1, {0, 1}, {0}, {tie.x}}, 0}; }

} // namespace varve::test
