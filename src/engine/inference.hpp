#pragma once

#include "core/backend.hpp"
#include "core/types.hpp"
#include "engine/panel.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"
#include "passes/edge_order.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"
#include "plan/plan.hpp"
#include "receipts/digests.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {

class RankExchange;

/// The implementation that runs the network: Varve's own, or one that serves comparison.
enum class Engine {
  varve,
  kokkos_kernels, ///< spmv on multi-vectors by Kokkos Kernels, then bias and activation; dead samples are removed
  reference       ///< the plain loops of reference/
};

/// "varve", "kokkos-kernels" or "reference".
std::string to_string(Engine engine);

/// The engine with this name. Throws UsageError, naming the engines of this build, if there is none.
Engine parse_engine(std::string const& name);

/// Optimizations that skip neurons and samples whose values are known or equal to others. The first three rewrite the
/// network before it is prepared (passes/). Merging neurons and folding constants change sums, so the last bits of
/// activations may differ. Dropping neurons may do so too unless edges ascend, because other edge orders depend on
/// neuron numbers. The last two change no bit.
struct Reductions {
  bool merge_neurons = false;  ///< equal neurons become one
  bool fold_constants = false; ///< constant neurons become part of biases
  bool drop_unread = false;    ///< neurons that no later neuron reads are removed
  bool saturation = false;     ///< permanently saturated samples leave early, as their result is known
  bool equal_samples = false;  ///< samples that have become equal in all bits are computed once

  bool rewrites_network() const { return merge_neurons || fold_constants || drop_unread; }
  bool operator==(Reductions const&) const = default;
};

/// Parses "auto" (all), "none", or a comma-separated list of merge_neurons, fold_constants, drop_unread, saturation,
/// equal_samples. Throws UsageError, which lists these names, for any other name.
Reductions parse_reductions(std::string const& list);

/// Options of a run. The plan chooses what they leave open.
struct InferenceOptions : MemoryRequest {
  Engine engine = Engine::varve;
  Backend backend = Backend::serial;
  Precision precision = Precision::single_precision;
  std::string input_name = "the samples"; ///< the name of the samples in messages
  std::optional<std::size_t> batch;       ///< samples at a time
  std::vector<FormatName> formats;        ///< formats that the plan may use; empty: all
  std::optional<KernelName> kernel;       ///< the kernel of all layers for which it exists
  Reductions reductions;
  /// The order in which Varve's own engine and the reference add products; it decides the last bits of activations.
  EdgeOrder edge_order = EdgeOrder::ascending;
  std::optional<std::size_t> expected_samples; ///< samples at a time, if known: few are spread over the device
  std::size_t repeat = 1;                      ///< how often the layer loop runs on each batch, for timing
  std::shared_ptr<RankExchange> exchange;      ///< splits neurons across its ranks; null: neurons are not split
  bool cuts_layers = true; ///< a layer is cut into strips if the device cannot hold two of it; false: this is an error
};

/// Results to compute besides the live samples.
struct WantedOutputs {
  bool activations = false;
  bool predictions = false;
  bool digests = false;
};

/// Time and bytes of weights that were streamed to the device.
struct WeightTraffic {
  double wait_seconds = 0.0; ///< time that the layer loop waited for weights
  double copy_seconds = 0.0; ///< time of copies to the device, during computation
  double make_seconds = 0.0; ///< time of reading and encoding weights again, during computation
  std::size_t copied_bytes = 0;

  WeightTraffic& operator+=(WeightTraffic const& other);
};

/// Time and bytes of samples that were copied to the device.
struct SampleTraffic {
  double seconds = 0.0;         ///< time of converting and copying them from host memory to the device
  std::size_t copied_bytes = 0; ///< bytes copied to the device; on CPU backends, within host memory
};

