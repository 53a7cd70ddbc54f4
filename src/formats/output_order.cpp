#include "formats/output_order.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace varve {
namespace {

std::uint64_t hash_of(std::span<NeuronIndex const> inputs) {
  std::uint64_t hash = 0xcbf29ce484222325U; // FNV-1a, a word at a time
  for (NeuronIndex const input : inputs) {
    hash = (hash ^ input) * 0x100000001b3U;
    hash ^= hash >> 29U;
  }
  return hash;
}

/// Outputs by input list, in order of first appearance.
std::vector<std::vector<NeuronIndex>> group(SparseMatrix const& weights) {
  std::vector<std::vector<NeuronIndex>> groups;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> groups_of_hash;
  for (std::size_t output = 0; output < weights.num_rows; ++output) {
    auto const inputs = weights.row_columns(output);
    auto& candidates = groups_of_hash[hash_of(inputs)];
    auto const found = std::ranges::find_if(
        candidates, [&](std::size_t g) { return std::ranges::equal(weights.row_columns(groups[g].front()), inputs); });
    if (found != candidates.end()) {
      groups[*found].push_back(static_cast<NeuronIndex>(output));
    } else {
      candidates.push_back(groups.size());
      groups.push_back({static_cast<NeuronIndex>(output)});
    }
  }
  return groups;
}

} // namespace

std::vector<NeuronIndex> order_by_input_list(SparseMatrix const& weights, std::size_t block_outputs) {
  auto const groups = group(weights);
  if (groups.size() == weights.num_rows) return {};
  std::vector<NeuronIndex> order;
  order.reserve(weights.num_rows);
  auto const whole = [&](auto const& outputs) { return outputs.size() / block_outputs * block_outputs; };
  for (auto const& outputs : groups) {
    order.insert(order.end(), outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(whole(outputs)));
  }
  for (auto const& outputs : groups) {
    order.insert(order.end(), outputs.begin() + static_cast<std::ptrdiff_t>(whole(outputs)), outputs.end());
  }
  if (std::ranges::is_sorted(order)) return {};
  return order;
}

} // namespace varve
