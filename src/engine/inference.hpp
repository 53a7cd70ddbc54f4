#pragma once

#include "core/backend.hpp"
#include "core/types.hpp"
#include "network/network.hpp"
#include "network/sample_batch.hpp"
#include "network/sample_set.hpp"
#include "passes/ordered_network.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"
#include "plan/plan.hpp"

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
struct InferenceOptions : MemoryRequest {
  Engine engine = Engine::varve;
  Backend backend = Backend::serial;
  Precision precision = Precision::single_precision;
  std::string input_name = "the samples"; ///< what messages call them
  std::optional<std::size_t> batch;       ///< samples at a time
  std::vector<FormatName> formats;        ///< those that the plan may use; empty: all
  std::optional<KernelName> kernel;       ///< for all layers that it can run
  Reductions reductions;
  /// In which the network's own engine and the reference add up products: part of what is computed.
  EdgeOrder edge_order = EdgeOrder::ascending;
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
  SampleTraffic samples;            ///< of all that was uploaded since the batch before
  WeightTraffic weights;            ///< since the batch before
  double exchange_seconds = 0.0;    ///< of the last repetition: until the other ranks' activations were here
  double exchange_bytes = 0.0;      ///< of these, in the last repetition
  double live_edges = 0.0;          ///< edges (that were left) times the samples that were held when they were used
  std::size_t num_saturated = 0;    ///< samples that left because they were saturated for ever
  std::size_t num_represented = 0;  ///< samples that left because they had become equal to another
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

/// A network prepared for one backend. Not safe to use from several threads at a time, but for upload_ahead(). Where
/// its neurons are split across ranks, all of them call infer with the same batches in the same order.
class Inference {
public:
  virtual ~Inference() = default;

  virtual std::size_t num_inputs() const = 0;
  virtual std::size_t num_outputs() const = 0;
  virtual std::size_t num_layers() const = 0;
  virtual EdgeOffset num_edges() const = 0; ///< of the network as it was given

  /// Decides the batch for such an input, allocates the panel and says what was decided.
  /// Throws ResourceError, naming what is needed, if not even one tile fits the limit. Call before infer.
  virtual Plan const& plan(InputShape const& input) = 0;

  /// The plan that the next infer() carries out. Another one than plan(input) gave, if the samples of a batch showed
  /// that other launches take less time, or had values that the plan did not expect.
  virtual Plan const& plan() const = 0;

  /// Brings the samples of the next infer() to the device; may be called on another thread while infer() runs. Changes
  /// nothing but how long infer() takes.
  virtual void upload_ahead(SampleBatch const& /*samples*/) {}

  /// Runs at most one planned batch of samples through all layers.
  virtual BatchResult infer(SampleBatch const& samples, WantedOutputs wanted) = 0;
};

/// Prepares a network for the backend, layer by layer (memory for a few host layers at a time). Weights that do not fit
/// on the device are streamed to it from the host, and those that the host cannot keep either are asked for again in
/// each run: the network must live as long as what is returned.
/// Throws InputError if the network is malformed, ResourceError if the limits leave no room for two of its layers.
std::unique_ptr<Inference> prepare(NetworkSource const& network, InferenceOptions const& options);

} // namespace varve
