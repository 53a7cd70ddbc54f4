#pragma once

#include "network/network.hpp"
#include "passes/cones.hpp"
#include "passes/output_order.hpp"
#include "plan/device_traits.hpp"
#include "plan/layer_sizes.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace varve {

/// The user's constraints on the plan; the plan chooses the rest.
struct PlanRequest {
  std::vector<FormatName> formats;             ///< formats that may be used; empty: all
  std::optional<KernelName> kernel;            ///< the kernel of all layers for which it exists
  std::optional<std::size_t> expected_samples; ///< samples at a time, if known
  bool is_split = false; ///< the network is one rank's part of a larger one, so each launch has one layer
};

/// The format in which a layer is stored and the kernel that runs it.
struct LayerChoice {
  FormatName format = FormatName::csr;
  KernelName kernel = KernelName::direct;
  FusedTile fused_tile = FusedTile::small; ///< tile of the fused kernel; unused for other kernels
  EllShape shape;                          ///< shape of sliced ELL, pattern blocks and staged blocks
  int index_bits = 32;                     ///< index_bits_of() the layer, for reports only
  std::size_t tile_samples = 0;            ///< samples of the tiles that the kernel reads
  std::size_t range_inputs = 0;            ///< inputs of each range into which sliced ELL is cut; 0: it is not

  EdgeOffset num_edges = 0;
  EdgeOffset num_stored = 0;        ///< stored weights, padding included
  EdgeOffset num_staged_inputs = 0; ///< staged blocks: total length of the lists of all stages
  std::size_t num_cones = 0;
  std::size_t num_layers = 1; ///< layers of a run of cones, else 1

  bool is_fused() const { return kernel == KernelName::fused; }
  /// Host memory in bytes that the layer occupies while it is encoded. CSR and cones need none.
  std::size_t encoded_bytes(std::size_t scalar_bytes) const;
};

/// A choice, with the order of outputs in which the layer must be encoded.
struct Encoding {
  LayerChoice choice;
  std::vector<NeuronIndex> order;     ///< position -> output; empty: position j holds output j
  std::optional<OutputStages> stages; ///< order and stages of staged blocks
};

/// Samples have few entries up to this number of entries per sample and input: a product by entries takes as long as 10
/// to 20 products in vectors of samples.
inline constexpr double kFewEntries = 1.0 / 64;

/// How the first layer reads the samples. `own_bits`, `bits` and `counts` are for samples whose values are all equal,
/// `entries` is for samples with few entries.
enum class FirstLayerInput {
  tiles,    ///< from tiles, or by the fused kernel
  own_bits, ///< as bits, by the stationary kernel of the layer
  bits,     ///< as bits, by a second copy of the layer in sliced ELL
  counts,   ///< counts their entries, by a second copy of the layer in order of inputs
  entries   ///< entry after entry, by a second copy of the layer in CSC
};

/// How the first layer reads the samples, and its further copy, if this way needs one.
struct FirstLayerChoice {
  FirstLayerInput way = FirstLayerInput::tiles;
  LayerChoice choice;             ///< choice of the copy; tile_samples are those of the layer itself
  std::vector<NeuronIndex> order; ///< position -> output
  std::size_t min_samples = 0;    ///< samples from which a copy for few entries saves more time than it takes to make
};

/// Chooses for each layer, from its pattern, the format and kernel on a device:
///   - CSR with the direct kernel, if the layer has a curve and no other kernel of the device computes curves;
///   - cones for several layers whose outputs depend on few neurons;
///   - dense blocks, if so many weights are nonzero that a dense product is faster than the edges alone, and the
///     edges ascend;
///   - pattern blocks, if outputs share so many inputs that the blocks store at most twice as many weights as there are
///     edges (a fma in a block costs at most half as much as one that loads its own input; the fused kernel's limit is
///     DeviceTraits::max_stored_in_fused_blocks);
///   - else, in layers too wide for the fused kernel, staged blocks, if outputs share inputs;
///   - else sliced ELL, if padding stores at most a quarter more weights; else CSR. On hosts, layers with many edges an
///     output are cut into ranges of inputs whose lines fit the L1;
///   - the fused kernel, if tiles of the layer's width fit its scratch; else the kernel of the format;
///   - on hosts, if the samples fit two of the smallest tiles, the small-batch kernel, with dense blocks or
///     sliced ELL;
///   - on GPUs with few samples, the split-output kernel instead of the fused one, with sliced ELL.
class LayerChooser {
public:
  LayerChooser(DeviceTraits const& device, PlanRequest request);

  /// Chooses for layer `number`, unless it is in a run of cones. Throws InputError if it has more inputs or outputs
  /// than 31 bits can number.
  Encoding choose(Layer const& layer, std::size_t number) const;

  /// For each of these layers, with numbers from `number` on: the run of cones that contains it, whose first_layer is
  /// counted among them; null if it is in none. Layer 0 is in none, because it reads the samples.
  std::vector<std::shared_ptr<ConeRun const>> choose_cones(std::vector<Layer> const& layers, std::size_t number) const;

  /// The choice of a run of layers with these cones, to be stored with its first layer.
  LayerChoice choice_of(std::span<Layer const> run, ConeRun const& cones) const;

  /// Chooses how layer 0 reads samples whose values are all equal; it must not be the only layer. choice: the result of
  /// choose() for it.
  FirstLayerChoice choose_first(Layer const& layer, LayerChoice const& choice) const;
  /// The choice of the copy of layer 0 that reads samples with few entries; none if no copy is faster. Dense layers may
  /// have one, too.
  std::optional<FirstLayerChoice> choose_entries(Layer const& layer, LayerChoice const& choice) const;

  /// The choice of the same layer if weights are streamed: the fused kernel then prefetches no images.
  LayerChoice streamed(LayerChoice choice) const;

  /// The choice of the same layer if it is cut into strips, each in a separate launch. Dense layers keep their format.
  /// All others get CSR, which has no padding, so that the fewest bytes are copied, and the direct kernel, which
  /// supports any edges, edge order, curve and number of samples.
  LayerChoice in_strips(Layer const& layer, LayerChoice const& choice) const;
  /// The shape of those strips.
  StripShape strip_shape(Layer const& layer, LayerChoice const& choice) const;
  /// The choice of one of the strips, given as a layer. choice: in_strips() of the whole layer.
  LayerChoice of_strip(Layer const& strip, LayerChoice choice) const;

private:
  struct Rules; ///< the device, the request, and what follows from them

  std::shared_ptr<Rules const> rules_;
};

} // namespace varve
