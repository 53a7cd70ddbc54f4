#include "reference/enclosure.hpp"

#include <algorithm>
#include <cmath>

namespace varve {
namespace {

/// Error constants of a floating-point precision.
struct Rounding {
  double unit;    ///< largest relative error of one operation
  double least;   ///< largest absolute error of one operation with a subnormal result
  double largest; ///< largest finite number
};

template <class Scalar>
Rounding rounding_of() {
  using Limits = std::numeric_limits<Scalar>;
  return {static_cast<double>(Limits::epsilon()) / 2.0, static_cast<double>(Limits::denorm_min()),
          static_cast<double>(Limits::max())};
}

Rounding rounding_of(Precision precision) {
  return precision == Precision::double_precision ? rounding_of<double>() : rounding_of<float>();
}

/// Distance between a number and its rounding to the precision; double numbers need none.
double rounding_error(double value, Precision precision) {
  return precision == Precision::double_precision ? 0.0
                                                  : std::abs(value - static_cast<double>(static_cast<float>(value)));
}

bool are_zero(std::vector<Enclosed> const& activations) { return std::ranges::all_of(activations, &Enclosed::is_zero); }

/// An input of a layer: its centre, and how much it adds to the radius of an output per unit of weight.
struct Input {
  double centre = 0.0;
  double slack = 0.0;
};

/// Encloses the weighted sums of a layer's outputs for one sample.
class Sums {
public:
  Sums(Layer const& layer, std::vector<Enclosed> const& activations, Precision precision)
      : layer_(layer), rounding_(rounding_of(precision)), inputs_(activations.size()) {
    EdgeOffset most = 0;
    for (std::size_t output = 0; output < layer.num_outputs(); ++output)
      most = std::max(most, layer.weights.row_size(output));
    // Each term is rounded in its weight and its product, then in at most as many additions as there are edges
    // (constants merged into the bias included), then in the bias and the activation. This applies to the enclosed
    // computation and to that of the centre.
    double const count = static_cast<double>(most) + 8.0;
    error_ = 1.05 * count * (rounding_.unit + rounding_of<double>().unit);
    inflation_ = 1.0 + 4.0 * count * rounding_of<double>().unit; // covers the rounding of the radius itself
    is_bounded_ = error_ < 0.01;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      auto const& [centre, radius] = activations[i];
      double const size = std::abs(centre) + radius;
      double const least = size > 0.0 ? std::numeric_limits<double>::denorm_min() : 0.0;
      inputs_[i] = {centre, radius + error_ * size + least};
      largest_input_ = std::max(largest_input_, size);
    }
  }

  /// False if sum() would give no valid bounds, because there are too many edges for the precision.
  bool is_bounded() const { return is_bounded_; }

  Enclosed sum(std::size_t output) const {
    SparseMatrix const& weights = layer_.weights;
    double centre = 0.0;
    double radius = 0.0;
    bool reads_any = false;
    EdgeOffset const last = weights.row_pointers[output + 1];
    for (EdgeOffset edge = weights.row_pointers[output]; edge < last; ++edge) {
      auto const& [input, slack] = inputs_[weights.column_indices[edge]];
      double const weight = weights.value(edge);
      centre = std::fma(weight, input, centre);
      radius = std::fma(std::abs(weight), slack, radius);
      reads_any = reads_any || slack > 0.0;
    }
    double const bias = layer_.bias_of(output);
    Enclosed result{centre + bias, radius + error_ * std::abs(bias)};
    if (reads_any || bias != 0.0) {
      double const count = static_cast<double>(weights.row_size(output)) + 4.0;
      result.radius += 2.0 * count * rounding_.least * (1.0 + largest_input_);
    }
    result.radius = inflation_ * result.radius + 4.0 * rounding_of<double>().unit * std::abs(result.centre);
    return result;
  }

