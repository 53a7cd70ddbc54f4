#pragma once

#include "core/repeated_launches.hpp"
#include "engine/activation_gather.hpp"
#include "engine/device_network.hpp"
#include "engine/panel.hpp"

#include <cstddef>
#include <tuple>
#include <vector>

namespace varve {

/// Computes a network for all samples of a panel, step by step of its plan: launches kernels and, if neurons are split
/// across ranks, exchanges activations. Allocates nothing.
class LayerLoop {
public:
  explicit LayerLoop(DeviceMemory const& memory) : memory_(memory), launches_(memory) {}

  /// run() at the least host cost for launches that repeat an earlier call. num_changes: number of changes of network
  /// and panel so far.
  void run_again(Stream const& stream, SamplesOnDevice const& samples, DeviceNetwork& network, Panel& panel,
                 std::size_t num_changes);

  /// True if no launch of a run depends on something that the host reads from the device during the run, so that
  /// run_again() may start all of them together.
  bool can_run_again(DeviceNetwork const& network, std::size_t num_samples) const;

  /// Writes the samples to the panel and computes all layers. `gather`: null unless neurons are split across ranks.
  void run(Stream const& stream, SamplesOnDevice const& samples, DeviceNetwork& network, Panel& panel,
           ActivationGather* gather);

  /// For each step of the last run: the number of lists of live samples made before it.
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
