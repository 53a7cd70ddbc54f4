#include "reference/exact_activations.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace varve {
namespace {

using Word = std::uint64_t;
__extension__ using DoubleWord = unsigned __int128;

constexpr std::int64_t kWordBits = 64;
constexpr std::int64_t kNoExponent = std::int64_t{1} << 40U; ///< larger than every exponent that occurs

template <class Number>
std::int64_t bits_in(Number number) {
  return static_cast<std::int64_t>(std::bit_width(static_cast<Word>(number)));
}

/// Position of the highest set bit, from 1; 0 if there is none.
std::int64_t bit_length(std::span<Word const> words) {
  for (std::size_t i = words.size(); i-- > 0;)
    if (words[i] != 0) return static_cast<std::int64_t>(i) * kWordBits + bits_in(words[i]);
  return 0;
}

/// Number of zero bits below the lowest set bit; the integer must not be 0.
std::int64_t trailing_zeros(std::span<Word const> words) {
  std::size_t i = 0;
  while (words[i] == 0) ++i;
  return static_cast<std::int64_t>(i) * kWordBits + std::countr_zero(words[i]);
}

/// target += source * factor; the target must be long enough for the sum.
void add_product(std::span<Word> target, std::span<Word const> source, Word factor) {
  Word carry = 0;
  std::size_t i = 0;
  for (; i < source.size(); ++i) {
    DoubleWord const product = static_cast<DoubleWord>(source[i]) * factor + target[i] + carry;
    target[i] = static_cast<Word>(product);
    carry = static_cast<Word>(product >> 64U);
  }
  for (; carry != 0; ++i) {
    target[i] += carry;
    carry = target[i] < carry ? 1 : 0;
  }
}

/// target += source * factor * 2^shift; the target must be long enough for the sum.
void add_shifted(std::span<Word> target, std::span<Word const> source, Word factor, std::int64_t shift) {
  auto const shifted = static_cast<DoubleWord>(factor) << static_cast<unsigned>(shift % kWordBits);
  auto const place = static_cast<std::size_t>(shift / kWordBits);
  auto const low = static_cast<Word>(shifted);
  auto const high = static_cast<Word>(shifted >> 64U);
  if (low != 0) add_product(target.subspan(place), source, low);
  if (high != 0) add_product(target.subspan(place + 1), source, high);
}

/// -1, 0 or 1 if `one` is less than, equal to or greater than `other`; both have the same length.
int compare(std::span<Word const> one, std::span<Word const> other) {
  for (std::size_t i = one.size(); i-- > 0;)
    if (one[i] != other[i]) return one[i] < other[i] ? -1 : 1;
  return 0;
}

/// one -= other; `other` must not be greater.
void subtract(std::span<Word> one, std::span<Word const> other) {
  Word borrow = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    Word const less = one[i] - other[i];
    Word const next = less - borrow;
    borrow = (one[i] < other[i] || less < borrow) ? 1 : 0;
    one[i] = next;
  }
}

/// target = source / 2^shift, which must leave no remainder. The target may be shorter than the source if only zeros
/// are lost.
void shift_down(std::span<Word const> source, std::int64_t shift, std::span<Word> target) {
  auto const place = static_cast<std::size_t>(shift / kWordBits);
  auto const bits = static_cast<unsigned>(shift % kWordBits);
  for (std::size_t i = 0; i < target.size(); ++i) {
    Word const low = place + i < source.size() ? source[place + i] : 0;
    Word const high = place + i + 1 < source.size() ? source[place + i + 1] : 0;
    target[i] = bits == 0 ? low : (low >> bits) | (high << (64U - bits));
  }
}

/// words * 2^exponent, rounded to nearest; a nonzero result is clamped to the range of positive finite doubles.
double rounded(std::span<Word const> words, std::int64_t exponent) {
  auto const length = bit_length(words);
  if (length == 0) return 0.0;
  std::int64_t const cut = std::max<std::int64_t>(0, length - kWordBits);
  Word top = 0;
  shift_down(words, cut, {&top, 1});
  if (cut > 0 && trailing_zeros(words) < cut) top |= 1U; // sticky bit: the bits cut off decide a tie
  auto const scale = static_cast<int>(std::clamp<std::int64_t>(cut + exponent, -100000, 100000));
  double const value = std::ldexp(static_cast<double>(top), scale);
  return std::clamp(value, std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max());
}

} // namespace

Dyadic dyadic_of(double value) {
  if (value == 0.0) return {};
  int exponent = 0;
  auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  exponent -= 53;
  int const zeros = std::countr_zero(static_cast<Word>(mantissa));
  mantissa /= std::int64_t{1} << zeros;
  return {mantissa, exponent + zeros};
}

