#pragma once

#include "core/execution.hpp"
#include "products/add_tile_cuda.hpp"
#include "products/add_tile_gpu.hpp"
#include "products/add_tile_host.hpp"
#include "products/product_blocks.hpp"

namespace varve {

/// Adds the products of a step to the sums of a tile of C by the kernel for this execution space, if `num_lanes` such
/// steps run side by side. Does not fence.
template <class ExecutionSpace, class Scalar>
void add_tile(ExecutionSpace const& space, TileStep<Scalar> const& step, int num_lanes) {
  using Blocks = ProductBlocks<ExecutionSpace, Scalar>;
  int const row_blocks = (step.num_rows + Blocks::rows - 1) / Blocks::rows;
  int const column_blocks = (step.num_columns + Blocks::columns - 1) / Blocks::columns;
  if constexpr (kOnHost<ExecutionSpace>) {
    add_tile_on_host(space, AddTileOnHost<ExecutionSpace, Scalar>{step.a, step.b, step.sums, row_blocks, column_blocks,
                                                                  step.depth, step.is_first});
  } else {
    if constexpr (kHasScratchCopies) {
      if (add_tile_on_cuda(space, step, num_lanes)) return;
    }
    add_tile_on_gpu(space, AddTileOnGpu<ExecutionSpace, Scalar>{step.a, step.b, step.sums, row_blocks, column_blocks,
                                                                step.depth, step.is_first});
  }
}

} // namespace varve
