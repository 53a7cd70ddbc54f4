#pragma once

#include "network/network.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace varve {

/// The neurons of a run of layers by level: level 0 are the inputs of the run, level k + 1 the outputs of its layer k.
class ConeLevels {
public:
  /// The layers must outlive this object.
  explicit ConeLevels(std::span<Layer const> layers);

  std::size_t num_levels() const { return layers_.size() + 1; }
  std::size_t size(std::size_t level) const {
    return level == 0 ? layers_.front().num_inputs() : layers_[level - 1].num_outputs();
  }

  /// The neurons of the level below that one of this level (1 or more) reads.
  std::span<NeuronIndex const> inputs(std::size_t level, std::size_t neuron) const {
    return layers_[level - 1].weights.row_columns(neuron);
  }

  /// The neurons of the level above that read one of this level.
  std::span<NeuronIndex const> readers(std::size_t level, std::size_t neuron) const {
    auto const& pointers = reader_pointers_[level];
    return {readers_[level].data() + pointers[neuron],
            static_cast<std::size_t>(pointers[neuron + 1] - pointers[neuron])};
  }

private:
  std::span<Layer const> layers_;
  std::vector<std::vector<EdgeOffset>> reader_pointers_; ///< [level][neuron]: first of its readers in readers_[level]
  std::vector<std::vector<NeuronIndex>> readers_;
};

} // namespace varve