ExactLayer::ExactLayer(DistinctLayer const& layer) : source(layer) {
  auto const top_of = [](Dyadic const& number) { return number.exponent + bits_in(std::abs(number.mantissa)); };
  min_weight_exponent = min_exponent = kNoExponent;
  top_of_weights = top_of_rest = -kNoExponent;
  for (double const value : layer.layer.weights.values) {
    auto const& weight = weights.emplace_back(dyadic_of(value));
    if (weight.mantissa == 0) continue;
    min_weight_exponent = std::min<std::int64_t>(min_weight_exponent, weight.exponent);
    top_of_weights = std::max(top_of_weights, top_of(weight));
  }
  EdgeOffset most = 0;
  for (std::size_t output = 0; output < layer.layer.num_outputs(); ++output)
    most = std::max(most, layer.layer.weights.row_size(output));
  top_of_weights += bits_in(most);
  auto const take = [&](Dyadic const& number) {
    if (number.mantissa == 0) return;
    min_exponent = std::min<std::int64_t>(min_exponent, number.exponent);
    top_of_rest = std::max(top_of_rest, top_of(number));
  };
  for (double const value : layer.layer.bias) take(biases.emplace_back(dyadic_of(value)));
  if (layer.layer.activation.has_cap()) take(cap = dyadic_of(layer.layer.activation.cap));
  if (layer.layer.activation.scales_below_zero()) slope = dyadic_of(layer.layer.activation.slope);
}

/// A sum of numbers of both signs, as an integer times 2^exponent.
class ExactActivations::Accumulator {
public:
  Accumulator(std::size_t num_words, std::int64_t exponent)
      : exponent_(exponent), positive_(num_words), negative_(num_words) {}

  /// An empty accumulator with room for this sum times a number of at most 1 in magnitude.
  Accumulator scaled_by(Dyadic const& number) const {
    return {positive_.size() + static_cast<std::size_t>(-number.exponent / kWordBits + 2), exponent_ + number.exponent};
  }

  void clear() {
    std::ranges::fill(positive_, 0);
    std::ranges::fill(negative_, 0);
  }

  /// Adds sign * source * 2^exponent * number.
  void add(int sign, std::span<Word const> source, std::int64_t exponent, Dyadic const& number) {
    if (number.mantissa == 0 || sign == 0) return;
    bool const is_positive = (number.mantissa > 0) == (sign > 0);
    add_shifted(is_positive ? positive_ : negative_, source, static_cast<Word>(std::abs(number.mantissa)),
                exponent + number.exponent - exponent_);
  }

  void add(Dyadic const& number) {
    Word const one = 1;
    add(1, {&one, 1}, 0, number);
  }

  /// Computes the sum, leaves its magnitude in magnitude() and returns its sign.
  int finish() {
    int const sign = compare(positive_, negative_);
    if (sign < 0) std::swap(positive_, negative_);
    subtract(positive_, negative_);
    return sign;
  }

  std::span<Word const> magnitude() const { return positive_; }
  std::int64_t exponent() const { return exponent_; }

private:
  std::int64_t exponent_;
  std::vector<Word> positive_, negative_;
};

ExactActivations::ExactActivations(SampleSet const& samples, std::size_t row) {
  auto const& matrix = samples.matrix;
  std::vector<Dyadic> numbers;
  std::vector<signed char> signs = {0};
  std::vector<NeuronIndex> place(samples.num_neurons(), 0); // index 0 stands for the value 0
  std::int64_t least = kNoExponent;
  std::int64_t top = 0;
  for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry) {
    auto const& number = numbers.emplace_back(dyadic_of(matrix.value(entry)));
    signs.push_back(number.mantissa == 0 ? 0 : number.mantissa > 0 ? 1 : -1);
    place[matrix.column_indices[entry]] = static_cast<NeuronIndex>(numbers.size());
    if (number.mantissa != 0) least = std::min<std::int64_t>(least, number.exponent);
  }
  for (auto const& number : numbers) top = std::max<std::int64_t>(top, number.exponent + kWordBits - least);
  auto const num_words = static_cast<std::size_t>(top / kWordBits + 2);
  std::vector<Word> words((numbers.size() + 1) * num_words);
  Word const one = 1;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (signs[i + 1] == 0) continue;
    add_shifted(std::span(words).subspan((i + 1) * num_words, num_words), {&one, 1},
                static_cast<Word>(std::abs(numbers[i].mantissa)), numbers[i].exponent - least);
  }
  set(words, signs, least, place);
}

bool ExactActivations::is_dead() const {
  return std::ranges::all_of(signs_, [](signed char sign) { return sign == 0; });
}

double ExactActivations::value(std::size_t neuron) const {
  return signs_[neuron] == 0 ? 0.0 : signs_[neuron] * rounded(magnitude(neuron), exponent_);
}

