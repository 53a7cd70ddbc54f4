#include "engine/layer_loop.hpp"

#include "core/runtime.hpp"

namespace varve {
namespace {

using ReadyStep = DeviceNetwork::ReadyStep;

constexpr std::size_t steps_at_a_time = 32;
constexpr std::size_t max_recorded = 1U << 17; ///< with more samples, Kokkos's scan lists live samples

void forward(Stream const& stream, ReadyStep const& step, Panel& panel) {
  step.work->forward(stream, panel, step.hand_over);
}

/// Computes this rank's neurons without listing live samples, which are known only after the ranks' parts are joined.
void forward_part(Stream const& stream, ReadyStep const& step, Panel& panel) {
  HandOver hand_over;
  hand_over.lists_live = false;
  hand_over.tile_samples = step.work->tile_samples();
  step.work->forward(stream, panel, hand_over);
}

/// By layer: samples of the tiles that its step writes.
std::vector<int> tile_samples(std::vector<ReadyStep> const& steps) {
  std::vector<int> samples;
  for (auto const& step : steps) {
    if (step.step.ends_layer()) samples.push_back(step.work->tile_samples());
  }
  return samples;
}

/// True if no sample is left for the rest of the network. If saturated samples leave early, this copies a count from
/// the device, so it is checked at every 32nd step only.
bool has_no_live_samples(Stream const& stream, std::size_t step, DeviceNetwork const& network, Panel const& panel) {
  if (network.has_slices()) return panel.max_samples() == 0; // the same on all ranks
  if (network.saturates_from() == network.num_layers()) return false;
  return step > 0 && step % steps_at_a_time == 0 && panel.count_samples(stream) == 0;
}

} // namespace

void LayerLoop::run_again(Stream const& stream, SamplesOnDevice const& samples, DeviceNetwork& network, Panel& panel,
                          std::size_t num_changes) {
  if (num_changes != num_changes_) launches_.forget();
  num_changes_ = num_changes;
  Key const key{samples.row_pointers, samples.columns, samples.values, samples.value_stride, samples.num_samples};
  auto const [progress, lists_before] = launches_.run(stream, key, [&](Stream const& launch_stream) {
    run(launch_stream, samples, network, panel, nullptr);
    return After(panel.progress(), lists_before_);
  });
  panel.take_progress(samples, progress);
  lists_before_ = lists_before;
}

bool LayerLoop::can_run_again(DeviceNetwork const& network, std::size_t num_samples) const {
  if (!memory_.can_record() || network.has_slices() || network.stream() || num_samples > max_recorded) return false;
  bool const asks = network.saturates_from() != network.num_layers() && network.steps().size() > steps_at_a_time;
  for (auto const& step : network.steps()) {
    if (step.hand_over.joins_equal) return false; // Kokkos allocates for its scan
  }
  return !asks;
}

void LayerLoop::run(Stream const& stream, SamplesOnDevice const& samples, DeviceNetwork& network, Panel& panel,
                    ActivationGather* gather) {
  ProfilingRegion const region("varve::layer_loop");
  auto const& steps = network.steps();
  lists_before_.clear();
  panel.start(stream, samples);
  if (gather != nullptr) gather->start(tile_samples(steps));
  for (std::size_t number = 0; number < steps.size() && !has_no_live_samples(stream, number, network, panel);
       ++number) {
    lists_before_.push_back(panel.num_lists());
    network.acquire(stream, steps[number]); // the step's weights are on the device from here on
    if (gather == nullptr) {
      forward(stream, steps[number], panel); // sparse product, bias, activation; then dead samples leave
    } else {
      forward_part(stream, steps[number], panel); // sparse product, bias, activation for this rank's neurons
      if (steps[number].step.ends_layer())
        gather->gather(stream, panel, steps[number].step.first_layer, steps[number].hand_over.tile_samples,
                       steps[number].hand_over.keeps_dead);
    }
  }
  network.finish_run(stream);
}

} // namespace varve
