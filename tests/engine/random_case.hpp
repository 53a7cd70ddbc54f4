#pragma once

#include "network/network.hpp"
#include "network/sample_set.hpp"
#include "radixnet/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace varve::test {

/// A network and samples that fit it.
struct RandomCase {
  Network network;
  SampleSet samples;
};

/// What neighbouring outputs of a layer share, which decides the format that the plan prefers.
enum class Sharing { bands, lists, nothing, pairs, uneven, all };
inline constexpr std::array all_sharings = {Sharing::bands, Sharing::lists,  Sharing::nothing,
                                            Sharing::pairs, Sharing::uneven, Sharing::all};

/// The inputs of an output, ascending. Over all outputs the first and the last input are among them.
inline std::vector<NeuronIndex> inputs_of(Sharing sharing, std::size_t output, std::size_t outputs,
                                          std::size_t inputs) {
  std::size_t const span = std::min<std::size_t>(inputs, 70); // inputs of a group of outputs
  std::size_t const per_group = sharing == Sharing::lists ? 16 : 32;
  std::size_t const groups = (outputs - 1) / per_group + 1;
  std::size_t const base = groups == 1 ? inputs - span : output / per_group * (inputs - span) / (groups - 1);
  std::size_t const some = std::min<std::size_t>(8, span);
  std::vector<NeuronIndex> list;
  auto const add = [&](std::size_t first, std::size_t count, std::size_t stride) {
    for (std::size_t i = 0; i < count; ++i) list.push_back(static_cast<NeuronIndex>(first + i * stride));
  };
  switch (sharing) {
  case Sharing::bands: // neighbours share six of eight inputs
    add(base + output % per_group * 2 % (span - some + 1), some, 1);
    break;
  case Sharing::lists:
    add(base, some, span / some);
    break;
  case Sharing::nothing:
    add(inputs < 4 ? 0 : output * 37 % (inputs / 4), std::min<std::size_t>(inputs, 4),
        std::max<std::size_t>(1, inputs / 4));
    break;
  case Sharing::pairs:
    add(output % inputs, output % inputs + 16 < inputs ? 2 : 1, 16);
    break;
  case Sharing::uneven:
    add(output * 41 % (inputs - span + 1), output % 16 == 0 ? span : output % 2, 1);
    break;
  case Sharing::all:
    add(0, inputs, 1);
    break;
  }
  bool const reads_last = !list.empty() && list.back() + 1 == inputs;
  if (output + 1 == outputs && !reads_last) add(inputs - 1, 1, 1);
  return list;
}

/// Draws networks and samples of all kinds from a seed, the same on every platform.
class RandomCases {
public:
  explicit RandomCases(std::uint64_t seed) : random_(seed, 0), seed_(seed) {}

  /// Of three networks one keeps samples saturated, or barely does not.
  RandomCase draw() {
    std::size_t width = draw_width();
    auto samples = draw_samples(draw_count(), width);
    std::vector<Layer> layers(1 + random_.below(7));
    for (auto& layer : layers) {
      std::size_t const outputs = draw_width();
      layer = draw_layer(outputs, width);
      width = outputs;
    }
    if (seed_ % 3 == 0) saturate(layers, samples);
    return {Network(std::move(layers), "random network " + std::to_string(seed_)), std::move(samples)};
  }

  /// Draws networks of up to 66000 neurons, with widths at the limits of formats, kernels and types of indices, whose
  /// layers share inputs in every way, and samples of bits, counts, one value or several.
  RandomCase draw_wide() {
    std::size_t width = draw_limit();
    auto samples = draw_few_entries(draw_count() / 2, width);
    std::vector<Layer> layers(1 + random_.below(4));
    for (auto& layer : layers) {
      bool const is_square = random_.below(2) == 0;
      std::size_t const outputs = is_square ? width : draw_limit();
      bool const is_small = width * outputs <= std::size_t(1) << 19U;
      auto const sharing = all_sharings.at(random_.below(is_small ? 6 : 5));
      layer = is_small && random_.below(2) == 0 ? draw_layer(outputs, width) : draw_shared(sharing, outputs, width);
      width = outputs;
    }
    return {Network(std::move(layers), "wide network " + std::to_string(seed_)), std::move(samples)};
  }

  /// A layer whose outputs share inputs in this way. Some have one weight, and few have weights near the ends of float.
  Layer draw_shared(Sharing sharing, std::size_t outputs, std::size_t inputs) {
    Layer layer = draw_layer(1, 1); // bias of one number, activation
    auto& weights = layer.weights;
    weights = {};
    weights.num_rows = outputs;
    weights.num_columns = inputs;
    for (std::size_t output = 0; output < outputs; ++output) {
      auto const list = inputs_of(sharing, output, outputs, inputs);
      weights.column_indices.insert(weights.column_indices.end(), list.begin(), list.end());
      weights.row_pointers.push_back(weights.column_indices.size());
    }
    weights.values.resize(random_.below(3) == 0 ? 1 : weights.num_entries());
    auto const kind = random_.below(16);
    double const scale = kind == 0 ? 1e30 : kind == 1 ? 1e-30 : 1.0;
    for (auto& value : weights.values) value = scale * real(-0.5, 1.0);
    if (random_.below(2) == 0) layer.bias = draw_bias(outputs);
    return layer;
  }