void ExactActivations::set(std::span<Word const> words, std::span<signed char const> signs, std::int64_t exponent,
                           std::span<NeuronIndex const> place) {
  std::size_t const length = signs.empty() ? 0 : words.size() / signs.size();
  auto const magnitude_of = [&](std::size_t i) { return words.subspan(i * length, length); };
  std::int64_t zeros = kNoExponent; // trailing zero bits common to all magnitudes
  std::int64_t bits = 0;
  for (std::size_t i = 0; i < signs.size(); ++i) {
    if (signs[i] == 0) continue;
    zeros = std::min(zeros, trailing_zeros(magnitude_of(i)));
    bits = std::max(bits, bit_length(magnitude_of(i)));
  }
  num_bits_ = bits == 0 ? 0 : bits - zeros;
  num_words_ = static_cast<std::size_t>((num_bits_ + kWordBits - 1) / kWordBits);
  exponent_ = bits == 0 ? 0 : exponent + zeros;
  std::vector<Word> shifted(signs.size() * num_words_);
  for (std::size_t i = 0; i < signs.size(); ++i)
    if (signs[i] != 0) shift_down(magnitude_of(i), zeros, std::span(shifted).subspan(i * num_words_, num_words_));
  signs_.resize(place.size());
  words_.resize(place.size() * num_words_);
  for (std::size_t neuron = 0; neuron < place.size(); ++neuron) {
    signs_[neuron] = signs[place[neuron]];
    std::ranges::copy(std::span(shifted).subspan(place[neuron] * num_words_, num_words_),
                      words_.begin() + static_cast<std::ptrdiff_t>(neuron * num_words_));
  }
}

ExactActivations::Accumulator ExactActivations::accumulator_for(ExactLayer const& layer) const {
  std::int64_t exponent = layer.min_exponent;
  std::int64_t top = layer.top_of_rest;
  if (num_bits_ > 0 && layer.min_weight_exponent != kNoExponent) {
    exponent = std::min(exponent, exponent_ + layer.min_weight_exponent);
    top = std::max(top, exponent_ + num_bits_ + layer.top_of_weights);
  }
  if (top < exponent) return {1, 0}; // every sum is 0
  return {static_cast<std::size_t>((top - exponent + 1) / kWordBits + 3), exponent};
}

void ExactActivations::add_products(ExactLayer const& layer, std::size_t output, Accumulator& sum) const {
  auto const& weights = layer.source.layer.weights;
  bool const has_one = layer.weights.size() == 1;
  for (EdgeOffset edge = weights.row_pointers[output]; edge < weights.row_pointers[output + 1]; ++edge) {
    NeuronIndex const input = weights.column_indices[edge];
    if (signs_[input] != 0) sum.add(signs_[input], magnitude(input), exponent_, layer.weights[has_one ? 0 : edge]);
  }
}

void ExactActivations::forward(ExactLayer const& layer, bool later_keep_zero) {
  Layer const& source = layer.source.layer;
  if (later_keep_zero && is_dead() && keeps_zero(source)) {
    signs_.assign(layer.source.num_outputs(), 0);
    return;
  }
  bool const keeps_negative = source.activation.slope > 0.0;
  Accumulator sum = accumulator_for(layer);
  sum.add(layer.cap);
  sum.finish();
  std::vector<Word> const cap(sum.magnitude().begin(), sum.magnitude().end());
  bool const is_capped = layer.cap.mantissa != 0;
  Accumulator scaled = sum.scaled_by(layer.slope); // used if the slope is neither 0 nor 1
  std::vector<Word> words;
  words.reserve(source.num_outputs() * cap.size());
  std::vector<signed char> signs;
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t output = 0; output < source.num_outputs(); ++output) {
    sum.clear();
    add_products(layer, output, sum);
    sum.add(layer.biases[output]);
    int sign = sum.finish();
    most = std::max(most, (keeps_negative ? std::abs(sign) : sign) * rounded(sum.magnitude(), sum.exponent()));
    if (!keeps_negative) sign = std::max(sign, 0);
    bool const is_above = is_capped && sign > 0 && compare(sum.magnitude(), cap) > 0;
    if (layer.slope.mantissa != 0) {
      scaled.clear();
      scaled.add(sign, sum.magnitude(), sum.exponent(), sign < 0 ? layer.slope : Dyadic{1, 0});
      scaled.finish();
    }
    std::span<Word const> const activation = is_above                    ? cap
                                             : layer.slope.mantissa != 0 ? scaled.magnitude()
                                                                         : sum.magnitude();
    words.insert(words.end(), activation.begin(), activation.end());
    signs.push_back(static_cast<signed char>(sign));
  }
  set(words, signs, layer.slope.mantissa != 0 ? scaled.exponent() : sum.exponent(), layer.source.place);
  if (!later_keep_zero) return;
  margin_ = is_dead() ? std::abs(most) : std::min(margin_, std::abs(most));
}

} // namespace varve
