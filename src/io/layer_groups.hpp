#pragma once

#include "core/host_threads.hpp"
#include "network/network.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace varve {

/// Calls visit(number, layer) for each layer in order, on the calling thread. Layers are read in groups, one layer per
/// host thread, so that memory holds one group at a time.
template <class Visit>
void for_each_layer(NetworkSource const& network, Visit const& visit) {
  auto const num_layers = network.num_layers();
  std::vector<Layer> group(std::min(num_layers, num_host_threads()));
  for (std::size_t first = 0; first < num_layers; first += group.size()) {
    auto const count = std::min(group.size(), num_layers - first);
    for_each_on_host_threads(count, [&](std::size_t member) { group[member] = network.layer(first + member); });
    for (std::size_t member = 0; member < count; ++member) visit(first + member, std::exchange(group[member], {}));
  }
}

} // namespace varve
