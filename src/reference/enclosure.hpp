#pragma once

#include "core/types.hpp"
#include "network/sample_set.hpp"
#include "reference/infer.hpp"

#include <limits>
#include <vector>

namespace varve {

/// An interval of possible values of an activation: |value - centre| <= radius.
struct Enclosed {
  double centre = 0.0;
  double radius = 0.0;

  bool is_zero() const { return centre == 0.0 && radius == 0.0; }
};

/// Rigorous bounds on the activations of one sample. They enclose the activations of exact arithmetic and of every
/// computation in a given precision that rounds weights, samples and caps to that precision, whatever the order in
/// which products are added, and whether or not equal neurons are merged and constants folded.
///
/// For an output with n edges (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, chapter 3):
///   |any sum - (sum of w * centre + bias)|
///     <= sum of |w| * (radius + g * (|centre| + radius)) + g * |bias| + underflow,
/// where g = (n + c) * u / (1 - (n + c) * u) with a small constant c, and u is the unit roundoff. The centre is
/// computed in double; the bound covers its rounding. Activation functions never increase the distance of two values.
class Enclosure {
public:
  enum class State {
    open,   ///< the bounds are valid, and the sample may still change
    dead,   ///< every activation is 0 in all these computations and stays 0 in all later layers
    unknown ///< a bound overflowed, so nothing is known any more
  };

  /// The bounds of row `row` of valid samples. `precision` is the precision of the enclosed computations.
  Enclosure(SampleSet const& samples, std::size_t row, Precision precision);

  /// Advances the bounds through one layer. `later_keep_zero` means that keeps_zero() holds for all later layers.
  void forward(DistinctLayer const& layer, bool later_keep_zero);

  State state() const { return state_; }
  bool is_dead() const;  ///< true if every activation is certainly 0
  bool is_alive() const; ///< true if some activation is certainly nonzero
  bool is_certain() const { return is_dead() || is_alive(); }

  /// The bounds, one per neuron; empty unless the state is open.
  std::vector<Enclosed> const& activations() const { return activations_; }

  /// The margin as defined in Verdict, computed from the centres.
  double margin() const { return margin_; }

private:
  Precision precision_;
  State state_ = State::open;
  std::vector<Enclosed> activations_;
  double margin_ = std::numeric_limits<double>::infinity();
};

} // namespace varve
