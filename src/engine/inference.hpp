#pragma once

#include "core/backend.hpp"
#include "core/types.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {

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

/// How to run a network. What is left open is chosen by the plan.
struct InferenceOptions {
  Engine engine = Engine::varve;
  Backend backend = Backend::serial;
  Precision precision = Precision::single_precision;
  std::optional<std::size_t> batch;        ///< samples at a time
  std::optional<std::size_t> memory_limit; ///< bytes on the device for weights, panel and samples together
  std::optional<std::string> format;       ///< "csr", "sliced_ell" or "pattern_blocks" for every layer
  std::optional<std::string> kernel;       ///< "direct", "stationary" or "fused" for every layer that it can run
  bool narrow_tiles = false;               ///< a quarter or half of the samples per tile (a study, not a need)
  std::size_t repeat = 1;                  ///< how often the layer loop runs on each batch, for timing
};

/// What to bring back besides the live samples.
struct WantedOutputs {
  bool activations = false;
  bool predictions = false;
};

/// Result of one batch.
struct BatchResult {
  std::vector<SampleIndex> live_samples; ///< ascending numbers of the samples with a nonzero last activation
  std::uint64_t activation_hash = 0;     ///< sum of the fingerprints of all nonzero last activations
  SampleSet activations;                 ///< if wanted: [samples of the batch, outputs], nonzeros
  std::vector<NeuronIndex>
      predictions;                  ///< if wanted: per sample the output of the largest activation, the first of equals
  std::vector<double> loop_seconds; ///< of each repetition, from fence to fence
  double upload_seconds = 0.0;      ///< samples to the device
  double collect_seconds = 0.0;     ///< results back to the host
  double live_edges = 0.0;          ///< edges times the samples that were held when they were used
};

/// What the plan decided and what it needs; all sizes in bytes.
struct PlanSummary {
  std::string engine; ///< which engine, e.g. "varve"
  std::string device;
  std::vector<std::string> choices; ///< readable: formats and kernels with the layers they are used for
  std::size_t batch = 0;            ///< samples at a time
  std::size_t tile_samples = 0;
  std::size_t weight_bytes = 0;
  std::size_t panel_bytes = 0;
  std::size_t sample_bytes = 0;
};

/// A network prepared for one backend. Not safe to use from several threads at a time.
class Inference {
public:
  virtual ~Inference() = default;

  virtual std::size_t num_inputs() const = 0;
  virtual std::size_t num_outputs() const = 0;
  virtual std::size_t num_layers() const = 0;
  virtual EdgeOffset num_edges() const = 0;

  /// Decides the batch for an input of this many samples and entries, allocates the panel and says what was decided.
  /// Throws ResourceError, naming what is needed, if not even one tile fits the limit. Call before infer.
  virtual PlanSummary plan(std::size_t num_samples, EdgeOffset num_entries) = 0;

  /// Runs at most one planned batch of samples through all layers.
  virtual BatchResult infer(SampleSet const& samples, WantedOutputs wanted) = 0;
};

/// Prepares a network for the backend, layer by layer (memory for a few host layers at a time).
/// Throws InputError if the network is malformed, ResourceError if its weights exceed the memory limit.
std::unique_ptr<Inference> prepare(NetworkSource const& network, InferenceOptions const& options);

} // namespace varve