  /// In [low, high), with a full mantissa.
  double real(double low, double high) {
    return low + (high - low) * std::ldexp(static_cast<double>(random_.bits() >> 11U), -53);
  }

  /// One of 0 ... bound - 1.
  std::size_t below(std::size_t bound) { return random_.below(bound); }

  /// Rows of 0 to `most` entries each, some of them empty and some full; values of either sign, one for all, or 1.
  SparseMatrix draw_matrix(std::size_t rows, std::size_t columns, std::size_t most, double scale) {
    SparseMatrix matrix;
    matrix.num_rows = rows;
    matrix.num_columns = columns;
    for (std::size_t row = 0; row < rows; ++row) {
      auto const kind = random_.below(16);
      std::size_t const wanted = kind == 0 ? 0 : kind == 1 ? columns : random_.below(std::min(most, columns) + 1);
      add_row(matrix, wanted);
    }
    bool const is_iso = random_.below(4) == 0;
    matrix.values.resize(is_iso && matrix.num_entries() > 0 ? 1 : matrix.num_entries());
    for (auto& value : matrix.values) value = real(-0.6 * scale, scale);
    return matrix;
  }

private:
  /// Around the sizes of tiles and slices, or any up to 200.
  std::size_t draw_width() {
    constexpr std::array edges = {1U, 2U, 3U, 15U, 16U, 17U, 31U, 32U, 33U, 63U, 64U, 65U, 127U, 128U, 129U};
    return random_.below(2) == 0 ? edges.at(random_.below(edges.size())) : 1 + random_.below(200);
  }

  /// Around the limits of the widths that formats, kernels and 8, 15 and 16 bits take, or any up to 3000.
  std::size_t draw_limit() {
    constexpr std::array limits = {1U, 256U, 1024U, 2048U, 4096U, 8192U, 32768U, 65536U};
    if (random_.below(3) == 0) return 1 + random_.below(3000);
    return std::max<std::size_t>(1, limits.at(random_.below(limits.size())) + random_.below(3) - 1);
  }

  /// Samples with about every fourth neuron, the first and the last one among them.
  SampleSet draw_few_entries(std::size_t count, std::size_t width) {
    SampleSet samples;
    samples.matrix.num_rows = count;
    samples.matrix.num_columns = width;
    for (std::size_t row = 0; row < count; ++row) {
      std::size_t const stride = row % 8 == 7 ? 1 : 7; // some are full
      for (std::size_t neuron = row % 3; neuron < width; neuron += 1 + random_.below(stride))
        samples.matrix.column_indices.push_back(static_cast<NeuronIndex>(neuron));
      bool const reads_last = samples.matrix.num_entries() > samples.matrix.row_pointers.back() &&
                              samples.matrix.column_indices.back() + 1 == width;
      if (row % 4 == 0 && !reads_last) samples.matrix.column_indices.push_back(static_cast<NeuronIndex>(width - 1));
      samples.matrix.row_pointers.push_back(samples.matrix.num_entries());
    }
    auto const kind = random_.below(4); // bits, one other value, counts, several values
    samples.matrix.values.resize(kind < 2 ? std::min<std::size_t>(1, samples.matrix.num_entries())
                                          : samples.matrix.num_entries());
    for (auto& value : samples.matrix.values)
      value = kind == 0 ? 1.0 : kind == 2 ? static_cast<double>(1 + random_.below(9)) : real(-0.5, 2.0);
    return samples;
  }

  std::size_t draw_count() {
    constexpr std::array counts = {0U, 1U, 7U, 15U, 16U, 17U, 31U, 33U, 63U, 64U, 65U, 100U, 129U, 200U};
    return counts.at(random_.below(counts.size()));
  }

  void add_row(SparseMatrix& matrix, std::size_t wanted) {
    std::size_t left = matrix.num_columns;
    for (std::size_t column = 0; column < matrix.num_columns && wanted > 0; ++column, --left) {
      if (random_.below(left) >= wanted) continue;
      matrix.column_indices.push_back(static_cast<NeuronIndex>(column));
      --wanted;
    }
    matrix.row_pointers.push_back(matrix.num_entries());
  }

  SampleSet draw_samples(std::size_t count, std::size_t width) {
    SampleSet samples{draw_matrix(count, width, 1 + width / 2, 2.0), random_.below(2) * 1000};
    if (random_.below(3) == 0) samples.matrix.values = {1.0};
    return samples;
  }

