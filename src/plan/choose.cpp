#include "plan/choose.hpp"

#include "passes/edge_order.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace varve {
namespace {

std::size_t width_of(Layer const& layer) { return std::max(layer.num_inputs(), layer.num_outputs()); }
bool is_short(Layer const& layer) { return has_short_inputs(layer.num_inputs()); }

EdgeOffset count_stage_inputs(SparseMatrix const& matrix, OutputStages const& stages) {
  EdgeOffset count = 0;
  std::vector<std::size_t> last_stage(matrix.num_columns, 0); // [input]: 1 + the last stage that listed it, or 0
  for (std::size_t stage = 0; stage + 1 < stages.pointers.size(); ++stage) {
    for (std::size_t position = stages.pointers[stage]; position < stages.pointers[stage + 1]; ++position) {
      for (NeuronIndex const input : matrix.row_columns(stages.order[position]))
        count += std::exchange(last_stage[input], stage + 1) == stage + 1 ? 0 : 1;
    }
  }
  return count;
}

/// True if at most `factor` times as many weights are stored as there are edges, or slightly more in small layers.
bool is_cheap(EdgeOffset stored, EdgeOffset edges, double factor) {
  constexpr double always_allowed_padding = 512.0;
  return static_cast<double>(stored) <= static_cast<double>(edges) * factor + always_allowed_padding;
}

/// An encoding of a layer whose other properties are not known yet.
Encoding encoding_in(FormatName format, KernelName kernel, EllShape const& shape, EdgeOffset stored,
                     std::vector<NeuronIndex> order = {}) {
  return {{.format = format, .kernel = kernel, .shape = shape, .num_stored = stored}, std::move(order), {}};
}

constexpr double max_padding_ell = 1.25;
/// Stored weights per edge up to which dense blocks, or pattern blocks, are faster than sliced ELL in ranges of inputs.
constexpr double max_dense_beside_ranges = 1.7;
constexpr double max_blocks_beside_ranges = 1.25;
constexpr double max_padding_blocks = 2.0; ///< justified by the cheaper fma of blocks, or by a single format for all
                                           ///< layers

/// Samples that take as long by tiles as it takes to make a copy of the layer. A copy takes 30 ns an edge on one core.
std::size_t samples_worth_a_copy(Layer const& layer, FormatName format, DeviceTraits const& device) {
  constexpr double copied_edge = 3e-8;
  auto const& costs = device.fused_with(FusedTile::small).single_costs;
  auto const num_edges = static_cast<double>(layer.num_edges());
  double const weight = format == FormatName::dense ? costs.weight / device.max_stored_in_dense : costs.weight;
  double const sample = num_edges * weight + static_cast<double>(layer.num_inputs()) * costs.moved_value;
  return static_cast<std::size_t>(std::ceil(copied_edge * num_edges / sample));
}

} // namespace

std::size_t LayerChoice::encoded_bytes(std::size_t scalar_bytes) const {
  if (format == FormatName::csr || format == FormatName::cones) return 0;
  std::size_t const num_indices = format == FormatName::dense ? 0 : num_stored / shape.block_outputs;
  return num_stored * scalar_bytes + num_indices * static_cast<std::size_t>(index_bits) / 8 +
         num_staged_inputs * sizeof(NeuronIndex);
}

struct LayerChooser::Rules {
  DeviceTraits device;
  PlanRequest request;
  bool has_few_samples;     ///< no fused kernel: too few samples for it, or the split-output kernel is requested
  bool takes_small_batches; ///< the small-batch kernel computes all layers that it can
  bool spreads;             ///< the split-output kernel, instead of the fused one, computes all layers that it can

