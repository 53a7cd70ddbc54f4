#include "engine/growth_blocks.hpp"

#include <algorithm>
#include <cstdint>

namespace varve {
namespace {

/// Places of the first block of a layer; small, because most of its places become candidates.
constexpr std::size_t first_places = 16384;

} // namespace

GrowthLimits growth_limits(Network const& network, std::size_t num_leaves, std::size_t scalar_bytes,
                           std::size_t bytes) {
  std::size_t widest = 1;
  std::size_t places = 0;
  for (auto const& layer : network.layers()) {
    widest = std::max(widest, layer.num_inputs());
    places += layer.num_inputs() * layer.num_outputs();
  }
  std::size_t tree_levels = 1;
  while (std::size_t{1} << (tree_levels - 1) < num_leaves) ++tree_levels;
  GrowthLimits limits;
  // at most two numbers per leaf in the tree over leaves, one per level in the tree over micro-batches, and the total
  limits.bytes_per_sum = (2 * num_leaves + tree_levels + 1) * scalar_bytes;
  limits.bytes_per_sum += sizeof(std::uint32_t) + scalar_bytes; // list of candidates
  constexpr std::size_t numbered = std::size_t{1} << 32U;       // places of a block are numbered by 32 bits
  limits.max_sums = std::max(widest, std::min({places, bytes / limits.bytes_per_sum, numbered}));
  return limits;
}

std::vector<std::vector<GrowthBlock>> growth_passes(Network const& network, std::vector<bool> const& growing,
                                                    std::size_t max_sums, bool is_one_micro_batch) {
  std::vector<std::vector<GrowthBlock>> passes(1);
  std::size_t used = 0; // sums of the last pass
  for (std::size_t number = 0; number < network.num_layers(); ++number) {
    auto const& layer = network.layers()[number];
    if (!growing[number]) continue;
    for (std::size_t first = 0; first < layer.num_outputs();) {
      if (is_one_micro_batch) used = 0;
      std::size_t const room = (max_sums - std::min(used, max_sums)) / layer.num_inputs();
      std::size_t const wanted = std::max(first, first_places / layer.num_inputs());
      if (room == 0 && used > 0) {
        passes.emplace_back();
        used = 0;
        continue;
      }
      std::size_t const count = std::clamp<std::size_t>(std::min(room, wanted), 1, layer.num_outputs() - first);
      passes.back().push_back({number, first, count, used});
      used += count * layer.num_inputs();
      first += count;
    }
  }
  return passes;
}

} // namespace varve
