#pragma once

#include "core/types.hpp"
#include "network/sample_set.hpp"
#include "reference/distinct_layer.hpp"

#include <limits>
#include <span>
#include <vector>

namespace varve {

/// All values that an activation can have: |value - centre| <= radius.
struct Enclosed {
  double centre = 0.0;
  double radius = 0.0;

  bool is_zero() const { return centre == 0.0 && radius == 0.0; }
};

/// Bounds on the activations of one sample: on those of exact arithmetic, and on those of every computation in a
/// precision, whatever the order in which it adds up products, whether equal neurons are merged and constants folded or
/// not, with weights, samples and caps rounded to that precision.
///
/// For an output with n edges (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, chapter 3):
///   |any sum - (sum of w * centre + bias)| <= sum of |w| * (radius + g * (|centre| + radius)) + g * |bias| +
///   underflow,
/// where g = (n + a few) * u / (1 - (n + a few) * u) and u is the unit roundoff. The centre is computed in double,
/// whose rounding lies within the bound. The functions relu, clipped relu and identity move no two values further
/// apart.
class Enclosure {
public:
  enum class State {
    open,   ///< not known yet
    dead,   ///< every activation is 0 in all these computations, and stays 0 in all layers to come
    unknown ///< a bound left the range of numbers: nothing can be said any more
  };

  /// Row `row` of valid samples.
  Enclosure(SampleSet const& samples, std::size_t row, Precision precision);

  /// Takes the sample through a layer. `later_keep_zero`: keeps_zero() holds for all layers behind this one.
  void forward(DistinctLayer const& layer, bool later_keep_zero);

  State state() const { return state_; }
  bool is_dead() const;  ///< no activation can be other than 0
  bool is_alive() const; ///< some activation is not 0 for certain
  bool is_certain() const { return is_dead() || is_alive(); }

  /// [neurons]; none if the state is not open.
  std::vector<Enclosed> const& activations() const { return activations_; }

  /// As Verdict has it, computed from the centres.
  double margin() const { return margin_; }

private:
  Precision precision_;
  State state_ = State::open;
  std::vector<Enclosed> activations_;
  double margin_ = std::numeric_limits<double>::infinity();
};

} // namespace varve
