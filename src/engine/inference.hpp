#pragma once

#include "core/backend.hpp"
#include "core/types.hpp"
#include "network/network.hpp"
#include "network/sample_batch.hpp"
#include "network/sample_set.hpp"
#include "passes/ordered_network.hpp"
#include "passes/reduced_network.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {

class ActivationExchange;

/// Which implementation runs the network. Varve's own; the others are there to compare with, side by side.
enum class Engine {
  varve,
  kokkos_kernels, ///< sparse times multi-vector of Kokkos Kernels, then bias and activation, dead samples removed
  reference       ///< the plain loops of reference/
};

/// "varve", "kokkos-kernels" or "reference".
std::string to_string(Engine engine);

/// The engine of this name. Throws UsageError naming those this build has.
Engine parse_engine(std::string const& name);

/// How a layer may be stored on a device (formats/), in the order in which the plan prefers them.
enum class FormatName { cones, pattern_blocks, staged_blocks, sliced_ell, csr };

/// The names of a comma-separated list ("sliced_ell,csr"); none for "auto". Throws UsageError naming what there is.
std::vector<FormatName> parse_formats(std::string const& list);

/// "cones", "pattern_blocks", "staged_blocks", "sliced_ell" or "csr".
std::string to_string(FormatName format);

/// What is not computed because it is known to be equal to something that is. The first three rewrite the network
/// before it is prepared (passes/) and merge terms of sums, so activations may differ from those without in the last
/// bits; the others change no bit.
struct Reductions {
  bool merge_neurons = false;
  bool fold_constants = false;
  bool drop_unread = false;
  bool saturation = false;    ///< samples that are saturated for ever leave with their result known
  bool equal_samples = false; ///< of samples that have become equal in all bits one is computed

  bool rewrites_network() const { return merge_neurons || fold_constants || drop_unread; }
  bool operator==(Reductions const&) const = default;
};

/// "auto" (all), "none", or a comma-separated list of merge_neurons, fold_constants, drop_unread, saturation,
/// equal_samples. Throws
/// UsageError naming what there is.
Reductions parse_reductions(std::string const& list);

/// How to run a network. What is left open is chosen by the plan.
struct InferenceOptions {
  Engine engine = Engine::varve;
  Backend backend = Backend::serial;
  Precision precision = Precision::single_precision;
  std::string input_name = "the samples"; ///< what messages call them
  std::optional<std::size_t> batch;       ///< samples at a time
  /// Bytes on the host for weights that are streamed to a device. Where the device is the host itself: for everything
  /// together, and what device_memory_limit leaves of it is for such weights.
  std::optional<std::size_t> memory_limit;
  std::optional<std::size_t> device_memory_limit; ///< bytes on the device for weights, panel and samples together
  std::optional<std::size_t> device_weight_limit; ///< bytes of these for weights
  std::vector<FormatName> formats;                ///< those that the plan may use; empty: all
  std::optional<std::string> kernel; ///< "direct", "stationary", "staged", "fused", "cones" or "spread" for layers that
                                     ///< it can run
  Reductions reductions;
  /// In which the network's own engine and the reference add up products: part of what is computed.
  EdgeOrder edge_order = EdgeOrder::ascending;
  bool narrow_tiles = false;                    ///< a quarter or half of the samples per tile (a study, not a need)
  std::optional<std::size_t> expected_samples;  ///< at a time, if known: with few, layers are spread over the device
  std::size_t repeat = 1;                       ///< how often the layer loop runs on each batch, for timing
  std::shared_ptr<ActivationExchange> exchange; ///< neurons are split across its ranks; null: they are not
};

/// What to bring back besides the live samples.
struct WantedOutputs {
  bool activations = false;
  bool predictions = false;
};

/// Weights that were streamed to the device.
struct WeightTraffic {
  double wait_seconds = 0.0; ///< in which the layer loop waited for them
  double copy_seconds = 0.0; ///< in which they were copied, while others were computed
  double make_seconds = 0.0; ///< in which they were read and packed again, likewise
  std::size_t copied_bytes = 0;

  WeightTraffic& operator+=(WeightTraffic const& other);
};

/// Samples that were brought to the device.
struct SampleTraffic {
  double seconds = 0.0;         ///< from memory to where kernels read them
  std::size_t copied_bytes = 0; ///< to the device, or, where it is the host itself, within memory
};

/// Result of one batch.
struct BatchResult {
  std::vector<SampleIndex> live_samples; ///< ascending numbers of the samples with a nonzero last activation
  std::uint64_t activation_hash = 0;     ///< sum of the fingerprints of all nonzero last activations
  SampleSet activations;                 ///< if wanted: [samples of the batch, outputs], nonzeros
  std::vector<NeuronIndex>
      predictions;                  ///< if wanted: per sample the output of the largest activation, the first of equals
  std::vector<double> loop_seconds; ///< of each repetition, from fence to fence
  double upload_seconds = 0.0;      ///< until the samples were on the device
  double collect_seconds = 0.0;     ///< results back to the host
  SampleTraffic samples;            ///< of all that was staged since the batch before
  WeightTraffic weights;            ///< since the batch before
  double exchange_seconds = 0.0;    ///< of the last repetition: until the other ranks' activations were here
  double exchange_bytes = 0.0;      ///< of these, in the last repetition
  double live_edges = 0.0;          ///< edges (that were left) times the samples that were held when they were used
  std::size_t num_done = 0;         ///< samples that left because they were saturated for ever
  std::size_t num_represented = 0;  ///< samples that left because they had become equal to another
};

