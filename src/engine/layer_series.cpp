#include "engine/layer_series.hpp"

namespace varve {

/// With fewer leaves than threads some threads are idle. Kernels of single layers divide a leaf's rows among all
/// threads, but need a launch for each layer.
bool SeriesRule::suits(SeriesLayer const& layer, std::size_t num_leaves) const {
  std::size_t const rounds = (num_leaves + processors_ - 1) / processors_;
  std::size_t const idle = rounds * processors_ - num_leaves;
  return layer.num_inputs == layer.num_outputs && layer.num_sums() <= max_sums_ / 2 &&
         layer.num_edges * idle <= launch_edges_ * processors_;
}

std::size_t SeriesRule::forward_end(std::size_t first, std::size_t last, std::size_t num_leaves) const {
  std::size_t end = first;
  for (std::size_t sums = 0; end < last; ++end) {
    auto const& layer = layers_[end];
    sums += layer.num_sums();
    if (layer.has_dense_forward || layer.num_inputs != layers_[first].num_inputs || sums > max_sums_ ||
        !suits(layer, num_leaves))
      break;
  }
  return end - first < 2 ? first : end;
}

std::size_t SeriesRule::backward_begin(std::size_t first, std::size_t last, std::size_t num_leaves) const {
  std::size_t begin = last + 1;
  for (std::size_t sums = 0; begin > first; --begin) {
    auto const& layer = layers_[begin - 1];
    sums += layer.num_sums();
    bool const is_beside =
        begin > last || (layer.first_weight_sum + layer.num_edges == layers_[begin].first_weight_sum &&
                         layer.first_bias_sum + layer.num_outputs == layers_[begin].first_bias_sum);
    if (!is_beside || layer.has_dense_backward || layer.num_inputs != layers_[last].num_inputs || sums > max_sums_ ||
        !suits(layer, num_leaves))
      break;
  }
  return last + 1 - begin < 2 ? last + 1 : begin;
}

std::size_t SeriesRule::max_sums() const {
  std::size_t const busy = processors_; // with this many leaves no thread is idle
  for (std::size_t first = 0; first < layers_.size(); ++first)
    if (forward_end(first, layers_.size(), busy) > first || backward_begin(0, first, busy) <= first) return max_sums_;
  return 0;
}

std::size_t SeriesRule::num_layers_in_series(std::size_t num_leaves) const {
  std::size_t count = 0;
  for (std::size_t first = 0; first < layers_.size();) {
    std::size_t const end = forward_end(first, layers_.size(), num_leaves);
    count += end - first;
    first = end == first ? first + 1 : end;
  }
  return count;
}

} // namespace varve
