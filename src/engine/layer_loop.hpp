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
template <class ExecutionSpace, class Scalar>
class LayerLoop {
public:
  using Network = DeviceNetwork<ExecutionSpace, Scalar>;
  using PanelType = Panel<ExecutionSpace, Scalar>;
  using Gather = ActivationGather<ExecutionSpace, Scalar>;

  /// run() of samples, by whatever means the same launches as in an earlier call cost the host least. num_changes: how
  /// often network and panel have been changed.
  void run_again(ExecutionSpace const& space, DeviceSamples<ExecutionSpace, Scalar> const& samples, Network& network,
                 PanelType& panel, std::size_t num_changes) {
    if (num_changes != num_changes_) launches_.forget();
    num_changes_ = num_changes;
    Key const key{samples.row_pointers.data(), samples.columns.data(), samples.values.data(), samples.value_stride,
                  samples.num_samples};
    auto const [progress, lists_before] = launches_.run(space, key, [&](ExecutionSpace const& launch_space) {
      run(launch_space, samples, network, panel, nullptr);
      return After(panel.progress(), lists_before_);
    });
    panel.take_progress(samples, progress);
    lists_before_ = lists_before;
  }

  /// True if all launches of a run depend on nothing that the host learns from the device meanwhile, so that
  /// run_again() may start them together.
  static bool can_run_again(Network const& network, std::size_t num_samples) {
    if constexpr (kOnHost<ExecutionSpace>) return false;
#if defined(KOKKOS_ENABLE_DEBUG_BOUNDS_CHECK)
    return false; // launches hold the sizes of arrays, which Key does not
#endif
    if (network.has_slices() || network.stream() || num_samples > most_recorded) return false;
    bool const asks = network.saturates_from() != network.num_layers() && network.steps().size() > steps_at_a_time;
    for (auto const& step : network.steps()) {
      if (step.hand_over.joins_equal) return false; // Kokkos allocates for its scan
    }
    return !asks;
  }

  /// Brings the samples into the panel and through all layers. `gather`: null unless neurons are split across ranks.
  void run(ExecutionSpace const& space, DeviceSamples<ExecutionSpace, Scalar> const& samples, Network& network,
           PanelType& panel, Gather* gather) {
    ProfilingRegion const region("varve::layer_loop");
    auto const& steps = network.steps();
    lists_before_.clear();
    panel.start(space, samples);
    if (gather != nullptr) gather->start(tile_samples(steps));
    for (std::size_t number = 0; number < steps.size() && !nobody_is_left(space, number, network, panel); ++number) {
      lists_before_.push_back(panel.num_lists());
      network.acquire(space, steps[number]); // the step's weights are on the device from here on
      if (gather == nullptr) {
        forward(space, steps[number], panel); // sparse product, bias, activation; then dead samples leave
      } else {
        forward_part(space, steps[number], panel); // sparse product, bias, activation for this rank's neurons
        if (steps[number].step.ends_layer())
          gather->gather(space, panel, steps[number].step.first_layer, steps[number].hand_over.tile_samples,
                         steps[number].hand_over.keeps_dead);
      }
    }
    network.finish_run(space);
  }

  /// For each step of the last run: how many lists of live samples had been made before it.
  std::vector<int> const& lists_before() const { return lists_before_; }

private:
  using ReadyStep = typename Network::ReadyStep;
  using Key = std::tuple<EdgeOffset const*, NeuronIndex const*, Scalar const*, int, int>; ///< the samples
  using After = std::tuple<typename PanelType::Progress, std::vector<int>>;
  static constexpr std::size_t steps_at_a_time = 32;
  static constexpr std::size_t most_recorded = 1U << 17; ///< for more, live samples are listed by a scan of Kokkos

  static void forward(ExecutionSpace const& space, ReadyStep const& step, PanelType& panel) {
    step.work->forward(space, panel, step.hand_over);
  }

  /// Computes this rank's neurons without listing live samples, which are known only when the ranks' parts are joined.
  static void forward_part(ExecutionSpace const& space, ReadyStep const& step, PanelType& panel) {
    typename Network::Work::HandOver hand_over;
    hand_over.lists_live = false;
    hand_over.tile_samples = step.work->tile_samples();
    step.work->forward(space, panel, hand_over);
  }

  /// By layer: samples of the tiles that its step writes.
  static std::vector<int> tile_samples(std::vector<ReadyStep> const& steps) {
    std::vector<int> samples;
    for (auto const& step : steps) {
      if (step.step.ends_layer()) samples.push_back(step.work->tile_samples());
    }
    return samples;
  }

  /// True if the rest of the network has nothing to do. Where saturated samples leave before the end, this takes a copy
  /// from the device, so only every 32nd step asks.
  static bool nobody_is_left(ExecutionSpace const& space, std::size_t step, Network const& network,
                             PanelType const& panel) {
    if (network.has_slices()) return panel.max_samples() == 0; // the same on all ranks
    if (network.saturates_from() == network.num_layers()) return false;
    return step > 0 && step % steps_at_a_time == 0 && panel.count_samples(space) == 0;
  }

  std::vector<int> lists_before_;
  RepeatedLaunches<ExecutionSpace, Key, After> launches_;
  std::size_t num_changes_ = 0;
};

} // namespace varve
