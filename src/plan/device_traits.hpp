#pragma once

#include <array>
#include <cstddef>

namespace varve {

/// Shape of sliced ELL (formats/sliced_ell.hpp), which pattern blocks and staged blocks use, too.
struct EllShape {
  std::size_t slice_width = 1;   ///< blocks of a slice, whose lists are padded to one length
  std::size_t chunk_size = 1;    ///< lists are padded to multiples of this many edges
  std::size_t block_outputs = 1; ///< outputs of a block, which share one list of inputs

  bool operator==(EllShape const&) const = default;
};

/// Tiles of the fused kernel. Tiles of narrow layers hold more samples (large), so that all threads of a team have
/// work; still narrower layers have their image in scratch beside the tile (with_image; formats/layer_images.hpp).
/// Tiles of wide layers take most of a multiprocessor's scratch (wide).
enum class FusedTile { small, large, with_image, wide };
inline constexpr std::size_t num_fused_tiles = 4;

/// Costs of launches of the fused kernel. Within a launch a tile is computed to the end, although most of its samples
/// may be dead; between two launches the live samples are compacted into full tiles.
struct LaunchCosts {
  double launch = 0.0;      ///< seconds of a launch by itself
  double weight = 0.0;      ///< seconds per stored weight and sample while the device is full
  double moved_value = 0.0; ///< seconds per activation that compaction moves
  double full = 0.0;        ///< samples that fill the device; fewer samples take as long
};

/// What a backend tells the plan about a device: numbers only, so that a plan for any device can be made and tested on
/// a host without that device. Each backend derives them from its tuning (kernels/device_traits.hpp).
struct DeviceTraits {
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
  EllShape wide_blocks;  ///< pattern blocks for layers that the fused kernel does not take
  EllShape staged_shape; ///< sliced ELL within staged blocks

  std::array<Fused, num_fused_tiles> fused;       ///< by FusedTile
  std::size_t max_image_bytes = 0;                ///< largest image of a layer beside a tile with_image
  double most_stored_in_fused_blocks = 0.0;       ///< stored weights per edge up to which pattern blocks are faster
  std::size_t stationary_layers_before_fused = 0; ///< first layers that the stationary kernel takes even if they fuse

  std::size_t direct_tile_samples = 0;       ///< samples of a tile of the direct kernel on sliced ELL and CSR
  std::size_t direct_block_tile_samples = 0; ///< samples of a tile of the direct kernel on pattern blocks
  std::size_t few_tile_samples = 0;          ///< samples of its smaller tile; no such tile if equal to the first number

  bool has_stationary = false;
  std::size_t stationary_tile_samples = 0;
  std::size_t stationary_blocks = 1;    ///< blocks that a team holds
  std::size_t max_stationary_bytes = 0; ///< team scratch

  std::size_t staged_tile_samples = 0;
  std::size_t max_staged_inputs = 0;
  std::size_t max_staged_outputs = 0;
  double min_staged_uses = 0.0; ///< edges that an input brought into scratch must serve on average

  EllShape dense_shape;              ///< blocks of outputs of dense layers, and chunks to which their inputs are padded
  double most_stored_in_dense = 0.0; ///< stored weights per edge up to which dense layers are faster than sliced ELL
  double dense_per_block_weight = 0.0; ///< stored weights for each one in pattern blocks up to which they are faster
  std::size_t narrowest_dense = 0;     ///< neurons of the wider side from which on dense layers are chosen
  std::size_t fewest_dense_edges = 0;  ///< edges of an output, on average, from which on they are chosen
  bool has_dense_kernel = false;       ///< else the fused and the direct kernel take dense layers
  std::size_t dense_tile_samples = 0;
  std::size_t fewest_dense_tasks = 0; ///< blocks of tiles, one for each team, from which on that kernel is chosen

  bool has_curves_in_rows_only = false; ///< only the direct kernel on CSR computes curves, as sigmoid

  std::size_t few_samples = 0; ///< with fewer samples, layers are launched one by one instead of fused
  bool prefers_spread = false; ///< few samples go to the split-output kernel, else to the direct kernel
  std::size_t spread_tile_samples = 0;
  std::size_t most_single_spread_samples = 0; ///< samples up to which that kernel has tiles of one
  std::size_t max_spread_bytes = 0;           ///< team scratch

  std::size_t few_outputs = 0; ///< outputs of a slice of the small-batch kernel; 0: the device has no such kernel
  std::size_t most_single_samples = 0; ///< samples up to which that kernel has tiles of one, else few_tile_samples
  EllShape few_dense_shape; ///< blocks of dense layers for that kernel, and for the spread one with tiles of one
  double most_stored_in_few_dense =
      0.0; ///< weights of these blocks, for each in sliced ELL, up to which layers are stored in them

  std::size_t max_counted_outputs = 0; ///< outputs of a first layer that counts or adds up entries of samples

  std::size_t cone_tile_samples = 0;
  std::size_t cone_slots = 0;
  std::size_t cone_group_size = 1;
  std::size_t max_cone_rounds = 0;
  double cone_other_cost = 0.0; ///< cost of an output by another kernel, in the units of ConeRun::cost()

  Fused const& fused_with(FusedTile tile) const { return fused[static_cast<std::size_t>(tile)]; }
};

} // namespace varve