  Layer draw_layer(std::size_t outputs, std::size_t inputs) {
    Layer layer;
    std::size_t const most = random_.below(4) == 0 ? inputs : 1 + random_.below(std::min<std::size_t>(inputs, 20));
    layer.weights = draw_matrix(outputs, inputs, most, 4.0 / std::sqrt(static_cast<double>(most)));
    layer.bias = draw_bias(outputs);
    auto const kind = random_.below(5);
    layer.activation = kind == 0   ? Activation::relu()
                       : kind == 1 ? Activation::identity()
                       : kind == 2 ? Activation::leaky_relu(real(0.001, 0.999))
                                   : Activation::clipped_relu(real(0.1, 3.0));
    return layer;
  }

  /// Shared or one each; negative (so that samples die), zero, positive (so that dead ones revive) or of either sign.
  std::vector<double> draw_bias(std::size_t outputs) {
    std::vector<double> bias(random_.below(2) == 0 ? 1 : outputs);
    auto const kind = random_.below(8);
    for (auto& value : bias) {
      value = kind == 0 ? 0.0 : kind == 1 ? real(0.0, 1.0) : kind == 2 ? real(-1.0, 1.0) : real(-2.5, 0.0);
    }
    return bias;
  }

  /// Gives all layers from some layer on one cap, which they keep: positive weights, and biases that make each output
  /// of a saturated sample just the cap, or more. In some networks the cap changes midway; in some, one output falls
  /// short of the cap by one bit. Of the samples, every other one is saturated from the start.
  void saturate(std::vector<Layer>& layers, SampleSet& samples) {
    double cap = static_cast<double>(static_cast<float>(real(0.1, 3.0)));
    saturate(samples, cap);
    auto const kind = random_.below(4);
    bool const is_float = random_.below(2) == 0;
    bool const has_room = random_.below(2) == 0;
    std::size_t const first = random_.below(4) == 0 ? random_.below(layers.size()) : 0;
    for (std::size_t number = first; number < layers.size(); ++number) {
      if (kind == 0 && number == (first + layers.size()) / 2) cap *= random_.below(2) == 0 ? 0.5 : 2.0;
      keep_cap(layers[number], cap, is_float, has_room ? 0.25 : 0.0);
    }
    if (kind == 1) fall_short(layers[first + random_.below(layers.size() - first)], is_float);
  }

  void saturate(SampleSet& samples, double value) {
    SparseMatrix saturated;
    saturated.num_rows = samples.num_samples();
    saturated.num_columns = samples.num_neurons();
    for (std::size_t row = 0; row < saturated.num_rows; ++row) {
      bool const is_full = row % 2 == 1;
      for (std::size_t column = 0; column < saturated.num_columns; ++column) {
        if (!is_full && random_.below(2) == 0) continue;
        saturated.column_indices.push_back(static_cast<NeuronIndex>(column));
        saturated.values.push_back(is_full ? value : real(0.0, value));
      }
      saturated.row_pointers.push_back(saturated.num_entries());
    }
    samples.matrix = std::move(saturated);
  }

  template <class Scalar>
  static double sum_at(Layer const& layer, std::size_t output, double cap) {
    Scalar sum = 0;
    for (auto edge = layer.weights.row_pointers[output]; edge < layer.weights.row_pointers[output + 1]; ++edge)
      sum = std::fma(static_cast<Scalar>(layer.weights.value(edge)), static_cast<Scalar>(cap), sum);
    return static_cast<double>(sum);
  }

  static void keep_cap(Layer& layer, double cap, bool is_float, double room) {
    layer.activation = Activation::clipped_relu(cap);
    for (auto& weight : layer.weights.values) weight = std::abs(weight);
    layer.bias.assign(layer.num_outputs(), 0.0);
    for (std::size_t output = 0; output < layer.num_outputs(); ++output)
      layer.bias[output] =
          cap + room - (is_float ? sum_at<float>(layer, output, cap) : sum_at<double>(layer, output, cap));
  }

  /// By as much as one bit of the cap is in float or double.
  void fall_short(Layer& layer, bool is_float) {
    double const cap = layer.activation.cap;
    std::size_t const output = random_.below(layer.num_outputs());
    double const bit = is_float ? cap - static_cast<double>(std::nextafter(static_cast<float>(cap), 0.0F))
                                : cap - std::nextafter(cap, 0.0);
    double const sum = is_float ? sum_at<float>(layer, output, cap) : sum_at<double>(layer, output, cap);
    layer.bias[output] = cap - bit - sum;
  }

  RandomStream random_;
  std::uint64_t seed_;
};

inline RandomCase random_case(std::uint64_t seed) { return RandomCases(seed).draw(); }

/// The network with sigmoid, tanh or softplus in the first and about two thirds of the other layers.
inline Network with_curves(Network const& network, std::uint64_t seed) {
  auto layers = network.layers();
  RandomStream random(seed, 1);
  for (std::size_t number = 0; number < layers.size(); ++number) {
    auto const kind = random.below(number == 0 ? 3 : 4);
    if (kind < 3)
      layers[number].activation = std::array{Activation::sigmoid(), Activation::tanh(), Activation::softplus()}[kind];
  }
  return Network(layers);
}

} // namespace varve::test
