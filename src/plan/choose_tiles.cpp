#include "plan/choose.hpp"

#include "plan/layer_sizes.hpp"

#include <algorithm>

namespace varve {

bool LayerChooser::fits_fused(std::size_t width) const {
  return !request_.is_split && is_within(FusedTile::small, width);
}

/// True if wide tiles take the layer, and the expected samples give each team one.
bool LayerChooser::fits_wide_tiles(std::size_t width) const {
  auto const& tiles = device_.fused_with(FusedTile::wide);
  bool const gives_each_team_one =
      !request_.expected_samples || *request_.expected_samples >= tiles.tiles_at_a_time * tiles.tile_samples;
  return !request_.is_split && is_within(FusedTile::wide, width) && gives_each_team_one;
}

bool LayerChooser::is_within(FusedTile tile, std::size_t width) const {
  auto const& tiles = device_.fused_with(tile);
  return tiles.tile_samples > 0 && width <= tiles.max_neurons;
}

/// True if the device computes all expected samples at the same time, in small tiles.
bool LayerChooser::has_room_in_small_tiles() const {
  auto const& small = device_.fused_with(FusedTile::small);
  return request_.expected_samples && *request_.expected_samples <= small.tiles_at_a_time * small.tile_samples;
}

/// True if blocks would leave threads idle: the layer is narrow, and the expected samples fill tiles for at most half
/// of the teams.
bool LayerChooser::leaves_threads_idle_in_blocks(std::size_t width) const {
  auto const& small = device_.fused_with(FusedTile::small);
  return is_within(FusedTile::large, width) && request_.expected_samples &&
         *request_.expected_samples <= small.tiles_at_a_time / 2 * small.tile_samples;
}

bool LayerChooser::is_stationary(LayerChoice const& choice, std::size_t max_chunks) const {
  std::size_t const bytes = stationary_bytes(choice.shape, device_.stationary_blocks, max_chunks, device_.scalar_bytes,
                                             static_cast<std::size_t>(choice.index_bits) / 8);
  return device_.has_stationary && may_run(KernelName::stationary) && bytes <= device_.max_stationary_bytes;
}

/// The fused tile of a layer: the one with the most samples that the layer fits. If the device computes all samples at
/// the same time in small tiles, these occupy it best.
FusedTile LayerChooser::fused_tile_of(Layer const& layer, EllShape const& shape, EllSize const& size) const {
  std::size_t const width = std::max(layer.num_inputs(), layer.num_outputs());
  if (is_within(FusedTile::small, width) && has_room_in_small_tiles()) return FusedTile::small;
  if (is_within(FusedTile::with_image, width) &&
      image_bytes(layer, shape, size, device_.scalar_bytes) <= device_.max_image_bytes)
    return FusedTile::with_image;
  for (auto const tile : {FusedTile::large, FusedTile::small})
    if (is_within(tile, width)) return tile;
  return FusedTile::wide;
}

bool LayerChooser::takes_few_samples() const {
  return device_.few_tile_samples < device_.direct_tile_samples && request_.expected_samples &&
         *request_.expected_samples <= device_.few_tile_samples;
}

bool LayerChooser::spreads_single_samples() const {
  return spreads_ && request_.expected_samples && *request_.expected_samples <= device_.most_single_spread_samples;
}

std::size_t LayerChooser::tile_samples_of(LayerChoice const& choice) const {
  switch (choice.kernel) {
  case KernelName::fused:
    return device_.fused_with(choice.fused_tile).tile_samples;
  case KernelName::stationary:
    return device_.stationary_tile_samples;
  case KernelName::staged:
    return device_.staged_tile_samples;
  case KernelName::dense:
    return device_.dense_tile_samples;
  case KernelName::spread:
    return spreads_single_samples() ? 1 : device_.spread_tile_samples;
  case KernelName::cones:
    return device_.cone_tile_samples;
  case KernelName::few:
    return request_.expected_samples && *request_.expected_samples <= device_.most_single_samples
               ? 1
               : device_.few_tile_samples;
  default:
    break;
  }
  if (choice.format == FormatName::pattern_blocks) return device_.direct_block_tile_samples;
  return takes_few_samples() ? device_.few_tile_samples : device_.direct_tile_samples;
}

} // namespace varve
