#pragma once

#include "network/sample_set.hpp"
#include "reference/distinct_layer.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace varve {

/// A double as mantissa * 2^exponent, which every finite double is; the mantissa is odd, or 0.
struct Dyadic {
  std::int64_t mantissa = 0;
  int exponent = 0;
};

Dyadic dyadic_of(double value);

/// A layer in numbers without rounding.
struct ExactLayer {
  explicit ExactLayer(DistinctLayer const& layer);

  DistinctLayer const& source; ///< must outlive this object
  std::vector<Dyadic> weights; ///< one per edge, or one for all
  std::vector<Dyadic> biases;  ///< by distinct output
  Dyadic cap;                  ///< of clipped_relu
  std::int64_t least_weight_exponent = 0;
  std::int64_t least_exponent = 0; ///< of biases and cap
  std::int64_t top_of_weights = 0; ///< each is below 2^this, products of as many as an output has added up too
  std::int64_t top_of_rest = 0;    ///< of biases and cap
};

/// The activations of one sample in exact arithmetic: integers times one power of two. A layer makes them longer by the
/// bits of a weight, at most, and by the logarithm of its edges; what common zeros they end in goes.
class ExactActivations {
public:
  /// Row `row` of valid samples.
  ExactActivations(SampleSet const& samples, std::size_t row);

  /// Takes the sample through a layer. `later_keep_zero`: keeps_zero() holds for all layers behind this one.
  void forward(ExactLayer const& layer, bool later_keep_zero);

  bool is_dead() const; ///< all activations are 0

  /// The activation of a neuron, rounded to the nearest double (to the largest finite one beyond its range; what is not
  /// 0 does not become 0).
  double value(std::size_t neuron) const;
  std::size_t num_neurons() const { return signs_.size(); }

  /// As Verdict has it.
  double margin() const { return margin_; }

  /// The activation itself: sign(neuron) * (the integer of these 64-bit words, the lowest first) * 2^exponent().
  using Word = std::uint64_t;
  int sign(std::size_t neuron) const { return signs_[neuron]; }
  std::span<Word const> magnitude(std::size_t neuron) const {
    return {words_.data() + neuron * num_words_, num_words_};
  }
  std::int64_t exponent() const { return exponent_; }

private:
  class Accumulator;

  /// Replaces the activations: those of distinct neurons * 2^exponent, and which of them each neuron has.
  void set(std::span<Word const> words, std::span<signed char const> signs, std::int64_t exponent,
           std::span<NeuronIndex const> place);
  Accumulator accumulator_for(ExactLayer const& layer) const;
  void add_products(ExactLayer const& layer, std::size_t output, Accumulator& sum) const;

  std::int64_t exponent_ = 0;
  std::int64_t num_bits_ = 0;      ///< of the largest integer
  std::size_t num_words_ = 0;      ///< that these take
  std::vector<Word> words_;        ///< [neurons][num_words], the lowest first
  std::vector<signed char> signs_; ///< [neurons] -1, 0, 1
  double margin_ = std::numeric_limits<double>::infinity();
};

} // namespace varve
