#pragma once

#include "core/repeated_launches.hpp"
#include "engine/activation_gather.hpp"
#include "engine/device_network.hpp"
#include "engine/panel.hpp"

#include <cstddef>
#include <tuple>
#include <vector>

namespace varve {

/// Takes samples through a network, step by step of its plan: launches kernels and, if neurons are split across ranks,
/// exchanges activations. Allocates nothing.
class LayerLoop {
public:
  explicit LayerLoop(DeviceMemory const& memory) : memory_(memory), launches_(memory) {}

  /// run() of samples, by whatever means the same launches as in an earlier call cost the host least. num_changes: how
  /// often network and panel have been changed.
  void run_again(Lane const& lane, SamplesOnDevice const& samples, DeviceNetwork& network, Panel& panel,
                 std::size_t num_changes);

  /// True if all launches of a run depend on nothing that the host learns from the device meanwhile, so that
  /// run_again() may start them together.
  bool can_run_again(DeviceNetwork const& network, std::size_t num_samples) const;

  /// Brings the samples into the panel and through all layers. `gather`: null unless neurons are split across ranks.
  void run(Lane const& lane, SamplesOnDevice const& samples, DeviceNetwork& network, Panel& panel,
           ActivationGather* gather);

  /// For each step of the last run: how many lists of live samples had been made before it.
  std::vector<int> const& lists_before() const { return lists_before_; }

private:
  using Key = std::tuple<EdgeOffset const*, NeuronIndex const*, void const*, int, int>; ///< the samples
  using After = std::tuple<Panel::Progress, std::vector<int>>;

  DeviceMemory const& memory_;
  std::vector<int> lists_before_;
  RepeatedLaunches<Key, After> launches_;
  std::size_t num_changes_ = 0;
};

} // namespace varve