  Rules(DeviceTraits const& its_device, PlanRequest its_request)
      : device(its_device),
        request(std::move(its_request)),
        has_few_samples(request.kernel
                            ? *request.kernel == KernelName::split_output || *request.kernel == KernelName::small_batch
                            : request.expected_samples && (*request.expected_samples < device.few_samples ||
                                                           takes_few_samples() || suits_small_batch_kernel())),
        takes_small_batches(request.kernel ? *request.kernel == KernelName::small_batch && has_small_batch_kernel()
                                           : suits_small_batch_kernel()),
        spreads(has_few_samples &&
                (request.kernel ? *request.kernel == KernelName::split_output : device.prefers_spread)) {}

  bool may_run(KernelName kernel) const { return request.kernel.value_or(kernel) == kernel; }

  /// True if the fused kernel runs the layer if it gets a format for that kernel.
  bool fuses(Layer const& layer) const { return may_fuse(layer) && fits_fused(width_of(layer)); }

  /// True if the fused kernel runs the layer in wide tiles if it gets sliced ELL.
  bool fuses_wide(Layer const& layer) const { return may_fuse(layer) && fits_wide_tiles(width_of(layer)); }

  bool may_fuse(Layer const& layer) const { return is_short(layer) && may_run(KernelName::fused) && !has_few_samples; }

  bool has_ranges(Layer const& layer) const { return range_inputs_of(layer, device.direct_tile_samples) > 0; }

  /// True if the layer has a curve, which other kernels do not compute.
  bool needs_rows(Layer const& layer) const {
    return device.has_curves_in_rows_only && layer.activation.curve() != Curve::none;
  }

  bool can_be_spread(Layer const& layer) const {
    std::size_t const bytes = layer.num_inputs() * device.spread_tile_samples * device.scalar_bytes;
    return spreads && is_short(layer) && bytes <= device.max_spread_bytes;
  }

  std::optional<Encoding> as_spread(Layer const& layer) const {
    if (!can_be_spread(layer) || !may_use(FormatName::sliced_ell)) return std::nullopt;
    auto encoding = in_singles(layer, KernelName::split_output, order_of_singles(layer.weights));
    // With few samples, launches cost more than padding, so all layers should have one format.
    if (is_last(FormatName::sliced_ell) || is_cheap(encoding.choice.num_stored, layer.num_edges(), max_padding_blocks))
      return encoding;
    return std::nullopt;
  }

  std::optional<Encoding> single_outputs_if_underfilled(Layer const& layer) const {
    if (!fuses(layer) || !leaves_threads_idle_in_blocks(width_of(layer)) || !may_use(FormatName::sliced_ell))
      return std::nullopt;
    auto encoding = in_singles(layer, KernelName::fused, order_of_singles(layer.weights));
    if (is_cheap(encoding.choice.num_stored, layer.num_edges(), max_padding_ell)) return encoding;
    return std::nullopt;
  }

  std::optional<Encoding> as_dense(Layer const& layer) const {
    SparseMatrix const& matrix = layer.weights;
    bool const unlimited_cost = is_last(FormatName::dense) || request.kernel == KernelName::dense;
    EdgeOffset const stored = num_stored_densely(matrix, device.dense_shape);
    EllShape const& blocks = fuses(layer) ? device.fused_blocks : device.wide_blocks;
    bool const is_wanted =
        unlimited_cost || (may_gain_from_dense(matrix) && gains_from_dense(matrix, stored, blocks, device));
    if (!may_use(FormatName::dense) || !is_wanted || !is_ascending(matrix)) return std::nullopt;
    if (!unlimited_cost && has_ranges(layer) && !is_cheap(stored, layer.num_edges(), max_dense_beside_ranges))
      return std::nullopt;
    auto const kernel = device.has_dense_kernel ? KernelName::dense
                        : fuses(layer)          ? KernelName::fused
                                                : KernelName::direct;
    return encoding_in(FormatName::dense, kernel, device.dense_shape, stored);
  }

