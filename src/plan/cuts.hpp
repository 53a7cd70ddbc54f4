#pragma once

#include "plan/choose.hpp"
#include "plan/device_traits.hpp"
#include "plan/launches.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace varve {

/// What the plan knows of a layer when launches are cut.
struct PlannedLayer {
  LayerChoice choice; ///< of a run of cones: with its first layer, as num_layers of them
  std::size_t num_outputs = 0;
  double cap = 0.0;        ///< 0: none
  double kept_cap = 0.0;   ///< see kept_cap() in passes/saturation.hpp
  bool keeps_zero = false; ///< dead samples stay dead
  std::size_t segment = 0; ///< of streamed weights
};

/// One launch of a kernel, through one or more consecutive layers, and what becomes of the samples behind it.
struct Step {
  std::size_t first_layer = 0, last_layer = 0; ///< both inclusive
  KernelName kernel = KernelName::direct;
  LayerChoice choice;      ///< of all these layers; its numbers are sums
  bool reads_bits = false; ///< the stationary kernel reads samples, whose values are all equal, as bits
  std::size_t segment = 0; ///< of streamed weights

  bool keeps_dead = true;            ///< because a later layer may revive them
  bool lists_live = true;            ///< lists the live samples, who alone go on
  bool lists_saturated = false;      ///< and those that are saturated for ever apart (where lists_live)
  bool joins_equal = false;          ///< goes on with one of each kind of samples that are equal in all bits
  std::size_t next_tile_samples = 0; ///< of the tiles that the next step takes

  std::size_t num_layers() const { return last_layer - first_layer + 1; }
};

/// What to cut launches for, besides the layers.
struct CutRequest {
  FirstLayerWay first = FirstLayerWay::tiles; ///< of samples whose values are all equal, if those of this run are such
  bool finds_saturated = false;
  bool finds_equal = false;
};

/// Joins layers into launches and says what happens to the samples between them. Once samples may leave (no later layer
/// revives them), launches are short at first, while many leave, then long; after the first batch they are as short as
/// it pays, for as many as left there.
class LaunchCutter {
public:
  LaunchCutter(std::vector<PlannedLayer> layers, DeviceTraits const& device, CutRequest const& request);

  /// The launches, in order.
  std::vector<Step> steps() const;

  /// A sample that is saturated after so many layers or more is saturated at the end; num_layers(): none is sought.
  std::size_t saturates_from() const { return saturates_from_; }
  std::size_t num_layers() const { return layers_.size(); }
  std::vector<PlannedLayer> const& layers() const { return layers_; }

  /// Every last activation of samples that are saturated for ever.
  double saturated_value() const { return layers_.back().kept_cap; }
  /// True if a dead sample stays dead from the layer with this number on.
  bool is_dead_for_ever_after(std::size_t layer) const { return layer + 1 >= dead_for_ever_; }

  /// From now on samples are such as this says.
  void set_first(FirstLayerWay first) { request_.first = first; }

  /// Takes in how many samples of a batch of so many were left after which layers. True if other launches of the fused
  /// kernel take less time for such samples: they are what steps() gives from now on.
  bool learn(std::vector<LiveShare> const& known, std::size_t num_samples);

private:
  bool is_cut_before(std::size_t layer) const;
  bool is_joinable(std::size_t first, std::size_t layer) const;
  bool is_compacted_before(std::size_t layer) const;
  bool lists_after(std::size_t layer, bool reads_lists) const;
  bool joins_equal_after(std::size_t layer) const;
  Step step_of(std::size_t first, std::size_t last) const;
  std::pair<LaunchCuts, double> cut_run(std::size_t first, std::size_t last, std::vector<double> const& live) const;
  bool seeks_saturated() const { return saturates_from_ < layers_.size(); }

  std::vector<PlannedLayer> layers_;
  DeviceTraits device_;
  CutRequest request_;
  std::size_t saturates_from_ = 0;
  std::size_t dead_for_ever_ = 0;    ///< a sample that is dead after so many layers or more stays dead
  std::vector<bool> is_learned_cut_; ///< by layer, once samples have been seen: a launch begins there
};

} // namespace varve