  /// True if no enclosed computation of this sum can overflow.
  bool is_in_range(Enclosed const& sum) const {
    return std::abs(sum.centre) + sum.radius / error_ < rounding_.largest / 4.0; // false for NaN
  }

private:
  Layer const& layer_;
  Rounding rounding_;
  double error_ = 0.0; ///< relative error of a sum
  double inflation_ = 1.0;
  bool is_bounded_ = true;
  double largest_input_ = 0.0;
  std::vector<Input> inputs_;
};

/// The enclosure of all numbers in [low, high].
Enclosed between(double low, double high) {
  double const centre = low + 0.5 * (high - low);
  return {centre, std::max(high - centre, centre - low) * (1.0 + 1e-14)};
}

/// The enclosure of the values of x, which are not all zero, times a slope, in [low, high]. The product has one more
/// rounding in double. It, and its rounding to the precision, may underflow: what Sums adds for that shrinks with the
/// slope.
Enclosed scaled(double low, double high, Precision precision) {
  auto const all = between(low, high);
  return {all.centre, all.radius + 1e-15 * std::max(std::abs(low), std::abs(high)) + rounding_of(precision).least};
}

/// The enclosure of the values of a curve, which never falls, on [low, high]; computed values may be off by 3 units in
/// the last place.
Enclosed on_curve(Curve curve, double low, double high, Precision precision) {
  double const ulp = precision == Precision::single_precision ? 0x1p-23 : 0x1p-52;
  double const lowest = curved(curve, low);
  double const highest = curved(curve, high);
  auto const all = between(lowest, highest);
  double const least = precision == Precision::single_precision ? 0x1p-126 : 0x1p-1022; // smaller ones may become 0
  return {all.centre, all.radius + 8.0 * ulp * std::max(std::abs(lowest), std::abs(highest)) + least};
}

/// The enclosure of the activation function's values on x; the cap may be rounded to the precision.
Enclosed activated(Activation const& activation, Enclosed x, Precision precision) {
  double const low = x.centre - x.radius;
  double const high = x.centre + x.radius;
  double const slope = activation.slope;
  if (activation.curve() != Curve::none) return on_curve(activation.curve(), low, high, precision);
  if (slope == 1.0) return x;
  if (high <= 0.0 && (slope == 0.0 || x.is_zero())) return {};
  if (!activation.has_cap()) return low >= 0.0 ? x : scaled(slope * low, high > 0.0 ? high : slope * high, precision);
  double const cap = activation.cap;
  double const error = rounding_error(cap, precision);
  if (low >= cap + error) return {cap, error};
  if (low >= 0.0 && high <= cap - error) return x;
  return between(std::clamp(low, 0.0, cap - error), std::min(high, cap + error));
}

} // namespace

Enclosure::Enclosure(SampleSet const& samples, std::size_t row, Precision precision)
    : precision_(precision), activations_(samples.num_neurons()) {
  auto const& matrix = samples.matrix;
  for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
    double const value = matrix.value(entry);
    activations_[matrix.column_indices[entry]] = {value, rounding_error(value, precision)};
  }
}

bool Enclosure::is_dead() const { return state_ == State::dead || (state_ == State::open && are_zero(activations_)); }

bool Enclosure::is_alive() const {
  return state_ == State::open &&
         std::ranges::any_of(activations_, [](Enclosed const& x) { return std::abs(x.centre) > x.radius; });
}

void Enclosure::forward(DistinctLayer const& layer, bool later_keep_zero) {
  if (state_ == State::open && later_keep_zero && is_dead() && keeps_zero(layer.layer)) state_ = State::dead;
  if (state_ != State::open) return;
  auto const& activation = layer.layer.activation;
  Sums const sums(layer.layer, activations_, precision_);
  std::vector<Enclosed> distinct(layer.layer.num_outputs());
  double most = -std::numeric_limits<double>::infinity();
  bool is_in_range = sums.is_bounded();
  for (std::size_t output = 0; output < distinct.size() && is_in_range; ++output) {
    auto const sum = sums.sum(output);
    is_in_range = sums.is_in_range(sum);
    most = std::max(most, activation.slope > 0.0 ? std::abs(sum.centre) : sum.centre);
    distinct[output] = activated(activation, sum, precision_);
  }
  activations_.resize(is_in_range ? layer.num_outputs() : 0);
  for (std::size_t output = 0; output < activations_.size(); ++output)
    activations_[output] = distinct[layer.place[output]];
  if (!is_in_range) state_ = State::unknown;
  if (state_ == State::unknown || !later_keep_zero) return;
  margin_ = std::min(margin_, std::abs(most));
  if (!are_zero(activations_)) return;
  margin_ = std::abs(most);
  state_ = State::dead;
  activations_.clear();
}

} // namespace varve
