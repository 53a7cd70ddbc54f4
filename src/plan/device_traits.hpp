#pragma once

#include <array>
#include <cstddef>

namespace varve {

/// Shape of sliced ELL (formats/sliced_ell.hpp), also used by pattern blocks and staged blocks.
struct EllShape {
  std::size_t slice_width = 1;   ///< blocks of a slice, whose lists are padded to equal length
  std::size_t chunk_size = 1;    ///< lists are padded to multiples of this many edges
  std::size_t block_outputs = 1; ///< outputs of a block, which share one list of inputs

  bool operator==(EllShape const&) const = default;
};

/// Tiles of the fused kernel. Tiles of narrow layers hold more samples (large), so that all threads of a team have
/// work; still narrower layers also have their image in scratch (with_image; formats/layer_images.hpp). Tiles of wide
/// layers use most of a multiprocessor's scratch (wide).
enum class FusedTile { small, large, with_image, wide };
inline constexpr std::size_t num_fused_tiles = 4;

/// Costs of launches of the fused kernel. Within a launch a tile is computed to the end, even if most of its samples
/// are dead; between two launches the live samples are compacted into full tiles.
struct LaunchCosts {
  double launch = 0.0;      ///< seconds of a launch without its work
  double weight = 0.0;      ///< seconds per stored weight and sample while the device is fully occupied
  double moved_value = 0.0; ///< seconds per activation that compaction moves
  double full = 0.0;        ///< samples that occupy the device fully; fewer samples take as long
};

/// Limits by which the plan chooses formats and kernels. Each backend measures its own (kernels/tuning).
struct PlanLimits {
  std::size_t range_bytes = 0; ///< lines of inputs that stay in the L1 while all outputs read them; 0: no ranges
  double fewest_range_edges =
      0.0; ///< average edges of an output to each range from which on layers are cut into ranges

  std::size_t max_image_bytes = 0;                ///< largest image of a layer in scratch with a tile
  double max_stored_in_fused_blocks = 0.0;        ///< stored weights per edge up to which pattern blocks are faster
  std::size_t stationary_layers_before_fused = 0; ///< first layers that use the stationary kernel even if they could be
                                                  ///< fused
  std::size_t max_stationary_bytes = 0;           ///< team scratch

  std::size_t max_staged_inputs = 0;
  std::size_t max_staged_outputs = 0;
  double min_staged_uses = 0.0; ///< least edges per staged input, on average

  double max_stored_in_dense = 0.0;    ///< stored weights per edge up to which dense layers are faster than sliced ELL
  double dense_per_block_weight = 0.0; ///< limit of stored weights per stored weight of pattern blocks
  std::size_t narrowest_dense = 0;     ///< neurons of the wider side from which on dense layers are chosen
  std::size_t fewest_dense_edges = 0;  ///< average edges per output from which on they are chosen

  bool has_curves_in_rows_only = false; ///< only the direct kernel on CSR computes curves such as sigmoid

  bool prefers_spread = false;        ///< few samples use the split-output kernel, else the direct kernel
  std::size_t max_spread_bytes = 0;   ///< team scratch
  std::size_t max_single_samples = 0; ///< samples up to which the small-batch kernel has tiles of one
  double max_stored_in_few_dense =
      0.0; ///< weights of these blocks, for each in sliced ELL, up to which layers are stored in them

  std::size_t max_counted_outputs = 0; ///< most outputs of a first layer that counts or adds up entries of samples
  double cone_other_cost = 0.0;        ///< cost of an output by another kernel, in the units of ConeRun::cost()
};

/// Properties of a device for the plan: numbers only, so that a plan for any device can be made and tested on a host
/// without it. Each backend derives them from its tuning (kernels/device_traits.hpp).
struct DeviceTraits : PlanLimits {
  /// One kind of tiles of the fused kernel.
  struct Fused {
    std::size_t max_neurons = 0; ///< width of the widest layer; 0: the device has no such tiles
    std::size_t tile_samples = 0;
    std::size_t tiles_at_a_time = 0; ///< tiles that the device computes at the same time
    LaunchCosts single_costs;        ///< costs with sliced ELL
    LaunchCosts block_costs;         ///< costs with pattern blocks
  };

  std::size_t scalar_bytes = sizeof(float);

  EllShape single_shape; ///< sliced ELL of single outputs
  EllShape fused_blocks; ///< pattern blocks for the fused kernel
  EllShape wide_blocks;  ///< pattern blocks for layers that the fused kernel cannot compute
  EllShape staged_shape; ///< sliced ELL within staged blocks

  std::array<Fused, num_fused_tiles> fused; ///< [FusedTile]

  std::size_t direct_tile_samples = 0;       ///< samples of a tile of the direct kernel on sliced ELL and CSR
  std::size_t direct_block_tile_samples = 0; ///< samples of a tile of the direct kernel on pattern blocks
  std::size_t few_tile_samples = 0;          ///< samples of its smaller tile; none if equal to direct_tile_samples

  bool has_stationary = false;
  std::size_t stationary_tile_samples = 0;
  std::size_t stationary_blocks = 1; ///< blocks that a team holds

  std::size_t staged_tile_samples = 0;

  EllShape dense_shape;          ///< blocks of outputs of dense layers, and chunks to which their inputs are padded
  bool has_dense_kernel = false; ///< false: the fused and the direct kernel compute dense layers
  std::size_t dense_tile_samples = 0;
  std::size_t fewest_dense_tasks = 0; ///< blocks of tiles, one per team, from which on that kernel is chosen

  std::size_t few_samples = 0; ///< with fewer samples, layers are launched one by one instead of fused
  std::size_t spread_tile_samples = 0;
  std::size_t max_single_spread_samples = 0; ///< up to this number of samples, that kernel has tiles of one

  std::size_t few_outputs = 0; ///< outputs of a slice of the small-batch kernel; 0: the device has no such kernel
  EllShape few_dense_shape;    ///< blocks of dense layers for that kernel, and for the spread one with tiles of one

  std::size_t cone_tile_samples = 0;
  std::size_t cone_slots = 0;
  std::size_t cone_group_size = 1;
  std::size_t max_cone_rounds = 0;

  Fused const& fused_with(FusedTile tile) const { return fused[static_cast<std::size_t>(tile)]; }
};

} // namespace varve
