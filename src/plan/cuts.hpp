#pragma once

#include "network/network.hpp"
#include "plan/choose.hpp"
#include "plan/device_traits.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace varve {

/// The share of a batch's samples that is live after this many layers.
struct LiveShare {
  std::size_t layers = 0;
  double share = 1.0;
};

/// Interpolates the shares after 0, 1, ... num_layers layers from known ones (ascending; the first is after 0 layers):
/// samples leave at a constant rate between two known shares, and none leave after the last one.
std::vector<double> live_shares(std::vector<LiveShare> const& known, std::size_t num_layers);

/// A strip of a layer, which is a separate launch.
struct PlannedStrip {
  OutputStrip outputs;
  LayerChoice choice;      ///< choice of the strip
  std::size_t segment = 0; ///< segment of streamed weights that holds the strip
};

/// The properties of a layer that determine how launches are cut.
struct PlannedLayer {
  LayerChoice choice; ///< the first layer of a run of cones has the choice of the whole run
  std::size_t num_outputs = 0;
  double cap = 0.0;                 ///< cap of the activation; 0: none
  double kept_cap = 0.0;            ///< result of kept_cap() for the layer
  bool keeps_zero = false;          ///< samples that are dead before the layer are dead after it
  std::size_t segment = 0;          ///< segment of streamed weights that holds the layer
  std::vector<PlannedStrip> strips; ///< in order, if the layer is too large for the device; else empty
};

/// Where a run of layers is cut into launches.
struct LaunchCuts {
  std::vector<std::size_t> cuts; ///< the layers that begin a launch, except layer 0; ascending
  double seconds = 0.0;          ///< time of the whole run
};

/// The seconds of a run of layers that one launch may join, with these cuts. live: samples before each layer, and after
/// the last one.
double seconds_of(std::vector<std::size_t> const& cuts, std::span<PlannedLayer const> layers,
                  std::span<double const> live, LaunchCosts const& costs);

/// The cuts with the least time of a run, by dynamic programming in time quadratic in the number of layers.
LaunchCuts choose_cuts(std::span<PlannedLayer const> layers, std::span<double const> live, LaunchCosts const& costs);

/// One launch of a kernel for one or more consecutive layers, and what happens to the samples after it.
struct Step {
  std::size_t first_layer = 0, last_layer = 0; ///< both inclusive
  KernelName kernel = KernelName::direct;
  LayerChoice choice;         ///< the choice of these layers; its numbers are sums over them
  bool reads_bits = false;    ///< the stationary kernel reads samples, whose values are all equal, as bits
  std::size_t segment = 0;    ///< segment of streamed weights that holds these layers
  std::size_t strip = 0;      ///< index of the strip that the launch computes
  std::size_t num_strips = 1; ///< strips of the layer; 1: layers are whole

  bool keeps_dead = true;            ///< dead samples stay, because a later layer may revive them
  bool lists_live = true;            ///< lists the live samples; later steps compute only these
  bool lists_saturated = false;      ///< with lists_live: saturated samples, whose result is known, leave the list
  bool joins_equal = false;          ///< of samples that are equal in all bits, later steps compute only one
  std::size_t next_tile_samples = 0; ///< samples of the tiles that the next step reads

  std::size_t num_layers() const { return last_layer - first_layer + 1; }
  bool ends_layer() const { return strip + 1 == num_strips; } ///< the launch completes all outputs of the layer
};

/// Properties of a run that decide how launches are cut, besides the layers.
struct CutRequest {
  FirstLayerInput first = FirstLayerInput::tiles; ///< how layer 0 reads the samples
  LayerChoice first_choice = {};                  ///< choice of the further copy of layer 0 that `first` reads
  bool finds_saturated = false;                   ///< saturated samples are searched
  bool finds_equal = false;                       ///< equal samples are searched
};

/// Joins layers into launches and decides what happens to the samples between them. Once dead samples stay dead,
/// launches are short at first, while many samples die, then long. After the first batch, learn() places cuts where
/// compaction saves more time than a launch costs.
class LaunchCutter {
public:
  LaunchCutter(std::vector<PlannedLayer> layers, DeviceTraits const& device, CutRequest const& request);

  /// The launches, in order.
  std::vector<Step> steps() const;

  /// A sample that is saturated after at least this many layers stays saturated to the end. num_layers() if saturated
  /// samples are not searched.
  std::size_t saturates_from() const { return saturates_from_; }
  std::size_t num_layers() const { return layers_.size(); }
  std::vector<PlannedLayer> const& layers() const { return layers_; }

  /// The last activation of every neuron of permanently saturated samples.
  double saturated_value() const { return layers_.back().kept_cap; }
  /// True if a sample that is dead after this layer stays dead.
  bool stays_dead_after(std::size_t layer) const { return layer + 1 >= dead_for_ever_; }

  /// Sets CutRequest::first and first_choice for steps().
  void set_first(FirstLayerInput way, LayerChoice const& choice) {
    request_.first = way;
    request_.first_choice = choice;
  }

  /// Learns from a batch of num_samples samples: `known` has the shares of live samples after some layers. Returns true
  /// if other launches of the fused kernel are faster for such samples; steps() then returns them.
  bool learn(std::vector<LiveShare> const& known, std::size_t num_samples);

private:
  bool is_cut_before(std::size_t layer) const;
  bool is_joinable(std::size_t first, std::size_t layer) const;
  bool is_compacted_before(std::size_t layer) const;
  bool lists_after(std::size_t layer, bool reads_lists) const;
  bool joins_equal_after(std::size_t layer) const;
  Step step_of(std::size_t first, std::size_t last) const;
  std::vector<Step> strips_of(Step const& whole) const;
  std::pair<LaunchCuts, double> cut_run(std::size_t first, std::size_t last, std::vector<double> const& live) const;
  bool seeks_saturated() const { return saturates_from_ < layers_.size(); }

  std::vector<PlannedLayer> layers_;
  DeviceTraits device_;
  CutRequest request_;
  std::size_t saturates_from_ = 0;
  std::size_t dead_for_ever_ = 0;    ///< a sample that is dead after at least this many layers stays dead
  std::vector<bool> is_learned_cut_; ///< [layer]: a launch begins there; empty until learn() finds better cuts
};

/// The cap of a layer that maps a saturated sample, whose activations all equal the cap, to a saturated sample;
/// evaluated in Scalar exactly as the layer loop computes it. 0 if the layer does not, or if it has no cap, no inputs
/// or no outputs.
template <class Scalar>
double kept_cap(Layer const& layer);

extern template double kept_cap<float>(Layer const&);
extern template double kept_cap<double>(Layer const&);

/// The smallest number of layers, from 1, after which a saturated sample, whose activations all equal the cap of the
/// last layer, stays saturated to the end, so that its last activations are known without computing them: the layer
/// before has this cap, and all later layers have and keep it. The number of layers if there is no smaller one.
std::size_t find_saturation(std::vector<PlannedLayer> const& layers);

} // namespace varve