  /// True unless there are too few samples to occupy the kernel of dense layers, or that kernel is excluded.
  bool may_gain_from_dense(SparseMatrix const& matrix) const {
    if (has_few_samples || !device.has_dense_kernel) return !has_few_samples;
    std::size_t const blocks = count_blocks(matrix, device.dense_shape.block_outputs);
    bool const fills_device = !request.expected_samples || *request.expected_samples * blocks >=
                                                               device.fewest_dense_tasks * device.dense_tile_samples;
    return fills_device && !request.kernel;
  }

  std::optional<Encoding> as_blocks(Layer const& layer, std::size_t number) const {
    bool const is_staged = request.kernel == KernelName::staged;
    if (!may_use(FormatName::pattern_blocks) || (is_staged && !is_last(FormatName::pattern_blocks)))
      return std::nullopt;
    bool const is_early = number < device.stationary_layers_before_fused && !request.kernel &&
                          !is_within(FusedTile::with_image, width_of(layer));
    if (fuses(layer) && is_early) { // stationary kernel if the weights fit its scratch, else fused kernel
      auto encoding = as_blocks_of(layer, device.wide_blocks, KernelName::stationary);
      if (encoding && encoding->choice.kernel == KernelName::stationary) return encoding;
    }
    return fuses(layer) ? as_blocks_of(layer, device.fused_blocks, KernelName::fused)
                        : as_blocks_of(layer, device.wide_blocks, KernelName::stationary);
  }

  std::optional<Encoding> as_blocks_of(Layer const& layer, EllShape const& shape, KernelName kernel) const {
    constexpr EdgeOffset many_edges = 64; // per output; with fewer, the time does not depend mainly on edges
    SparseMatrix const& matrix = layer.weights;
    bool const has_long_lists = layer.num_edges() >= many_edges * matrix.num_rows;
    double const most = is_within(FusedTile::with_image, width_of(layer)) ? max_padding_ell
                        : has_ranges(layer)                               ? max_blocks_beside_ranges
                        : fuses(layer) && has_long_lists                  ? device.max_stored_in_fused_blocks
                                                                          : max_padding_blocks;
    // a block whose outputs share hardly any inputs stores nearly block_outputs weights per edge
    double const max_shared = 0.75 * static_cast<double>(shape.block_outputs);
    auto order = order_by_input_list(matrix, shape.block_outputs);
    auto const size = ell_size(matrix, order, shape);
    if (!is_last(FormatName::pattern_blocks) &&
        !is_cheap(num_stored(size, shape), layer.num_edges(), std::min(most, max_shared)))
      return std::nullopt;
    if (kernel != KernelName::fused && device.has_stationary) // the same blocks in another order
      order = chain_blocks(matrix, order, shape.block_outputs, device.stationary_blocks);
    return in_ell(layer, FormatName::pattern_blocks, shape, std::move(order), size, kernel);
  }

  std::optional<Encoding> as_stages(Layer const& layer) const {
    bool const unlimited_cost = is_last(FormatName::staged_blocks) || request.kernel == KernelName::staged;
    // On hosts a stage is the work of one thread, and few samples have few stages.
    bool const keeps_busy = device.prefers_spread ? !takes_few_samples() : !has_few_samples;
    bool const may_gain = !fuses(layer) && !request.kernel && keeps_busy;
    if (!may_use(FormatName::staged_blocks) || !(unlimited_cost || may_gain)) return std::nullopt;
    EllShape const& shape = device.staged_shape;
    auto stages = find_stages(layer.weights, shape.slice_width * shape.block_outputs, device.max_staged_inputs,
                              device.max_staged_outputs, unlimited_cost ? 0.0 : device.min_staged_uses);
    if (!stages) return std::nullopt;
    auto encoding = encoding_in(FormatName::staged_blocks, KernelName::staged, shape,
                                num_stored(ell_size(layer.weights, stages->order, shape), shape));
    encoding.choice.num_staged_inputs = count_stage_inputs(layer.weights, *stages);
    encoding.stages = std::move(stages);
    return encoding;
  }

