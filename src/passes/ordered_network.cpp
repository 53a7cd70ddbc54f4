#include "passes/ordered_network.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"

#include <algorithm>
#include <utility>

namespace varve {

std::string to_string(EdgeOrder order) { return order == EdgeOrder::ascending ? "ascending" : "balanced"; }

EdgeOrder parse_edge_order(std::string const& name) {
  for (EdgeOrder const order : {EdgeOrder::ascending, EdgeOrder::balanced})
    if (name == to_string(order)) return order;
  throw UsageError("there is no edge order '" + name + "'; there are: ascending, balanced");
}

OrderedNetwork::OrderedNetwork(std::shared_ptr<NetworkSource const> source, EdgeOrder order)
    : source_(std::move(source)), order_(order), reports_(source_->num_layers()) {}

bool OrderedNetwork::changes(Layer const& layer) const {
  if (order_ == EdgeOrder::forced) return std::max(layer.num_inputs(), layer.num_outputs()) <= kWidestInScratch;
  return order_ == EdgeOrder::balanced && suits_balanced_edges(layer.weights);
}

Layer OrderedNetwork::layer(std::size_t number) const {
  constexpr double least_gain = 1.1; // in wavefronts; a smaller gain does not justify another order of summation
  Layer layer = source_->layer(number);
  Stopwatch const stopwatch;
  if (!changes(layer)) return layer;
  Layer ordered = layer;
  EdgeOrderReport report{1, bank_use(layer.weights, {}), {}, 0.0};
  auto const order = balance_edges(ordered.weights);
  report.chosen = bank_use(ordered.weights, order);
  report.seconds = stopwatch.seconds();
  auto const gain =
      static_cast<double>(report.ascending.num_wavefronts) / static_cast<double>(report.chosen.num_wavefronts);
  if (order_ != EdgeOrder::forced && gain < least_gain) return layer;
  std::lock_guard const lock(guard_);
  reports_[number] = report;
  return ordered;
}

EdgeOrderReport OrderedNetwork::report() const {
  std::lock_guard const lock(guard_);
  EdgeOrderReport all;
  for (auto const& report : reports_) {
    if (!report) continue;
    all.num_layers += report->num_layers;
    all.ascending += report->ascending;
    all.chosen += report->chosen;
    all.seconds += report->seconds;
  }
  return all;
}

} // namespace varve