/// Result of one batch.
struct BatchResult {
  std::vector<SampleIndex> live_samples; ///< ascending numbers of the samples with a nonzero last activation
  std::uint64_t activation_hash = 0;     ///< sum of the fingerprints of all nonzero last activations
  SampleSet activations;                 ///< if wanted: [samples of the batch, outputs], nonzeros
  std::vector<NeuronIndex>
      predictions; ///< if wanted: per sample the output with the largest activation, the first of equal ones
  std::vector<Digest> digests;      ///< if wanted: per sample SampleLeaves::output
  std::vector<double> loop_seconds; ///< time of each repetition of the layer loop, from fence to fence
  double upload_seconds = 0.0;      ///< time until the samples were on the device
  double collect_seconds = 0.0;     ///< time of copying results to the host
  SampleTraffic samples;            ///< traffic of all uploads since the previous batch
  WeightTraffic weights;            ///< traffic since the previous batch
  double exchange_seconds = 0.0;    ///< last repetition: time of exchanges with other ranks, including waiting
  double exchange_bytes = 0.0;      ///< last repetition: bytes of activations from other ranks
  double live_edges = 0.0;          ///< sum over steps: edges (after reductions) times samples in the panel
  std::size_t num_saturated = 0;    ///< samples that left because they were permanently saturated
  std::size_t num_represented = 0;  ///< samples that left because they had become equal to another
};

/// The properties of an input that the plan depends on.
struct InputShape {
  std::size_t num_samples = 0;
  EdgeOffset num_entries = 0;
  bool has_one_value = false; ///< all entries have the same value; if a batch breaks this promise, a larger panel is
                              ///< allocated
};

/// The shape of an input that consists of one batch.
inline InputShape shape_of(SampleBatch const& samples) {
  return {samples.num_samples(), samples.num_entries(), samples.has_one_value()};
}

/// A network prepared for one backend. Only upload_ahead() may be called while another thread uses the object. If
/// neurons are split across ranks, all ranks call infer() with the same batches in the same order.
class Inference {
public:
  virtual ~Inference() = default;

  virtual std::size_t num_inputs() const = 0;
  virtual std::size_t num_outputs() const = 0;
  virtual std::size_t num_layers() const = 0;
  virtual EdgeOffset num_edges() const = 0; ///< edges of the network as it was given

  /// Plans for inputs of this shape: chooses the batch, allocates the panel and returns the plan. Call it before
  /// infer(). Throws ResourceError, naming the needed memory, if not even one tile fits the limit.
  virtual Plan const& plan(InputShape const& input) = 0;

  /// The plan of the next infer(). It differs from plan(input) if the samples of a batch showed that other launches are
  /// faster, or had values that the plan did not expect.
  virtual Plan const& plan() const = 0;

  /// Copies the samples of the next infer() to the device in advance. Affects only the time of infer(). May be called
  /// by another thread while infer() runs.
  virtual void upload_ahead(SampleBatch const& /*samples*/) {}

  /// The memory from which upload_ahead() costs least; null if it makes no difference. May outlive this object.
  virtual std::shared_ptr<SampleMemory> sample_memory() { return nullptr; }

  /// Runs at most one planned batch of samples through all layers.
  virtual BatchResult infer(SampleBatch const& samples, WantedOutputs wanted) = 0;

  /// Samples in the panel before each step of the plan in the last infer(), in order. Shorter than the plan if no
  /// sample was left before its end; empty from engines without steps.
  virtual std::vector<std::size_t> step_samples() const { return {}; }
};

/// Prepares a network for the backend, a few layers in host memory at a time. Weights that do not fit the device are
/// streamed to it from the host; weights that do not fit the host either are read again in each run. The network must
/// therefore outlive the returned object. Throws InputError if the network is malformed, ResourceError if the limits
/// leave no room for two of its layers.
std::unique_ptr<Inference> prepare(NetworkSource const& network, InferenceOptions const& options);

/// Inference::sample_memory() of the object that prepare() returns for these options, to read samples before that.
std::shared_ptr<SampleMemory> sample_memory_for(InferenceOptions const& options);

/// An engine that accepts samples and activations on the device. The Inference that prepare() returns for Varve's own
/// engine also implements this interface.
class InferenceOnDevice {
public:
  virtual ~InferenceOnDevice() = default;

  /// Inference::infer() for dense samples [samples, inputs], the first with number first_sample. Writes the last
  /// activations [samples, outputs]. Everything runs in the instance of the backend's Kokkos execution space at address
  /// `space`; neither samples nor activations are copied to the host. Returns when the activations are written. Throws
  /// InputError if a sample has a value that is not finite.
  virtual BatchResult infer_on_device(void const* space, DeviceInput const& samples, DeviceOutput const& activations,
                                      SampleIndex first_sample) = 0;
};

} // namespace varve
