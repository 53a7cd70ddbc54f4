#pragma once

#include "formats/device_layer.hpp"
#include "kernels/training_tile.hpp"

#include <cstdint>
#include <vector>

namespace varve::test {

/// Rows on the device that begin at these edges, with these neurons at their other ends.
template <class ExecutionSpace>
EdgeRows<ExecutionSpace> edge_rows(std::vector<EdgeOffset> const& pointers, std::vector<NeuronIndex> const& neurons) {
  std::vector<std::uint32_t> const narrow(pointers.begin(), pointers.end());
  return {upload<ExecutionSpace>("rows", narrow), upload<ExecutionSpace>("neurons", neurons),
          static_cast<int>(pointers.size() - 1)};
}

} // namespace varve::test
