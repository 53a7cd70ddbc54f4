#include "passes/reduced_network.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"

#include <utility>

namespace varve {

namespace {

std::vector<NeuronIndex> numbers_of(NeuronMap const& map) {
  std::vector<NeuronIndex> numbers(map.num_before);
  for (std::size_t neuron = 0; neuron < numbers.size(); ++neuron) numbers[neuron] = map.number(neuron);
  return numbers;
}

bool any(NetworkPasses passes) { return passes.merge_neurons || passes.fold_constants || passes.drop_unread; }

} // namespace

ReducedNetwork::ReducedNetwork(NetworkSource const& source, NetworkPasses passes, std::size_t keep_bytes,
                               std::size_t ahead_bytes, OutputHash hash)
    : source_(source) {
  Stopwatch const stopwatch;
  bool const is_rewritten = any(passes) && sweep_forwards(passes, keep_bytes, ahead_bytes, hash);
  if (is_rewritten) sweep_backwards();
  if (!is_rewritten) take_source(ahead_bytes);
  if (!found_any()) entries_.clear();
  report_.seconds = stopwatch.seconds();
}

Layer ReducedNetwork::layer(std::size_t number) const {
  VARVE_REQUIRE(number < num_layers(), "layer number lies outside the network");
  if (entries_.empty()) return source_.layer(number);
  auto const& kept = entries_[number].layer;
  return kept ? passing_copy(*kept) : rewritten(number);
}

Layer ReducedNetwork::rewritten(std::size_t number) const {
  auto const& entry = entries_[number];
  if (entry.layer) return *entry.layer;
  Layer const layer = source_.layer(number);
  auto const as_they_are = NeuronMap::identity(layer.num_inputs());
  return rewrite(layer, number == 0 ? as_they_are : *entries_[number - 1].outputs, *entry.outputs);
}

LayersAhead::StudiedLayer ReducedNetwork::next_of_source(LayersAhead& ahead, std::size_t number,
                                                         std::size_t outputs_before) {
  Stopwatch const stopwatch;
  auto next = ahead.next();
  report_.read_seconds += stopwatch.seconds();
  if (number > 0) require_fit(outputs_before, next.layer, number);
  report_.neurons_before += next.layer.num_outputs();
  report_.edges_before += next.layer.num_edges();
  return next;
}

bool ReducedNetwork::sweep_forwards(NetworkPasses passes, std::size_t keep_bytes, std::size_t ahead_bytes,
                                    OutputHash hash) {
  entries_.resize(num_layers());
  LayersAhead ahead(source_, ahead_bytes, [&](Layer const& layer) {
    return passes.merge_neurons ? firsts_of_equals(layer, hash) : std::vector<NeuronIndex>();
  });
  NeuronMap inputs;
  for (std::size_t number = 0; number < num_layers(); ++number) {
    auto [layer, firsts] = next_of_source(ahead, number, inputs.num_before);
    if (number == 0) inputs = NeuronMap::identity(layer.num_inputs());
    bool const is_last = number + 1 == num_layers();
    OutputPasses const output_passes{passes.merge_neurons && (passes.merge_outputs || !is_last),
                                     passes.fold_constants && !is_last};
    auto result = rewrite(std::move(layer), std::move(firsts), inputs, output_passes, hash);
    if (!result) return false;
    inputs = result->outputs;
    if (passes.drop_unread && number > 0) entries_[number - 1].is_read = unless_all_read(result->layer.weights);
    count(*result);
    keep_bytes -= store(std::move(*result), number, keep_bytes);
  }
  output_map_ = numbers_of(inputs);
  return true;
}

void ReducedNetwork::count(RewrittenLayer const& rewritten) {
  report_.neurons_after += rewritten.layer.num_outputs();
  report_.edges_after += rewritten.layer.num_edges();
  report_.merged_neurons += rewritten.merged_neurons;
  report_.constant_neurons += rewritten.constant_neurons;
}

std::size_t ReducedNetwork::store(RewrittenLayer rewritten, std::size_t number, std::size_t keep_bytes) {
  auto& entry = entries_[number];
  entry.outputs = std::move(rewritten.outputs);
  std::size_t const bytes = bytes_of(rewritten.layer);
  if (bytes > keep_bytes) return 0;
  entry.layer = std::move(rewritten.layer);
  bool const is_last = number + 1 == num_layers();
  if (is_last) entry.outputs.reset();
  if (number > 0 && entries_[number - 1].layer) entries_[number - 1].outputs.reset();
  return bytes;
}

void ReducedNetwork::sweep_backwards() {
  for (std::size_t number = num_layers() - 1; number-- > 0;) {
    auto const is_read = std::exchange(entries_[number].is_read, {});
    if (!is_read.empty()) drop_outputs(number, is_read);
  }
}

void ReducedNetwork::drop_outputs(std::size_t number, std::vector<bool> const& is_read) {
  Layer layer = rewritten(number);
  report_.neurons_after -= layer.num_outputs();
  report_.edges_after -= layer.num_edges();
  report_.unread_neurons += layer.num_outputs();
  keep_outputs(layer, is_read);
  report_.neurons_after += layer.num_outputs();
  report_.edges_after += layer.num_edges();
  report_.unread_neurons -= layer.num_outputs();

  auto& entry = entries_[number];
  if (entry.outputs) keep_neurons(*entry.outputs, is_read);
  if (entries_[number + 1].layer) keep_inputs(*entries_[number + 1].layer, is_read);
  if (number > 0) entries_[number - 1].is_read = unless_all_read(layer.weights);
  if (entry.layer) entry.layer = std::move(layer);
}

void ReducedNetwork::take_source(std::size_t ahead_bytes) {
  report_ = {.read_seconds = report_.read_seconds};
  LayersAhead ahead(source_, ahead_bytes, [](Layer const&) { return std::vector<NeuronIndex>(); });
  std::size_t outputs = 0;
  for (std::size_t number = 0; number < num_layers(); ++number)
    outputs = next_of_source(ahead, number, outputs).layer.num_outputs();
  report_.neurons_after = report_.neurons_before;
  report_.edges_after = report_.edges_before;
  output_map_ = numbers_of(NeuronMap::identity(outputs));
}

} // namespace varve
