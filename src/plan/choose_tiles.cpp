#include "passes/edge_order.hpp"
#include "plan/choose.hpp"
#include "plan/layer_sizes.hpp"

#include <algorithm>
#include <utility>

namespace varve {

/// True if the device has the small-batch kernel and the network is whole. With a network split across ranks each
/// launch has one layer, so this kernel has no advantage.
bool LayerChooser::has_small_batch_kernel() const { return device_.few_outputs > 0 && !request_.is_split; }

/// True if the small-batch kernel is faster than others for the expected samples: at most two tiles. With twice as
/// many, the tiles of the fused kernel are full.
bool LayerChooser::suits_small_batch_kernel() const {
  return has_small_batch_kernel() && request_.expected_samples &&
         *request_.expected_samples <= 2 * device_.few_tile_samples;
}

/// The layer for the small-batch kernel: in dense blocks if these are faster than its edges, else in sliced ELL.
std::optional<Encoding> LayerChooser::as_small_batch(Layer const& layer) const {
  if (!takes_small_batches_ || !has_short_inputs(layer.num_inputs())) return std::nullopt;
  bool const may_be_dense = may_use(FormatName::dense) && is_ascending(layer.weights);
  if (!may_use(FormatName::sliced_ell)) {
    bool const is_asked_for = may_be_dense && is_last(FormatName::dense);
    return is_asked_for ? std::optional(in_small_batch_blocks(layer, KernelName::few)) : std::nullopt;
  }
  auto sliced = in_small_batch_slices(layer);
  auto const in_slices = static_cast<double>(sliced.choice.num_stored);
  if (may_be_dense) {
    auto dense = in_small_batch_blocks(layer, KernelName::few);
    if (static_cast<double>(dense.choice.num_stored) <= device_.most_stored_in_few_dense * in_slices) return dense;
  }
  // With few samples, launches cost more than padding, so much padding is allowed, especially in narrow layers.
  constexpr double max_padding_small_batch = 2.0;
  constexpr double always_allowed_padding = 16384.0;
  bool const is_cheap =
      in_slices <= max_padding_small_batch * static_cast<double>(layer.num_edges()) + always_allowed_padding;
  if (is_cheap || request_.kernel || is_last(FormatName::sliced_ell)) return sliced;
  return std::nullopt;
}

/// Sliced ELL for the small-batch kernel: a slice holds outputs with about equal numbers of edges.
Encoding LayerChooser::in_small_batch_slices(Layer const& layer) const {
  Encoding encoding;
  encoding.order = order_by_size(layer.weights);
  encoding.choice.format = FormatName::sliced_ell;
  encoding.choice.kernel = KernelName::few;
  encoding.choice.shape = {device_.few_outputs, 1, 1};
  encoding.choice.num_stored =
      num_stored(ell_size(layer.weights, encoding.order, encoding.choice.shape), encoding.choice.shape);
  return encoding;
}

/// A layer for the split-output kernel in dense blocks, if that kernel has tiles of one sample and is faster than with
/// the layer's edges: dense blocks need no indices, but compute with zeros.
std::optional<Encoding> LayerChooser::as_spread_blocks(Layer const& layer) const {
  bool const has_blocks = spreads_single_samples() && device_.most_stored_in_few_dense > 0.0;
  if (!has_blocks || !may_use(FormatName::dense) || !is_ascending(layer.weights)) return std::nullopt;
  auto dense = in_small_batch_blocks(layer, KernelName::spread);
  double const most = device_.most_stored_in_few_dense * static_cast<double>(layer.num_edges());
  bool const is_faster = static_cast<double>(dense.choice.num_stored) <= most;
  return is_faster || is_last(FormatName::dense) ? std::optional(std::move(dense)) : std::nullopt;
}

Encoding LayerChooser::in_small_batch_blocks(Layer const& layer, KernelName kernel) const {
  Encoding encoding;
  encoding.choice.format = FormatName::dense;
  encoding.choice.kernel = kernel;
  encoding.choice.shape = device_.few_dense_shape;
  encoding.choice.num_stored = num_stored_densely(layer.weights, encoding.choice.shape);
  return encoding;
}

bool LayerChooser::fits_fused(std::size_t width) const {
  return !request_.is_split && is_within(FusedTile::small, width);
}

/// True if wide tiles can compute the layer, and the expected samples give each team one tile.
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

/// True if the device computes all expected samples concurrently in small tiles.
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

/// The fused tile of a layer: the one with the most samples that the layer fits. But small tiles if the device computes
/// all samples concurrently in these.
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
