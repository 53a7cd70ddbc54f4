#include "engine/trained_layers.hpp"

#include <algorithm>

namespace varve {

std::vector<std::size_t> widths_between(std::vector<std::size_t> const& widths, std::size_t keep_every) {
  std::vector<std::size_t> between(keep_every - 1, 0);
  for (std::size_t number = 0; number < widths.size(); ++number) {
    if (number % keep_every == 0) continue;
    auto& width = between[number % keep_every - 1];
    width = std::max(width, widths[number]);
  }
  return between;
}

std::vector<TrainedShape> shapes_of(Network const& network, std::vector<TrainedFormat> const& formats) {
  std::vector<TrainedShape> shapes;
  std::size_t first_weight_sum = 0;
  std::size_t first_bias_sum = 0;
  for (auto const& layer : network.layers()) {
    shapes.push_back({layer.num_inputs(), layer.num_outputs(), layer.num_edges(), first_weight_sum, first_bias_sum,
                      formats[shapes.size()]});
    first_weight_sum += layer.num_edges();
    first_bias_sum += layer.num_outputs();
  }
  return shapes;
}

std::vector<LayerStrip> cut_rows(std::span<std::uint32_t const> row_pointers, std::size_t dense_width, std::size_t size,
                                 LayerUse::Direction direction) {
  std::vector<LayerStrip> strips(1);
  std::size_t used = 0; // weights and rows of the last strip
  for (std::size_t row = 0; row + 1 < row_pointers.size(); ++row) {
    std::size_t const edges = row_pointers[row + 1] - row_pointers[row];
    std::size_t const cost = (dense_width > 0 ? dense_width : edges) + 1;
    if (strips.back().num_rows > 0 && used + cost > size) {
      strips.push_back({row, 0, row_pointers[row], 0});
      used = 0;
    }
    used += cost;
    ++strips.back().num_rows;
    strips.back().num_edges += edges;
  }
  if (direction == LayerUse::Direction::backward) std::ranges::reverse(strips);
  for (auto& strip : strips) strip.is_first = &strip == &strips.front();
  return strips;
}

/// With fewer leaves than threads some threads are idle. Kernels of single layers divide a leaf's rows among all
/// threads, but need a launch for each layer.
bool SeriesRule::suits(TrainedShape const& layer, std::size_t num_leaves) const {
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
    if (layer.format.has_dense_forward || layer.num_inputs != layers_[first].num_inputs || sums > max_sums_ ||
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
    bool const is_beside = begin > last || layer.is_before(layers_[begin]);
    if (!is_beside || layer.format.has_dense_backward || layer.num_inputs != layers_[last].num_inputs ||
        sums > max_sums_ || !suits(layer, num_leaves))
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