/// What the plan chose for a run of layers.
struct LayerChoice {
  std::size_t first_layer = 0, last_layer = 0; ///< both inclusive
  std::size_t num_launches = 1;
  std::string kernel;               ///< "cones", "fused", "stationary", "staged", "spread" or "direct"
  std::string format;               ///< e.g. "pattern blocks of 4 outputs"
  int index_bits = 0;               ///< of an edge's input
  EdgeOffset num_edges = 0;         ///< of all these layers together, as the following
  EdgeOffset num_stored = 0;        ///< weights stored, padding included
  EdgeOffset num_staged_inputs = 0; ///< staged blocks only: inputs listed in all stages
  std::size_t num_cones = 0;        ///< cones only
  bool reads_bits = false;          ///< the first layer: samples whose values are all equal are read as bits,
  bool counts_entries = false;      ///< or their entries counted

  /// True if both differ in their layers only.
  bool is_like(LayerChoice const& other) const;
  /// Takes in the choice for the layers that follow.
  void append(LayerChoice const& next);
};

/// "layers 0-119: fused kernel, pattern blocks of 4 outputs, 16-bit indices, 8 launches".
std::string describe(LayerChoice const& choice);

/// "edges of 12 layers ordered against bank conflicts: 1.05 wavefronts a step, ...", of at least one layer.
std::string describe(EdgeOrderReport const& order);

/// Why: what of these layers led to the choice, in a sentence or two.
std::string explain(LayerChoice const& choice);

/// How weights that do not fit on the device are streamed.
struct StreamSummary {
  std::size_t num_segments = 0;
  std::size_t num_resident = 0; ///< of these: stay on the device
  std::size_t num_remade = 0;   ///< of these: are read and packed again each time, for the host cannot hold them
  std::size_t num_buffers = 0;
  std::size_t buffer_bytes = 0;
  std::size_t host_bytes = 0; ///< for what is kept on the host
};

/// "weights streamed: 24 segments through 2 buffers of 64.0 MiB, ...".
std::string describe(StreamSummary const& stream);

/// What the plan decided and what it needs; all sizes in bytes.
struct PlanSummary {
  std::string engine; ///< which engine, e.g. "varve"
  std::string device;
  std::string method;                        ///< what there is to say besides choices
  std::vector<LayerChoice> choices;          ///< of Varve's own engine, in the order of the layers
  std::optional<ReductionReport> reduction;  ///< what rewriting the network found, where it was asked for
  std::optional<std::size_t> saturates_from; ///< after so many layers a saturated sample is done, where that was asked
                                             ///< for and some are
  std::optional<EdgeOrderReport> edge_order; ///< where another order than the ascending one was asked for
  std::size_t batch = 0;                     ///< samples at a time
  std::size_t tile_samples = 0;
  std::optional<StreamSummary> stream; ///< where weights are streamed
  std::size_t weight_bytes = 0;        ///< on the device
  std::size_t panel_bytes = 0;
  std::size_t sample_bytes = 0;
};

/// What the plan must know of an input.
struct InputShape {
  std::size_t num_samples = 0;
  EdgeOffset num_entries = 0;
  bool has_one_value = false; ///< all entries have the same value; samples of other values are taken too, but then the
                              ///< first of them costs a larger panel
};

inline InputShape shape_of(SampleBatch const& samples) {
  return {samples.num_samples(), samples.num_entries(), samples.has_one_value()};
}

/// A network prepared for one backend. Not safe to use from several threads at a time, but for stage(). Where its
/// neurons are split across ranks, all of them call infer with the same batches in the same order.
class Inference {
public:
  virtual ~Inference() = default;

  virtual std::size_t num_inputs() const = 0;
  virtual std::size_t num_outputs() const = 0;
  virtual std::size_t num_layers() const = 0;
  virtual EdgeOffset num_edges() const = 0; ///< of the network as it was given

  /// Decides the batch for such an input, allocates the panel and says what was decided.
  /// Throws ResourceError, naming what is needed, if not even one tile fits the limit. Call before infer.
  virtual PlanSummary plan(InputShape const& input) = 0;

  /// Brings the samples of the next infer() to the device; may be called on another thread while infer() runs. Changes
  /// nothing but how long infer() takes.
  virtual void stage(SampleBatch const& /*samples*/) {}

  /// Runs at most one planned batch of samples through all layers.
  virtual BatchResult infer(SampleBatch const& samples, WantedOutputs wanted) = 0;
};

/// Prepares a network for the backend, layer by layer (memory for a few host layers at a time). Weights that do not fit
/// on the device are streamed to it from the host, and those that the host cannot keep either are asked for again in
/// each run: the network must live as long as what is returned.
/// Throws InputError if the network is malformed, ResourceError if the limits leave no room for two of its layers.
std::unique_ptr<Inference> prepare(NetworkSource const& network, InferenceOptions const& options);

} // namespace varve
