#include "engine/planned_network.hpp"

#include "core/runtime.hpp"
#include "engine/sample_upload.hpp"
#include "plan/names.hpp"

#include <algorithm>
#include <string>

namespace varve {
namespace {

constexpr std::size_t max_slots = 1U << 30;

/// This rank's part of the network, if its neurons are split.
std::shared_ptr<LayerSlices const> slices_of(NetworkSource const& network, InferenceOptions const& options) {
  if (!options.exchange) return nullptr;
  return std::make_shared<LayerSlices const>(network, static_cast<int>(options.exchange->rank()),
                                             static_cast<int>(options.exchange->num_ranks()));
}

/// The options without those that are impossible: with neurons split across ranks, no rank sees whole samples, so
/// saturated and equal samples are not searched.
InferenceOptions possible(InferenceOptions options) {
  if (options.exchange) options.reductions.saturation = options.reductions.equal_samples = false;
  return options;
}

} // namespace

PlannedNetwork::PlannedNetwork(KernelSet const& kernels, NetworkToRun const& network, InferenceOptions const& options)
    : kernels_(kernels),
      options_(possible(options)),
      limits_(memory_limits(options, options.backend)),
      source_(network.layers),
      ordered_(network.ordered),
      reduction_(network.reduction),
      slices_(slices_of(*source_, options)),
      network_(kernels, slices_ ? slices_ : source_, options_, limits_, slices_.get()) {
  if (slices_) gather_.emplace(kernels, *slices_, *options.exchange);
}

EdgeOffset PlannedNetwork::num_edges() const {
  if (reduction_) return reduction_->edges_before;
  return slices_ ? slices_->num_edges() : network_.num_edges();
}
EdgeOffset PlannedNetwork::edges_of(std::size_t number) const {
  Step const& step = network_.steps()[number].step;
  if (!slices_) return step.choice.num_edges;
  return step.ends_layer() ? slices_->whole(step.first_layer).num_edges : 0;
}

Plan const& PlannedNetwork::plan_for(InputShape const& input) {
  auto const density = density_of(input.num_samples, input.num_entries);
  network_.plan_for(network_.way_for(input.has_one_value, density, num_of_few_entries_ + input.num_samples));
  std::size_t const entries_per_sample =
      input.num_samples == 0 ? 0 : (input.num_entries + input.num_samples - 1) / input.num_samples;
  std::size_t const sample_bytes = SampleUpload::bytes_per_sample(kernels_, entries_per_sample, input.has_one_value);
  auto const bytes_of = [&](std::size_t samples) { return panel_bytes(samples) + samples * sample_bytes; };
  BatchRequest const request{input.num_samples, options_.batch,          enough_to_exchange(),
                             network_.bytes(),  Panel::slot_granularity, max_slots};
  plan_.batch = choose_batch(request, limits_.device, bytes_of);
  allocate_panel();
  plan_.sample_bytes = plan_.batch * sample_bytes;
  state_plan();
  return plan_;
}

void PlannedNetwork::fit_to(SamplesOnDevice const& samples) {
  auto const num_samples = static_cast<std::size_t>(samples.num_samples);
  auto const density = density_of(num_samples, samples.num_entries);
  if (density <= kFewEntries) num_of_few_entries_ += num_samples;
  auto const way = network_.way_for(samples.value_stride == 0, density, num_of_few_entries_);
  auto const before = network_.first_way();
  if (way == before || (before == FirstLayerInput::tiles && way != FirstLayerInput::entries)) return;
  auto const exceeds_memory = [&] { return network_.bytes() + panel_bytes(plan_.batch) > limits_.device; };
  network_.plan_for(way);
  if (way == FirstLayerInput::entries && exceeds_memory()) { // by its copy of the layer, which is not needed
    bool const suits_before = before == FirstLayerInput::tiles || samples.value_stride == 0;
    network_.plan_for(suits_before ? before : FirstLayerInput::tiles);
    if (suits_before) return;
  }
  if (exceeds_memory())
    batch_exceeds_memory(plan_.batch, panel_bytes(plan_.batch), network_.bytes(), limits_.device, 0);
  allocate_panel();
  state_plan();
}

void PlannedNetwork::learn(std::vector<int> const& counts, std::vector<int> const& lists_before,
                           std::size_t num_samples) {
  constexpr std::size_t too_few = 1024; // smaller batches predict little about other batches
  if (gather_ || num_samples < too_few) return;
  auto const share_of = [&](int list) {
    return static_cast<double>(counts[static_cast<std::size_t>(list)]) / static_cast<double>(num_samples);
  };
  std::vector<LiveShare> known{{0, 1.0}};
  for (std::size_t i = 1; i < lists_before.size(); ++i) {
    if (lists_before[i] == lists_before[i - 1]) continue; // no list since the step before, so no new count
    known.push_back({network_.steps()[i].step.first_layer, share_of(lists_before[i])});
  }
  known.push_back({network_.num_layers(), share_of(panel_->num_lists())});
  if (network_.learn(known, num_samples)) state_plan();
}

/// Entries per sample and input.
double PlannedNetwork::density_of(std::size_t num_samples, std::size_t num_entries) const {
  return static_cast<double>(num_entries) /
         std::max(1.0, static_cast<double>(num_samples) * static_cast<double>(network_.num_inputs()));
}

/// Sets plan_ from the network's present steps.
void PlannedNetwork::state_plan() {
  ++num_changes_;
  plan_.engine = to_string(Engine::varve);
  plan_.device = device_name(options_.backend);
  plan_.reduction = reduction_;
  if (ordered_) plan_.edge_order = ordered_->report();
  if (slices_) {
    plan_.method = "neurons split over " + std::to_string(options_.exchange->num_ranks()) +
                   " ranks, who exchange the activations of each layer; saturated or equal samples are not sought";
  }
  if (network_.saturates_from() < network_.num_layers()) plan_.saturates_from = network_.saturates_from();
  plan_.steps.clear();
  for (auto const& ready : network_.steps()) plan_.steps.push_back(ready.step);
  plan_.stream = network_.stream();
  plan_.weight_bytes = network_.bytes();
  plan_.panel_bytes = panel_bytes(plan_.batch);
}

Panel::Size PlannedNetwork::panel_size(std::size_t samples) const {
  auto const way = network_.first_way();
  bool const reads_bits = way == FirstLayerInput::own_bits || way == FirstLayerInput::bits;
  return {samples, max_neurons(), 2 * network_.num_layers() + 1, reads_bits ? network_.num_inputs() : 0,
          options_.reductions.equal_samples};
}
std::size_t PlannedNetwork::panel_bytes(std::size_t samples) const {
  std::size_t const part_bytes = gather_ ? gather_->bytes(samples, max_neurons()) : 0;
  return Panel::bytes(panel_size(samples), kernels_.scalar_bytes()) + part_bytes;
}
/// Neurons of the widest layer that the panel must hold: the inputs need no room if the first layer reads no tiles.
std::size_t PlannedNetwork::max_neurons() const {
  return network_.max_neurons(network_.first_way() != FirstLayerInput::tiles);
}

/// Samples at a time beyond which exchanges get no faster per sample: their parts have 1 GiB.
std::optional<std::size_t> PlannedNetwork::enough_to_exchange() const {
  if (!gather_) return std::nullopt;
  constexpr std::size_t bytes = std::size_t(1) << 30U;
  std::size_t const step = Panel::slot_granularity;
  return std::max<std::size_t>(1, bytes / gather_->bytes(step, network_.max_neurons(false))) * step;
}

void PlannedNetwork::allocate_panel() {
  panel_.reset(); // frees the old panel before the new one is allocated
  panel_ = kernels_.new_panel(panel_size(plan_.batch));
  if (gather_) gather_->allocate(plan_.batch, max_neurons());
}

} // namespace varve
