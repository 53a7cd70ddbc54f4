#pragma once

#include "network/sample_set.hpp"
#include "reference/infer.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace varve {

/// A finite double in the form mantissa * 2^exponent; the mantissa is odd or 0.
struct Dyadic {
  std::int64_t mantissa = 0;
  int exponent = 0;
};

/// The Dyadic form of a finite double.
Dyadic dyadic_of(double value);

/// A layer whose numbers are Dyadic, for computing without rounding.
struct ExactLayer {
  explicit ExactLayer(DistinctLayer const& layer);

  DistinctLayer const& source; ///< must outlive this object
  std::vector<Dyadic> weights; ///< one per edge, or one for all
  std::vector<Dyadic> biases;  ///< one per distinct output
  Dyadic slope;                ///< factor of sums below zero if it is neither 0 nor 1; else 0
  Dyadic cap;                  ///< cap of clipped_relu; 0 for other activations
  std::int64_t min_weight_exponent = 0;
  std::int64_t min_exponent = 0;   ///< least exponent of biases and cap
  std::int64_t top_of_weights = 0; ///< the absolute weights of an output add up to less than 2^top_of_weights
  std::int64_t top_of_rest = 0;    ///< biases and cap are less than 2^top_of_rest in magnitude
};

/// The activations of one sample in exact arithmetic: integers times one common power of two. A layer lengthens the
/// integers by at most the bits of a weight plus the logarithm of its edges; common trailing zero bits are removed.
class ExactActivations {
public:
  /// The activations of row `row` of valid samples.
  ExactActivations(SampleSet const& samples, std::size_t row);

  /// Advances the activations through one layer. `later_keep_zero` means that keeps_zero() holds for all later layers.
  void forward(ExactLayer const& layer, bool later_keep_zero);

  bool is_dead() const; ///< true if all activations are 0

  /// The activation of a neuron, rounded to the nearest double. Values beyond its range become the largest finite
  /// double; nonzero values never become 0.
  double value(std::size_t neuron) const;
  std::size_t num_neurons() const { return signs_.size(); }

  /// The margin as defined in Verdict.
  double margin() const { return margin_; }

  /// The exact activation is sign(neuron) * magnitude(neuron) * 2^exponent(); the magnitude is an integer of 64-bit
  /// words, lowest word first.
  using Word = std::uint64_t;
  int sign(std::size_t neuron) const { return signs_[neuron]; }
  std::span<Word const> magnitude(std::size_t neuron) const {
    return {words_.data() + neuron * num_words_, num_words_};
  }
  std::int64_t exponent() const { return exponent_; }

private:
  class Accumulator;

  /// Replaces the activations. `words` and `signs` are those of distinct neurons, scaled by 2^exponent; `place` gives
  /// the distinct neuron of each neuron.
  void set(std::span<Word const> words, std::span<signed char const> signs, std::int64_t exponent,
           std::span<NeuronIndex const> place);
  Accumulator accumulator_for(ExactLayer const& layer) const;
  void add_products(ExactLayer const& layer, std::size_t output, Accumulator& sum) const;

  std::int64_t exponent_ = 0;
  std::int64_t num_bits_ = 0;      ///< bits of the largest integer
  std::size_t num_words_ = 0;      ///< words per integer
  std::vector<Word> words_;        ///< shape [neurons][num_words_], lowest word first
  std::vector<signed char> signs_; ///< shape [neurons]; -1, 0 or 1
  double margin_ = std::numeric_limits<double>::infinity();
};

} // namespace varve