  std::optional<Encoding> as_singles(Layer const& layer) const {
    // Layers that cannot have dense or staged blocks get sliced ELL, even if only those formats are allowed.
    if (!may_use(FormatName::sliced_ell) && !is_last(FormatName::staged_blocks) && !is_last(FormatName::dense))
      return std::nullopt;
    auto encoding = in_singles(layer,
                               fuses(layer)           ? KernelName::fused
                               : can_be_spread(layer) ? KernelName::split_output
                                                      : KernelName::direct,
                               order_of_singles(layer.weights));
    bool const is_cheap_enough = fuses(layer)
                                     ? is_cheap_to_fuse(encoding.choice, layer)
                                     : is_cheap(encoding.choice.num_stored, layer.num_edges(), max_padding_ell);
    if (is_last(FormatName::sliced_ell) || is_cheap_enough) return encoding;
    return std::nullopt;
  }

  /// A fused layer may have a padding chunk per output, because a layer in CSR would end the launch.
  bool is_cheap_to_fuse(LayerChoice const& choice, Layer const& layer) const {
    EdgeOffset const in_chunks = layer.weights.num_rows * device.single_shape.chunk_size;
    return is_cheap(choice.num_stored - std::min(choice.num_stored, in_chunks), layer.num_edges(), max_padding_ell);
  }

  std::optional<Encoding> in_wide_tiles(Layer const& layer) const {
    if (!fuses_wide(layer) || !may_use(FormatName::sliced_ell)) return std::nullopt;
    auto encoding = in_singles(layer, KernelName::fused, order_in_wide_tiles(layer.weights));
    return is_cheap_to_fuse(encoding.choice, layer) ? std::optional(std::move(encoding)) : std::nullopt;
  }

  Encoding as_rows(Layer const& layer) const {
    return encoding_in(FormatName::csr, KernelName::direct, {}, layer.num_edges());
  }

  Encoding in_singles(Layer const& layer, KernelName kernel, std::vector<NeuronIndex> order) const {
    auto const size = ell_size(layer.weights, order, device.single_shape);
    return in_ell(layer, FormatName::sliced_ell, device.single_shape, std::move(order), size, kernel);
  }

  /// The encoding of a layer in sliced ELL or pattern blocks for this kernel; for the direct kernel if the stationary
  /// one cannot compute the layer.
  Encoding in_ell(Layer const& layer, FormatName format, EllShape const& shape, std::vector<NeuronIndex> order,
                  EllSize const& size, KernelName kernel) const {
    auto encoding = encoding_in(format, kernel, shape, num_stored(size, shape), std::move(order));
    LayerChoice& choice = encoding.choice;
    choice.index_bits = index_bits_of(format, layer.num_inputs());
    if (kernel == KernelName::stationary && !is_stationary(choice, size.max_chunks)) choice.kernel = KernelName::direct;
    if (kernel == KernelName::fused) choice.fused_tile = fused_tile_of(layer, shape, size);
    return encoding;
  }

  bool may_use(FormatName name) const {
    return request.formats.empty() || std::ranges::find(request.formats, name) != request.formats.end();
  }

  /// True if formats are restricted and this one is the last allowed one in the order of preference.
  bool is_last(FormatName name) const {
    return !request.formats.empty() && may_use(name) && *std::ranges::max_element(request.formats) == name;
  }

  /// True if the device has the small-batch kernel and the network is whole. With a network split across ranks each
  /// launch has one layer, so this kernel has no advantage.
  bool has_small_batch_kernel() const { return device.few_outputs > 0 && !request.is_split; }

  /// True if the small-batch kernel is faster than others for the expected samples: at most two tiles. With twice as
  /// many, the tiles of the fused kernel are full.
  bool suits_small_batch_kernel() const {
    return has_small_batch_kernel() && request.expected_samples &&
           *request.expected_samples <= 2 * device.few_tile_samples;
  }

