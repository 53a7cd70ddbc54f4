#pragma once

#include "engine/backends.hpp"
#include "engine/device_network.hpp"
#include "engine/inference.hpp"
#include "engine/neuron_split.hpp"
#include "engine/panel.hpp"
#include "plan/memory.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace varve {

/// A network on a device, its plan, and the panel that the plan needs. All changes of the plan happen here: for a new
/// input, for samples that differ from the expected ones, and after a batch whose live samples show that another plan
/// is better.
class PlannedNetwork {
public:
  /// Throws what DeviceNetwork's constructor throws. The kernels must outlive this object.
  PlannedNetwork(KernelSet const& kernels, NetworkToRun const& network, InferenceOptions const& options);

  DeviceNetwork& network() { return network_; }
  DeviceNetwork const& network() const { return network_; }
  /// Allocated by plan_for().
  Panel& panel() { return *panel_; }
  /// The exchange of activations if neurons are split across ranks; else null.
  ActivationGather* gather() { return gather_ ? &*gather_ : nullptr; }
  Plan const& plan() const { return plan_; }
  /// How often network, plan and panel have been rebuilt.
  std::size_t num_changes() const { return num_changes_; }

  /// Edges of the network as it was given.
  EdgeOffset num_edges() const;
  /// Edges of a step, on all ranks together; the edges of a layer are counted with its last strip. Equals the edges
  /// after reductions.
  EdgeOffset edges_of(std::size_t number) const;

  /// Makes the plan for inputs of this shape and allocates the panel. Throws ResourceError if no batch fits the memory.
  Plan const& plan_for(InputShape const& input);

  /// Makes a new plan if these samples do not suit the way in which the present one reads samples (several values, or
  /// too many entries), or if they have so few entries that no tiles are needed. Throws ResourceError if the panel of
  /// the new plan does not fit the memory.
  void fit_to(SamplesOnDevice const& samples);

  /// Makes a new plan if the live samples of a batch show that other launches are faster. `counts`: live samples after
  /// each list of the panel; `lists_before`: for each step, the number of lists made before it.
  void learn(std::vector<int> const& counts, std::vector<int> const& lists_before, std::size_t num_samples);

private:
  double density_of(std::size_t num_samples, std::size_t num_entries) const;
  void state_plan();
  std::size_t max_neurons() const;
  Panel::Size panel_size(std::size_t samples) const;
  std::size_t panel_bytes(std::size_t samples) const;
  std::optional<std::size_t> enough_to_exchange() const;
  void allocate_panel();

  KernelSet const& kernels_;
  InferenceOptions options_;
  MemoryLimits limits_;
  std::shared_ptr<NetworkSource const> source_;   ///< the whole network, which slices_ reads
  std::shared_ptr<OrderedNetwork const> ordered_; ///< the same network if edges were reordered, else null
  std::optional<ReductionReport> reduction_;
  std::shared_ptr<LayerSlices const> slices_; ///< this rank's part if neurons are split across ranks, else null
  DeviceNetwork network_;
  std::optional<ActivationGather> gather_;
  std::unique_ptr<Panel> panel_;
  Plan plan_;
  std::size_t num_changes_ = 0;
  std::size_t num_of_few_entries_ = 0; ///< samples with few entries so far
};

} // namespace varve
