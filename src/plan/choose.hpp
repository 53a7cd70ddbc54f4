#pragma once

#include "network/network.hpp"
#include "passes/cones.hpp"
#include "passes/output_order.hpp"
#include "plan/device_traits.hpp"
#include "plan/layer_sizes.hpp"
#include "plan/names.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace varve {

/// What was asked of the plan. What is left open, the plan chooses.
struct PlanRequest {
  std::vector<FormatName> formats;             ///< that may be used; empty: all
  std::optional<KernelName> kernel;            ///< for all layers that it can run
  std::optional<std::size_t> expected_samples; ///< at a time, if known
  bool is_split = false; ///< the network is one rank's part of the neurons of a larger one: one layer a launch
};

/// How a layer is stored, and by which kernel it is run.
struct LayerChoice {
  FormatName format = FormatName::csr;
  KernelName kernel = KernelName::direct;
  FusedTile fused_tile = FusedTile::small; ///< of the fused kernel
  EllShape shape;                          ///< of sliced ELL, pattern blocks and staged blocks
  int index_bits = 32;                     ///< of an edge's input: 16 or 32
  std::size_t tile_samples = 0;            ///< of the kernel

  EdgeOffset num_edges = 0;
  EdgeOffset num_stored = 0;        ///< weights, padding included
  EdgeOffset num_staged_inputs = 0; ///< staged blocks: inputs listed in all stages
  std::size_t num_cones = 0;
  std::size_t num_layers = 1; ///< a run of cones holds several

  bool is_fused() const { return kernel == KernelName::fused; }
};

/// A choice together with what it takes to encode the layer so.
struct Encoding {
  LayerChoice choice;
  std::vector<NeuronIndex> order;     ///< position -> output; empty: as they are
  std::optional<OutputStages> stages; ///< of staged blocks
};

/// How the first layer takes samples whose values are all equal, without bringing them into tiles.
enum class FirstLayerWay {
  tiles,    ///< it does not: they are brought into tiles, or read by the fused kernel
  own_bits, ///< its stationary kernel reads their bits
  bits,     ///< a second copy of the layer, in sliced ELL, reads their bits
  counts    ///< a second copy of the layer, by input, counts their entries
};

struct FirstLayerChoice {
  FirstLayerWay way = FirstLayerWay::tiles;
  std::vector<NeuronIndex> order; ///< of the second copy, position -> output
};

/// The run of cones that a layer is in.
struct InConeRun {
  std::size_t num_layers = 0; ///< 0: in none
  bool is_first = false;
  ConeRun cones; ///< with the first layer
};

/// Chooses for each layer, by looking at it, its format and kernel on a device:
///   - CSR by the direct kernel, if the layer has a curve and the device computes curves by no other;
///   - several layers whose outputs depend on few neurons together: cones;
///   - pattern blocks, if outputs share inputs so well that the blocks store at most twice as many weights as there are
///     (a fma of a block costs half of what one costs that loads its own input, or less; DeviceTraits says what the
///     fused kernel bears);
///   - else, in layers too wide for the fused kernel, staged blocks, if outputs share inputs;
///   - else sliced ELL, if padding stores at most a quarter more weights; else CSR;
///   - the fused kernel, if tiles of the layer's width fit its scratch; else the kernel that the format is for;
///   - with few samples, the spread kernel instead of the fused one, on sliced ELL.
class LayerChooser {
public:
  LayerChooser(DeviceTraits const& device, PlanRequest request);

  /// Throws InputError if the layer, of this number, has more inputs or outputs than 31 bits count.
  Encoding choose(Layer const& layer, std::size_t number) const;

  /// Which of these layers, the first of which has this number, form cones. Layer 0 takes the samples and is by itself.
  std::vector<InConeRun> choose_cones(std::vector<Layer> const& layers, std::size_t number) const;

  /// Of a run of layers that forms these cones, as its first layer has it.
  LayerChoice choice_of(std::span<Layer const> run, ConeRun const& cones) const;

  /// For a layer 0 that was given this choice, if others follow it.
  FirstLayerChoice choose_first(Layer const& layer, LayerChoice const& choice) const;

  /// What a choice becomes whose weights are streamed, which have no images.
  LayerChoice streamed(LayerChoice choice) const;

private:
  struct Question; ///< a layer and what is known of it

  bool may_use(FormatName name) const;
  bool is_last(FormatName name) const;
  bool may_run(KernelName kernel) const { return request_.kernel.value_or(kernel) == kernel; }
  bool fits_fused(std::size_t width) const;
  bool is_within(FusedTile tile, std::size_t width) const;
  bool has_room_in_small_tiles() const;
  bool leaves_threads_idle_in_blocks(std::size_t width) const;

  std::optional<Encoding> as_spread(Question const& question) const;
  std::optional<Encoding> as_singles_for_idle_threads(Question const& question) const;
  std::optional<Encoding> as_blocks(Question const& question) const;
  std::optional<Encoding> as_blocks_of(Question const& question, EllShape const& shape, KernelName kernel) const;
  std::optional<Encoding> as_stages(Question const& question) const;
  std::optional<Encoding> as_singles(Question const& question) const;
  Encoding as_rows(Question const& question) const;
  Encoding in_singles(Question const& question, KernelName kernel) const;
  Encoding in_ell(Question const& question, FormatName format, EllShape const& shape, std::vector<NeuronIndex> order,
                  EllSize const& size, KernelName kernel) const;

  bool is_stationary(LayerChoice const& choice, std::size_t max_chunks) const;
  bool needs_rows(Layer const& layer) const; ///< for its curve, which other kernels lack
  bool can_be_spread(Question const& question) const;
  FusedTile fused_tile_of(Question const& question, EllShape const& shape, EllSize const& size) const;
  std::size_t tile_samples_of(LayerChoice const& choice) const;
  bool takes_few_samples() const; ///< so few that smaller tiles hold all of them

  DeviceTraits device_;
  PlanRequest request_;
  bool has_few_samples_; ///< so that layers must be computed by many teams: no fused kernel
  bool spreads_;         ///< then by the spread kernel
};

} // namespace varve