  /// The layer for the small-batch kernel: in dense blocks if these are faster than its edges, else in sliced ELL.
  std::optional<Encoding> as_small_batch(Layer const& layer) const {
    if (!takes_small_batches || !has_short_inputs(layer.num_inputs())) return std::nullopt;
    bool const may_be_dense = may_use(FormatName::dense) && is_ascending(layer.weights);
    if (!may_use(FormatName::sliced_ell)) {
      bool const is_asked_for = may_be_dense && is_last(FormatName::dense);
      return is_asked_for ? std::optional(in_small_batch_blocks(layer, KernelName::small_batch)) : std::nullopt;
    }
    auto sliced = in_small_batch_slices(layer);
    auto const in_slices = static_cast<double>(sliced.choice.num_stored);
    if (may_be_dense) {
      auto dense = in_small_batch_blocks(layer, KernelName::small_batch);
      if (static_cast<double>(dense.choice.num_stored) <= device.max_stored_in_few_dense * in_slices) return dense;
    }
    // With few samples, launches cost more than padding, so much padding is allowed, especially in narrow layers.
    constexpr double max_padding_small_batch = 2.0;
    constexpr double always_allowed_padding = 16384.0;
    bool const is_cheap_enough =
        in_slices <= max_padding_small_batch * static_cast<double>(layer.num_edges()) + always_allowed_padding;
    if (is_cheap_enough || request.kernel || is_last(FormatName::sliced_ell)) return sliced;
    return std::nullopt;
  }

  /// Sliced ELL for the small-batch kernel: a slice holds outputs with about equal numbers of edges.
  Encoding in_small_batch_slices(Layer const& layer) const {
    EllShape const shape{device.few_outputs, 1, 1};
    auto order = order_by_size(layer.weights);
    auto const stored = num_stored(ell_size(layer.weights, order, shape), shape);
    return encoding_in(FormatName::sliced_ell, KernelName::small_batch, shape, stored, std::move(order));
  }

  /// A layer for the split-output kernel in dense blocks, if that kernel has tiles of one sample and is faster than
  /// with the layer's edges: dense blocks need no indices, but compute with zeros.
  std::optional<Encoding> as_spread_blocks(Layer const& layer) const {
    bool const has_blocks = spreads_single_samples() && device.max_stored_in_few_dense > 0.0;
    if (!has_blocks || !may_use(FormatName::dense) || !is_ascending(layer.weights)) return std::nullopt;
    auto dense = in_small_batch_blocks(layer, KernelName::split_output);
    double const most = device.max_stored_in_few_dense * static_cast<double>(layer.num_edges());
    bool const is_faster = static_cast<double>(dense.choice.num_stored) <= most;
    return is_faster || is_last(FormatName::dense) ? std::optional(std::move(dense)) : std::nullopt;
  }

  Encoding in_small_batch_blocks(Layer const& layer, KernelName kernel) const {
    return encoding_in(FormatName::dense, kernel, device.few_dense_shape,
                       num_stored_densely(layer.weights, device.few_dense_shape));
  }

  bool fits_fused(std::size_t width) const { return !request.is_split && is_within(FusedTile::small, width); }

  /// True if wide tiles can compute the layer, and the expected samples give each team one tile.
  bool fits_wide_tiles(std::size_t width) const {
    auto const& tiles = device.fused_with(FusedTile::wide);
    bool const gives_each_team_one =
        !request.expected_samples || *request.expected_samples >= tiles.tiles_at_a_time * tiles.tile_samples;
    return !request.is_split && is_within(FusedTile::wide, width) && gives_each_team_one;
  }

  bool is_within(FusedTile tile, std::size_t width) const {
    auto const& tiles = device.fused_with(tile);
    return tiles.tile_samples > 0 && width <= tiles.max_neurons;
  }

  /// True if the device computes all expected samples concurrently in small tiles.
  bool has_room_in_small_tiles() const {
    auto const& small = device.fused_with(FusedTile::small);
    return request.expected_samples && *request.expected_samples <= small.tiles_at_a_time * small.tile_samples;
  }

