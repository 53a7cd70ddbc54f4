#include "radixnet/random.hpp"
#include "reference/train.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace varve {
namespace {

/// An edge with all that it has.
template <class Scalar>
struct WholeEdge {
  std::size_t place; ///< output * num_inputs + input
  Scalar weight;
  std::vector<Scalar> moments;
};

template <class Scalar>
std::vector<WholeEdge<Scalar>> edges_of(TrainedLayer<Scalar> const& layer, LayerMoments<Scalar> const& moments) {
  std::vector<WholeEdge<Scalar>> edges;
  for (std::size_t output = 0; output < layer.pattern.num_rows; ++output) {
    for (auto edge = layer.pattern.row_pointers[output]; edge < layer.pattern.row_pointers[output + 1]; ++edge) {
      WholeEdge<Scalar> whole{
          output * layer.pattern.num_columns + layer.pattern.column_indices[edge], layer.weights[edge], {}};
      for (auto const& moment : moments.weights) whole.moments.push_back(moment[edge]);
      edges.push_back(std::move(whole));
    }
  }
  return edges;
}

template <class Scalar>
void set_edges(std::vector<WholeEdge<Scalar>> const& edges, TrainedLayer<Scalar>& layer,
               LayerMoments<Scalar>& moments) {
  auto& pattern = layer.pattern;
  pattern.column_indices.clear();
  layer.weights.clear();
  for (auto& moment : moments.weights) moment.clear();
  std::vector<EdgeOffset> sizes(pattern.num_rows, 0);
  for (auto const& edge : edges) {
    ++sizes[edge.place / pattern.num_columns];
    pattern.column_indices.push_back(static_cast<NeuronIndex>(edge.place % pattern.num_columns));
    layer.weights.push_back(edge.weight);
    for (std::size_t number = 0; number < edge.moments.size(); ++number)
      moments.weights[number].push_back(edge.moments[number]);
  }
  for (std::size_t row = 0; row < pattern.num_rows; ++row)
    pattern.row_pointers[row + 1] = pattern.row_pointers[row] + sizes[row];
}

/// The layers with an edge at every place; new ones have weight 0.
template <class Scalar>
std::vector<TrainedLayer<Scalar>> filled(std::vector<TrainedLayer<Scalar>> const& layers) {
  std::vector<TrainedLayer<Scalar>> full;
  for (auto layer : layers) {
    LayerMoments<Scalar> none;
    std::vector<WholeEdge<Scalar>> edges;
    for (std::size_t place = 0; place < layer.pattern.num_rows * layer.pattern.num_columns; ++place)
      edges.push_back({place, Scalar{0}, {}});
    for (auto const& edge : edges_of(layer, none)) edges[edge.place] = edge;
    set_edges(edges, layer, none);
    full.push_back(std::move(layer));
  }
  return full;
}

/// The first `count` free places of a shuffle, or those with the largest gradients (by place).
template <class Scalar>
std::vector<std::size_t> grown_places(std::vector<std::size_t> free, std::size_t count, PatternEvent const& event,
                                      std::size_t layer, std::vector<Scalar> const& gradients) {
  if (event.kind == PatternKind::set) {
    RandomStream random(event.seed, growth_stream(event, layer));
    for (std::size_t i = 0; i < count; ++i) std::swap(free[i], free[i + random.below(free.size() - i)]);
  } else {
    auto const magnitude = [&](std::size_t place) {
      Scalar const gradient = std::abs(gradients[place]);
      return std::isnan(gradient) ? Scalar{0} : gradient;
    };
    std::ranges::stable_sort(free, std::greater<>(), magnitude); // equal ones stay in their order
  }
  free.resize(count);
  return free;
}

template <class Scalar>
PatternCount change(TrainedLayer<Scalar>& layer, LayerMoments<Scalar>& moments, PatternEvent const& event,
                    std::size_t number, std::vector<Scalar> const& gradients) {
  auto edges = edges_of(layer, moments);
  std::size_t const num_places = layer.pattern.num_rows * layer.pattern.num_columns;
  auto const count = static_cast<std::size_t>(edges_to_drop(event.fraction, edges.size(), num_places));
  std::ranges::stable_sort(edges, std::greater<>(), [](auto const& edge) { return std::abs(edge.weight); });
  std::set<std::size_t> dropped;
  std::set<std::size_t> kept;
  for (std::size_t i = 0; i < edges.size(); ++i) (i < edges.size() - count ? kept : dropped).insert(edges[i].place);
  edges.resize(edges.size() - count);
  std::vector<std::size_t> free;
  for (std::size_t place = 0; place < num_places; ++place)
    if (!kept.contains(place)) free.push_back(place);
  PatternCount result{count, 0};
  for (auto const place : grown_places(free, count, event, number, gradients)) {
    edges.push_back({place, Scalar{0}, std::vector<Scalar>(moments.weights.size(), Scalar{0})});
    result.returned += dropped.contains(place) ? 1 : 0;
  }
  std::ranges::sort(edges, {}, &WholeEdge<Scalar>::place);
  set_edges(edges, layer, moments);
  return result;
}

} // namespace

template <class Scalar>
PatternCount ReferenceTraining<Scalar>::evolve(SampleSet const& samples, Answers const& answers,
                                               PatternEvent const& event) {
  Gradient<Scalar> everywhere;
  everywhere.layers.resize(layers_.size());
  if (event.kind == PatternKind::rigl) everywhere = gradient_of(filled(layers_), samples, answers, loss_);
  PatternCount count;
  for (std::size_t number = 0; number < layers_.size(); ++number)
    count += change(layers_[number], moments_[number], event, number, everywhere.layers[number].weights);
  return count;
}

template PatternCount ReferenceTraining<float>::evolve(SampleSet const&, Answers const&, PatternEvent const&);
template PatternCount ReferenceTraining<double>::evolve(SampleSet const&, Answers const&, PatternEvent const&);

} // namespace varve
