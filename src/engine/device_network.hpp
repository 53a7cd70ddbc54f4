#pragma once

#include "engine/inference.hpp"
#include "engine/kernel_set.hpp"
#include "engine/layer_store.hpp"
#include "engine/neuron_split.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace varve {

/// A network on a device: its layers in the formats that the plan chose (LayerChooser), and a launch for each step of
/// the plan (LaunchCutter).
class DeviceNetwork {
public:
  /// A step of the plan and its launch.
  struct ReadyStep {
    Step step;
    std::unique_ptr<Launch> work;
    HandOver hand_over; ///< with slices, without lists of samples
  };

  /// Throws InputError if layers do not fit together, ResourceError if weights cannot even be streamed in strips within
  /// the limits. The kernels must outlive this object. `slices`: equals `source` if it is one rank's part of a larger
  /// network, else null; with slices, every layer is a separate step.
  DeviceNetwork(KernelSet const& kernels, std::shared_ptr<NetworkSource const> const& source,
                InferenceOptions const& options, MemoryLimits const& limits, LayerSlices const* slices);

  std::size_t num_inputs() const { return num_inputs_; }
  std::size_t num_outputs() const { return num_outputs_; }
  std::size_t num_layers() const { return cutter_->num_layers(); }
  EdgeOffset num_edges() const { return num_edges_; }
  /// Bytes of weights on the device.
  std::size_t bytes() const { return store_.bytes(); }

  /// The best way for the first layer to read samples. density: entries per sample and input. num_samples: those of
  /// this kind that are known, past ones included; if they are enough, the copy of the layer for few entries is made.
  FirstLayerInput way_for(bool has_one_value, double density, std::size_t num_samples);
  /// Makes a new plan in which the first layer reads the samples in this way, a result of way_for().
  void plan_for(FirstLayerInput way);
  /// How the first layer reads the samples in the present plan.
  FirstLayerInput first_way() const { return first_way_; }
  /// Neurons of the widest layer that the panel must hold; without_tiles: the inputs need no room.
  std::size_t max_neurons(bool without_tiles) const {
    return without_tiles ? max_outputs_ : std::max(max_outputs_, num_inputs_);
  }

  /// True if this is one rank's part of a larger network.
  bool has_slices() const { return slices_ != nullptr; }

  std::vector<ReadyStep> const& steps() const { return steps_; }
  std::size_t saturates_from() const { return cutter_->saturates_from(); }
  /// The last activation of every neuron of permanently saturated samples, rounded to the scalar type.
  double saturated_value() const;

  /// Learns from a batch of num_samples samples; `known` has the shares of live samples after some layers. Returns true
  /// if that led to a new plan.
  bool learn(std::vector<LiveShare> const& known, std::size_t num_samples);

  /// Waits until the weights of this step are on the device for kernels launched next on the stream. Steps must come in
  /// order.
  void acquire(Stream const& stream, ReadyStep const& step) {
    if (store_.stream() != nullptr) store_.stream()->acquire(stream, step.step.segment);
  }
  /// Call at the end of every run, even if it ended before the last step.
  void finish_run(Stream const& stream) {
    if (store_.stream() != nullptr) store_.stream()->finish(stream);
  }
  std::optional<StreamSummary> stream() const;
  WeightTraffic take_traffic();

private:
  void add(std::vector<Layer> const& layers, std::size_t first);
  Encoding choose(Layer const& layer, std::size_t number) const;
  std::size_t end_of_group(std::vector<PlannedLayer> const& planned, std::size_t first) const;
  void take_in(Layer const& layer, PlannedLayer planned);
  void add_first(Layer const& layer);
  bool has_copy_for_entries(std::size_t num_samples);
  std::size_t min_bytes(Layer const& layer, std::size_t number) const;
  void cut_large_layers();
  [[noreturn]] void refuse_strips(std::vector<std::size_t> const& numbers) const;
  void cut_layer(Layer const& layer, std::size_t number);
  void finish();
  void form_launches();
  std::unique_ptr<Launch> launch_of(Step const& step) const;

  KernelSet const& kernels_;
  std::shared_ptr<NetworkSource const> source_;
  DeviceTraits traits_;
  LayerChooser chooser_;
  LayerSlices const* slices_;
  Reductions reductions_;
  bool cuts_layers_;
  bool is_forced_;                    ///< formats or a kernel are requested
  std::size_t encoding_limit_;        ///< host memory in bytes for layers that are being encoded
  std::vector<PlannedLayer> planned_; ///< moves to cutter_ when all layers are known
  std::optional<LaunchCutter> cutter_;
  std::vector<ReadyStep> steps_;
  FirstLayerInput first_way_ = FirstLayerInput::tiles;     ///< how layer 0 reads the samples in the present plan
  FirstLayerInput one_value_way_ = FirstLayerInput::tiles; ///< how it best reads samples whose values are all equal
  LayerChoice one_value_choice_;                           ///< choice of the copy that one_value_way_ reads
  std::optional<FirstLayerChoice> entries_;                ///< copy for samples with few entries, if one is faster
  std::size_t num_inputs_ = 0;
  std::size_t num_outputs_ = 0;
  std::size_t max_outputs_ = 0;
  EdgeOffset num_edges_ = 0;
  LayerStore store_; ///< last member: its thread uses the members before it
};

} // namespace varve