  /// True if blocks would leave threads idle: the layer is narrow, and the expected samples fill tiles for at most half
  /// of the teams.
  bool leaves_threads_idle_in_blocks(std::size_t width) const {
    auto const& small = device.fused_with(FusedTile::small);
    return is_within(FusedTile::large, width) && request.expected_samples &&
           *request.expected_samples <= small.tiles_at_a_time / 2 * small.tile_samples;
  }

  bool is_stationary(LayerChoice const& choice, std::size_t max_chunks) const {
    std::size_t const bytes = stationary_bytes(choice.shape, device.stationary_blocks, max_chunks, device.scalar_bytes,
                                               static_cast<std::size_t>(choice.index_bits) / 8);
    return device.has_stationary && may_run(KernelName::stationary) && bytes <= device.max_stationary_bytes;
  }

  /// The fused tile of a layer: the one with the most samples that the layer fits. But small tiles if the device
  /// computes all samples concurrently in these.
  FusedTile fused_tile_of(Layer const& layer, EllShape const& shape, EllSize const& size) const {
    std::size_t const width = width_of(layer);
    if (is_within(FusedTile::small, width) && has_room_in_small_tiles()) return FusedTile::small;
    if (is_within(FusedTile::with_image, width) &&
        image_bytes(layer, shape, size, device.scalar_bytes) <= device.max_image_bytes)
      return FusedTile::with_image;
    for (auto const tile : {FusedTile::large, FusedTile::small})
      if (is_within(tile, width)) return tile;
    return FusedTile::wide;
  }

  /// True if the smaller tiles of the direct kernel hold all expected samples.
  bool takes_few_samples() const {
    return device.few_tile_samples < device.direct_tile_samples && request.expected_samples &&
           *request.expected_samples <= device.few_tile_samples;
  }

  /// True if the split-output kernel has tiles of one sample.
  bool spreads_single_samples() const {
    return spreads && request.expected_samples && *request.expected_samples <= device.max_single_spread_samples;
  }

  std::size_t tile_samples_of(LayerChoice const& choice) const {
    switch (choice.kernel) {
    case KernelName::fused:
      return device.fused_with(choice.fused_tile).tile_samples;
    case KernelName::stationary:
      return device.stationary_tile_samples;
    case KernelName::staged:
      return device.staged_tile_samples;
    case KernelName::dense:
      return device.dense_tile_samples;
    case KernelName::split_output:
      return spreads_single_samples() ? 1 : device.spread_tile_samples;
    case KernelName::cones:
      return device.cone_tile_samples;
    case KernelName::small_batch:
      return request.expected_samples && *request.expected_samples <= device.max_single_samples
                 ? 1
                 : device.few_tile_samples;
    default:
      break;
    }
    if (choice.format == FormatName::pattern_blocks) return device.direct_block_tile_samples;
    return takes_few_samples() ? device.few_tile_samples : device.direct_tile_samples;
  }

  /// The inputs of a range whose lines fit the L1, if the outputs have enough edges to each range; else 0.
  std::size_t range_inputs_of(Layer const& layer, std::size_t tile_samples) const {
    std::size_t const inputs = device.range_bytes / (tile_samples * device.scalar_bytes);
    if (inputs == 0 || layer.num_inputs() < 2 * inputs) return 0;
    auto const ranges = static_cast<double>(layer.num_inputs()) / static_cast<double>(inputs);
    double const fewest = device.fewest_range_edges * ranges * static_cast<double>(layer.num_outputs());
    return static_cast<double>(layer.num_edges()) > fewest && is_ascending(layer.weights) ? inputs : 0;
  }
};

LayerChooser::LayerChooser(DeviceTraits const& device, PlanRequest request)
    : rules_(std::make_shared<Rules const>(device, std::move(request))) {}

