#include "engine/layer_strips.hpp"

#include <algorithm>

namespace varve {

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

} // namespace varve
