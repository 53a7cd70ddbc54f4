#pragma once

#include "engine/training_kernels.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace varve {

/// The activations of all layers of a micro-batch: panel 0 holds the samples, panel l the outputs of the l-th layer.
/// Every `keep_every`-th panel is kept. The panels between two kept ones form a stretch. All stretches share the same
/// memory, so only the stretch written last is valid; others must be recomputed from the kept panel before them.
template <class Scalar>
class TrainingTrace {
public:
  using Panel = LeafPanel<Scalar>;

  TrainingTrace(DeviceMemory const& memory, std::vector<std::size_t> const& widths, std::size_t num_leaves,
                std::size_t keep_every)
      : keep_every_(keep_every), between_(keep_every - 1) {
    std::vector<std::size_t> shared(keep_every - 1, 0);
    for (std::size_t number = 0; number < widths.size(); ++number) {
      if (number % keep_every == 0) {
        kept_.push_back(new_panel(memory, widths[number] * num_leaves));
      } else {
        auto& width = shared[number % keep_every - 1];
        width = std::max(width, widths[number]);
      }
    }
    for (std::size_t i = 0; i < shared.size(); ++i) between_[i] = new_panel(memory, shared[i] * num_leaves);
  }

  Panel const& panel(std::size_t number) const {
    return number % keep_every_ == 0 ? kept_[number / keep_every_] : between_[number % keep_every_ - 1];
  }

  /// Call after panel `number` has been written.
  void written(std::size_t number) {
    if (number % keep_every_ != 0) held_stretch_ = number / keep_every_;
  }
  bool is_there(std::size_t number) const { return number % keep_every_ == 0 || number / keep_every_ == held_stretch_; }
  /// The last kept panel at or before this one.
  std::size_t kept_before(std::size_t number) const { return number / keep_every_ * keep_every_; }
  /// The first panel from which on all panels up to this one are valid, if this one is.
  std::size_t first_there(std::size_t number) const { return keep_every_ == 1 ? 0 : kept_before(number); }

private:
  static Panel new_panel(DeviceMemory const& memory, std::size_t lines) {
    return new_numbers<LeafLine<Scalar>>(memory, "varve::activations", lines);
  }

  std::size_t keep_every_;
  std::size_t held_stretch_ = 0;
  std::vector<Panel> kept_, between_;
};

} // namespace varve