Encoding LayerChooser::choose(Layer const& layer, std::size_t number) const {
  constexpr std::size_t most = std::numeric_limits<int>::max();
  if (width_of(layer) > most) layer_is_too_wide(number, layer.num_inputs(), layer.num_outputs());
  std::optional<Encoding> encoding;
  if (rules_->needs_rows(layer)) encoding = rules_->as_rows(layer);
  if (!encoding) encoding = rules_->as_small_batch(layer);
  if (!encoding && rules_->can_be_spread(layer)) encoding = rules_->as_spread_blocks(layer);
  if (!encoding) encoding = rules_->as_spread(layer);
  if (!encoding) encoding = rules_->single_outputs_if_underfilled(layer);
  if (!encoding) encoding = rules_->as_dense(layer);
  if (!encoding) encoding = rules_->as_blocks(layer, number);
  if (!encoding) encoding = rules_->as_stages(layer);
  if (!encoding) encoding = rules_->in_wide_tiles(layer);
  if (!encoding) encoding = rules_->as_singles(layer);
  if (!encoding) encoding = rules_->as_rows(layer);
  LayerChoice& choice = encoding->choice;
  choice.index_bits = index_bits_of(choice.format, layer.num_inputs());
  choice.num_edges = layer.num_edges();
  choice.tile_samples = rules_->tile_samples_of(choice);
  bool const reads_tiles = choice.kernel == KernelName::fused || choice.kernel == KernelName::direct;
  if (choice.format == FormatName::sliced_ell && reads_tiles)
    choice.range_inputs = rules_->range_inputs_of(layer, choice.tile_samples);
  return std::move(*encoding);
}

std::vector<std::shared_ptr<ConeRun const>> LayerChooser::choose_cones(std::vector<Layer> const& layers,
                                                                       std::size_t number) const {
  std::vector<std::shared_ptr<ConeRun const>> runs(layers.size());
  if (!rules_->may_use(FormatName::cones) || !rules_->may_run(KernelName::cones) || rules_->request.is_split)
    return runs;
  constexpr double unlimited_cost = 1e9;
  double const other_cost =
      rules_->is_last(FormatName::cones) || rules_->request.kernel ? unlimited_cost : rules_->device.cone_other_cost;
  ConeLimits const limits{rules_->device.cone_slots, rules_->device.cone_group_size, rules_->device.max_cone_rounds};
  for (std::size_t first = number == 0 ? 1 : 0; first < layers.size();) {
    std::size_t last = first;
    while (last < layers.size() && is_short(layers[last]) && suits_cones(layers[last]) &&
           !rules_->needs_rows(layers[last]) && layers[last].activation == layers[first].activation &&
           (last == first || layers[last].num_inputs() == layers[last - 1].num_outputs()))
      ++last;
    auto const part = std::span<Layer const>(layers).subspan(first, last - first);
    for (auto& placed : place_cone_runs(part, limits, other_cost)) {
      placed.first_layer += first;
      auto const run = std::make_shared<ConeRun const>(std::move(placed));
      std::fill_n(runs.begin() + static_cast<std::ptrdiff_t>(run->first_layer), run->num_layers, run);
    }
    first = std::max(last, first + 1);
  }
  return runs;
}

LayerChoice LayerChooser::choice_of(std::span<Layer const> run, ConeRun const& cones) const {
  LayerChoice choice;
  choice.format = FormatName::cones;
  choice.kernel = KernelName::cones;
  choice.index_bits = index_bits_of(choice.format, run.front().num_inputs());
  choice.tile_samples = rules_->device.cone_tile_samples;
  choice.num_edges = run.front().num_edges();
  choice.num_layers = run.size();
  choice.num_cones = cones.cones.size();
  constexpr std::size_t edges_per_move = 2;
  for (Cone const& cone : cones.cones)
    choice.num_stored += edges_per_move * rules_->device.cone_group_size * cone.num_rounds;
  return choice;
}

