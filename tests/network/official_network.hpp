#pragma once

#include "network/network.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace varve::test {

inline constexpr std::size_t kOfficialNeurons = 1024;
inline constexpr std::size_t kOfficialLayers = 120;

/// The official network of 1024 neurons, read from its text files by the simplest means, apart from all readers under
/// test.
class OfficialNetwork final : public NetworkSource {
public:
  std::string name() const override { return "official network of 1024 neurons"; }
  std::size_t num_layers() const override { return kOfficialLayers; }

  Layer layer(std::size_t number) const override {
    std::string const path =
        std::string(VARVE_GOLDEN_DIR) + "/neuron1024/n1024-l" + std::to_string(number + 1) + ".tsv";
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot open " + path);
    std::vector<std::vector<NeuronIndex>> lists(kOfficialNeurons);
    NeuronIndex input = 0;
    NeuronIndex output = 0;
    double weight = 0.0;
    while (file >> input >> output >> weight) {
      if (weight != kChallengeWeight) throw std::runtime_error("unexpected weight in " + path);
      lists.at(output - 1).push_back(input - 1);
    }
    return layer_of(lists);
  }

private:
  static Layer layer_of(std::vector<std::vector<NeuronIndex>>& lists) {
    Layer layer;
    layer.bias = {*challenge_bias(kOfficialNeurons)};
    layer.activation = Activation::clipped_relu(kChallengeCap);
    layer.weights.num_rows = kOfficialNeurons;
    layer.weights.num_columns = kOfficialNeurons;
    layer.weights.values = {kChallengeWeight};
    for (auto& list : lists) {
      std::ranges::sort(list);
      layer.weights.column_indices.insert(layer.weights.column_indices.end(), list.begin(), list.end());
      layer.weights.row_pointers.push_back(layer.weights.column_indices.size());
    }
    return layer;
  }
};

} // namespace varve::test
