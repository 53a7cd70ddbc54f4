#include "engine/neuron_split.hpp"

#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "plan/memory.hpp"
#include "plan/names.hpp"

#include <algorithm>
#include <limits>
#include <ranges>
#include <utility>

namespace varve {

std::vector<std::size_t> cut_outputs(SparseMatrix const& weights, int num_parts) {
  auto const parts = static_cast<std::size_t>(num_parts);
  auto const cost_before = [&](std::size_t output) { return weights.row_pointers[output] + output; };
  EdgeOffset const whole = cost_before(weights.num_rows);
  auto const outputs = std::views::iota(std::size_t{0}, weights.num_rows + 1);
  std::vector<std::size_t> bounds;
  for (std::size_t part = 0; part < parts; ++part) {
    EdgeOffset const wanted = whole / parts * part + whole % parts * part / parts;
    bounds.push_back(*std::ranges::lower_bound(outputs, wanted, {}, cost_before));
  }
  bounds.push_back(weights.num_rows);
  return bounds;
}

LayerSlices::LayerSlices(NetworkSource const& network, int rank, int num_ranks)
    : network_(network), rank_(rank), num_ranks_(num_ranks), wholes_(network.num_layers()) {}

Layer LayerSlices::layer(std::size_t number) const {
  Layer const all = network_.layer(number);
  if (all.num_outputs() > std::numeric_limits<int>::max())
    layer_is_too_wide(number, all.num_inputs(), all.num_outputs());
  WholeLayer whole{cut_outputs(all.weights, num_ranks_), all.num_edges(), keeps_zero(all)};
  auto const rank = static_cast<std::size_t>(rank_);
  auto const first = whole.bounds[rank];
  auto const last = whole.bounds[rank + 1];
  Layer own = layer_of(all, {first, last - first});
  std::lock_guard const lock(mutex_);
  if (wholes_[number].bounds.empty()) wholes_[number] = std::move(whole); // otherwise other threads may be reading it
  return own;
}

EdgeOffset LayerSlices::num_edges() const {
  EdgeOffset edges = 0;
  for (auto const& whole : wholes_) edges += whole.num_edges;
  return edges;
}

namespace {

/// True if listing the live samples saves at least an eighth of the slots. After a list the next kernel compacts, which
/// costs about as much as a join.
bool pays_off(int live, int held) {
  auto const slots = [](int samples) { return Panel::slots_of(static_cast<std::size_t>(samples)); };
  return 8 * slots(live) <= 7 * slots(held);
}

std::size_t padded(std::size_t bytes) {
  std::size_t const step = RankExchange::granularity;
  return (bytes + step - 1) / step * step;
}

/// Samples in the tiles that num_samples samples occupy, padding included.
std::size_t num_slots(int num_samples, int tile_samples) {
  return static_cast<std::size_t>((num_samples + tile_samples - 1) / tile_samples) *
         static_cast<std::size_t>(tile_samples);
}

} // namespace

std::size_t ActivationGather::bytes(std::size_t max_samples, std::size_t max_neurons) const {
  std::size_t const slots = Panel::slots_of(max_samples);
  auto const ranks = exchange_->num_ranks();
  std::size_t const padding = 2 * RankExchange::granularity;
  return slots * max_neurons * kernels_->scalar_bytes() + ranks * (slots * sizeof(int) + padding);
}

void ActivationGather::allocate(std::size_t max_samples, std::size_t max_neurons) {
  parts_ = {};
  staged_ = {};
  parts_ = kernels_->memory().allocate("varve::parts", bytes(max_samples, max_neurons));
  if (!is_direct_) staged_ = kernels_->memory().allocate_on_host("varve::staged_parts", parts_.size());
}

void ActivationGather::start(std::vector<int> const& tile_samples) {
  seconds_ = bytes_received_ = 0.0;
  if (!tile_samples_.empty()) return; // the same in every run
  std::vector<std::uint64_t> const own(tile_samples.begin(), tile_samples.end());
  for (auto const samples : exchange_->gather(own)) tile_samples_.push_back(static_cast<int>(samples));
}

void ActivationGather::gather(Stream const& stream, Panel& panel, std::size_t layer, int tile_samples,
                              bool keeps_dead) {
  ProfilingRegion const region("varve::exchange");
  stream.fence("varve: before the exchange");
  Stopwatch const time;
  bool const is_last = layer + 1 == slices_->num_layers();
  auto const parts = parts_of(layer, panel.max_samples());
  exchange(stream, panel, parts);
  join(stream, panel, parts, layer, tile_samples);
  int const live = panel.count_live(stream);
  bool const may_list = layer > 0 && !keeps_dead; // a first layer that reads bits does not stamp live samples
  if (is_last || (may_list && pays_off(live, panel.max_samples()))) {
    panel.list_live(stream);
    panel.limit(live);
  }
  seconds_ += time.seconds();
}

std::vector<ActivationGather::Part> ActivationGather::parts_of(std::size_t layer, int num_samples) const {
  auto const& bounds = slices_->whole(layer).bounds;
  std::vector<Part> parts;
  std::size_t place = 0;
  for (std::size_t rank = 0; rank + 1 < bounds.size(); ++rank) {
    Part part{};
    part.first_neuron = static_cast<int>(bounds[rank]);
    part.num_neurons = static_cast<int>(bounds[rank + 1] - bounds[rank]);
    part.tile_samples = tile_samples_[rank * slices_->num_layers() + layer];
    part.num_positions = part.num_neurons == 0 ? 0 : num_slots(num_samples, part.tile_samples);
    part.stamps = place;
    part.activations = part.stamps + padded(part.num_positions * sizeof(int));
    place = part.end = part.activations + padded(activation_bytes(part));
    parts.push_back(part);
  }
  return parts;
}

std::size_t ActivationGather::activation_bytes(Part const& part) const {
  return part.num_positions * static_cast<std::size_t>(part.num_neurons) * kernels_->scalar_bytes();
}

/// Copies the parts of all ranks to the device of this rank.
void ActivationGather::exchange(Stream const& stream, Panel const& panel, std::vector<Part> const& parts) {
  Part const& own = parts[exchange_->rank()];
  std::size_t const end = parts.back().end;
  VARVE_REQUIRE(end <= parts_.size(), "parts larger than planned");
  std::vector<std::size_t> sizes;
  for (auto const& part : parts) sizes.push_back(part.end - part.stamps);
  bytes_received_ += static_cast<double>(end - (own.end - own.stamps));
  put_own(stream, panel, own);
  exchange_->gather_parts(is_direct_ ? parts_.data() : staged_.data(), sizes);
  if (!is_direct_) stream.copy_to_device(parts_.data(), staged_.data(), end);
}

void ActivationGather::put_own(Stream const& stream, Panel const& panel, Part const& own) const {
  auto const put = [&](void const* from, std::size_t place, std::size_t bytes) {
    if (is_direct_) stream.copy_on_device(parts_.data() + place, from, bytes);
    if (!is_direct_) stream.copy_to_host(staged_.data() + place, from, bytes);
  };
  if (own.num_positions > 0) {
    put(panel.arrays().live_stamps, own.stamps, own.num_positions * sizeof(int));
    put(panel.arrays().source, own.activations, activation_bytes(own));
  }
  stream.fence("varve: own part is in its place");
}

void ActivationGather::join(Stream const& stream, Panel& panel, std::vector<Part> const& parts, std::size_t layer,
                            int tile_samples) const {
  auto const num_outputs = static_cast<int>(slices_->whole(layer).num_outputs());
  for (auto const& part : parts) {
    auto const* const stamps = reinterpret_cast<int const*>(parts_.data() + part.stamps);
    kernels_->join_part(stream, panel,
                        {parts_.data() + part.activations, stamps, part.num_positions, part.first_neuron,
                         part.num_neurons, part.tile_samples},
                        num_outputs, tile_samples);
  }
  panel.advance(num_outputs, tile_samples);
}

} // namespace varve
