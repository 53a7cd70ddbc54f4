#pragma once

#include "core/types.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace varve::contenders {

/// One layer as the libraries take it: next(j) = clip(sum of weight(j, i) * previous(i) + bias(j)).
struct HostLayer {
  int num_inputs = 0;
  int num_outputs = 0;
  std::vector<int> row_pointers;    ///< outputs + 1
  std::vector<int> columns;         ///< input of each edge
  std::vector<float> weights;       ///< one per edge
  std::vector<double> bias;         ///< one per output
  float lower = 0.0F, upper = 0.0F; ///< bounds of the activation
  bool removes_dead = false;        ///< nothing after this layer can revive a sample without a positive activation
};

/// Samples as sparse rows.
struct HostSamples {
  int num_samples = 0;
  std::vector<EdgeOffset> row_pointers; ///< samples + 1
  std::vector<int> neurons;             ///< of each entry
  std::vector<float> values;            ///< one per entry
};

/// How activations lie in memory between the layers.
enum class Layout {
  samples_adjacent, ///< [neurons, samples], what SpMM algorithm 2 prefers
  neurons_adjacent  ///< [samples, neurons], what SpMM algorithm 1 prefers
};

struct LoopOptions {
  std::string library = "cusparse"; ///< or "cublas"
  Layout layout = Layout::samples_adjacent;
  int algorithm = 2;        ///< of cuSPARSE's SpMM for CSR: 1, 2 or 3
  bool as_graph = false;    ///< launches recorded once as a CUDA graph; for networks that remove no sample
  std::size_t repeat = 7;   ///< timed runs of the loop
  bool is_verified = false; ///< wants activations back
};

struct LoopResult {
  std::vector<double> seconds;    ///< of each run, from fence to fence
  std::vector<int> live;          ///< samples with a nonzero last activation, ascending
  std::vector<float> activations; ///< if verified: [live, outputs]
};

/// A network on the device and the loop over its layers, by one library.
class LayerLoop {
public:
  virtual ~LayerLoop() = default;

  /// Appends a layer. Throws ResourceError if the device has no room for it.
  virtual void add(HostLayer const& layer) = 0;

  /// Call once. Runs all samples at once: once to warm up, then `repeat` times on the clock. Putting the samples into
  /// dense form is off the clock. Throws ResourceError if device or library fail.
  virtual LoopResult run(HostSamples const& samples) = 0;
};

/// Throws UsageError if there is no such library, algorithm or combination of them.
std::unique_ptr<LayerLoop> make_layer_loop(LoopOptions const& options);

/// "NVIDIA H200".
std::string device_name();

} // namespace varve::contenders