FirstLayerChoice LayerChooser::choose_first(Layer const& layer, LayerChoice const& choice) const {
  if (choice.kernel == KernelName::stationary) return {FirstLayerInput::own_bits, {}, {}};
  if (rules_->takes_small_batches)
    return {}; // the small-batch kernel reads the samples itself, and its tiles are not those of bits
  if (choice.format == FormatName::dense || rules_->request.kernel || !rules_->may_use(FormatName::sliced_ell) ||
      rules_->needs_rows(layer))
    return {};
  LayerChoice own;
  own.kernel = KernelName::counts;
  own.num_edges = own.num_stored = layer.num_edges();
  own.index_bits = 16; // bytes that count have 16-bit places
  own.tile_samples = choice.tile_samples;
  if (suits_counts(layer, rules_->device.max_counted_outputs)) return {FirstLayerInput::counts, own, {}};
  own.kernel = KernelName::bits;
  own.format = FormatName::sliced_ell;
  own.shape = rules_->device.single_shape;
  own.index_bits = index_bits_of(own.format, layer.num_inputs());
  auto order = order_of_singles(layer.weights);
  own.num_stored = num_stored(ell_size(layer.weights, order, own.shape), own.shape);
  EdgeOffset const always_allowed_padding =
      own.shape.slice_width * own.shape.chunk_size * (layer.num_outputs() / own.shape.slice_width + 1);
  if (own.num_stored > 2 * layer.num_edges() + always_allowed_padding) return {};
  return {FirstLayerInput::bits, own, std::move(order)};
}

std::optional<FirstLayerChoice> LayerChooser::choose_entries(Layer const& layer, LayerChoice const& choice) const {
  if (rules_->request.kernel || !rules_->request.formats.empty() || rules_->needs_rows(layer) ||
      !suits_entries(layer, rules_->device.max_counted_outputs))
    return std::nullopt;
  LayerChoice own;
  own.kernel = KernelName::entries;
  own.num_edges = own.num_stored = layer.num_edges();
  own.index_bits = 32;
  own.tile_samples = choice.tile_samples;
  return FirstLayerChoice{
      FirstLayerInput::entries, own, {}, samples_worth_a_copy(layer, choice.format, rules_->device)};
}

LayerChoice LayerChooser::streamed(LayerChoice choice) const {
  if (choice.is_fused() && choice.fused_tile == FusedTile::with_image) choice.fused_tile = FusedTile::large;
  choice.tile_samples = rules_->tile_samples_of(choice);
  return choice;
}

LayerChoice LayerChooser::in_strips(Layer const& layer, LayerChoice const& choice) const {
  LayerChoice strips;
  strips.num_edges = layer.num_edges();
  if (choice.format == FormatName::dense) {
    strips.format = FormatName::dense;
    strips.kernel = rules_->device.has_dense_kernel ? KernelName::dense : KernelName::direct;
    strips.shape = rules_->device.dense_shape;
  }
  strips.index_bits = index_bits_of(strips.format, layer.num_inputs());
  strips.tile_samples = rules_->tile_samples_of(strips);
  return strips;
}

StripShape LayerChooser::strip_shape(Layer const& layer, LayerChoice const& choice) const {
  auto const index_bytes = static_cast<std::size_t>(index_bits_of(FormatName::csr, layer.num_inputs())) / 8;
  StripShape shape;
  shape.edge_bytes = rules_->device.scalar_bytes + index_bytes;
  if (choice.format != FormatName::dense) return shape;
  EllShape const& blocks = rules_->device.dense_shape;
  std::size_t const chunks = (layer.num_inputs() + blocks.chunk_size - 1) / blocks.chunk_size;
  shape.block_outputs = blocks.block_outputs;
  shape.dense_block_bytes = chunks * blocks.chunk_size * blocks.block_outputs * rules_->device.scalar_bytes;
  return shape;
}

LayerChoice LayerChooser::of_strip(Layer const& strip, LayerChoice choice) const {
  choice.num_edges = strip.num_edges();
  choice.num_stored = choice.format == FormatName::dense ? num_stored_densely(strip.weights, rules_->device.dense_shape)
                                                         : strip.num_edges();
  return choice;
}

} // namespace varve
