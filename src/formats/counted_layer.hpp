#pragma once

#include "formats/device_layer.hpp"

#include <algorithm>
#include <vector>

namespace varve {

/// A layer whose edges all have one weight and whose outputs share a bias (see suits_counts()), as a list of readers
/// per input. For samples whose entries all have one value: an output then depends only on the number of its inputs
/// that have an entry.
template <class ExecutionSpace, class Scalar_>
struct CountedLayer {
  using Scalar = Scalar_;
  static constexpr int outputs_per_word = 4; ///< counts are bytes, four to a word

  /// num_words_used(): words that hold the counts of a sample. num_words(): all words of a sample, an odd number with
  /// at least one spare word, so that the words of neighbouring samples are in different banks.
  VARVE_HOST_DEVICE static int num_words_used(int num_outputs) {
    return (num_outputs + outputs_per_word - 1) / outputs_per_word;
  }
  VARVE_HOST_DEVICE static int num_words(int num_outputs) { return (num_words_used(num_outputs) + 1) | 1; }

  /// Index of the byte that counts for output j: with n words in use, byte j / n of word j % n. Neighbouring inputs
  /// often have neighbouring readers, which are thus in different words.
  static std::uint16_t place_of(int output, int num_outputs) {
    int const words = num_words_used(num_outputs);
    return static_cast<std::uint16_t>(output % words * outputs_per_word + output / words);
  }
  /// Index of a byte that counts for no output.
  VARVE_HOST_DEVICE static std::uint16_t place_of_none(int num_outputs) {
    return static_cast<std::uint16_t>(num_words_used(num_outputs) * outputs_per_word);
  }

  /// The layer as a kernel argument: trivially copyable, valid during the lifetime of the format.
  struct Edges {
    int num_inputs, num_outputs;
    int max_readers; ///< most outputs that read one input
    int degree;      ///< most edges of an output
    Scalar weight;
    double bias;
    Bounds<Scalar> bounds;
    ArrayView<std::uint16_t const> places; ///< [reader][input]: the byte that counts; the last input is a dummy
  };

  CountedLayer() = default;
  explicit CountedLayer(Layer const& layer)
      : num_inputs_(narrowed<int>(layer.num_inputs(), "inputs of a layer")),
        num_outputs_(narrowed<int>(layer.num_outputs(), "outputs of a layer")),
        max_readers_(narrowed<int>(reader_limit(layer.weights), "outputs that read one input")),
        weight_(static_cast<Scalar>(layer.weights.values.front())),
        bias_(layer.bias.front() + 0.0), // -0 becomes +0
        bounds_(bounds_of<Scalar>(layer.activation)) {
    SparseMatrix const& matrix = layer.weights;
    narrowed<std::uint16_t>(static_cast<std::uint64_t>(num_words_used(num_outputs_)) * outputs_per_word,
                            "counts of a sample");     // the largest place, place_of_none()
    std::size_t const stride = matrix.num_columns + 1; // the last input is a dummy without readers
    std::vector<std::uint16_t> by_input(stride * static_cast<std::size_t>(max_readers_), place_of_none(num_outputs_));
    std::vector<std::size_t> num_readers(matrix.num_columns, 0);
    for (std::size_t output = 0; output < matrix.num_rows; ++output) {
      degree_ = std::max(degree_, static_cast<int>(narrowed<std::uint8_t>(
                                      matrix.row_size(output), "edges of an output that are counted in a byte")));
      for (NeuronIndex const input : matrix.row_columns(output))
        by_input[num_readers[input]++ * stride + input] = place_of(static_cast<int>(output), num_outputs_);
    }
    places = upload<ExecutionSpace>("varve::count_places", by_input);
  }

  Edges edges() const { return {num_inputs_, num_outputs_, max_readers_, degree_, weight_, bias_, bounds_, places}; }
  int num_outputs() const { return num_outputs_; }
  static auto arrays_of(auto& format) { return std::tie(format.places); }

  ConstDeviceArray<ExecutionSpace, std::uint16_t> places;

private:
  static EdgeOffset reader_limit(SparseMatrix const& matrix) {
    std::vector<EdgeOffset> num_readers(matrix.num_columns, 0);
    for (NeuronIndex const input : matrix.column_indices) ++num_readers[input];
    return num_readers.empty() ? 0 : *std::ranges::max_element(num_readers);
  }

  int num_inputs_ = 0;
  int num_outputs_ = 0;
  int max_readers_ = 0;
  int degree_ = 0;
  Scalar weight_ = 0;
  double bias_ = 0.0;
  Bounds<Scalar> bounds_{};
};

} // namespace varve
