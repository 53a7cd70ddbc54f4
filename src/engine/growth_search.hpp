#pragma once

#include "engine/training_step.hpp"
#include "passes/regrow.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace varve {

/// Neighbouring outputs of a layer whose gradients at all places are in memory at the same time.
struct GrowthBlock {
  std::size_t layer;
  std::size_t first_output;
  std::size_t num_outputs;
  std::size_t first_sum; ///< index of the block's first gradient in memory

  bool operator==(GrowthBlock const&) const = default;
};

/// Cuts the layers with growing[layer] into blocks of at most max_sums places (at least one output). Returns a list of
/// blocks for each pass of the mini-batch through the network. If the mini-batch is one micro-batch, there is one pass,
/// and each block begins at sum 0, because its gradients are complete at once. Otherwise all blocks of a pass are in
/// memory until the last micro-batch. Blocks of a layer ascend over all passes. The first block of a layer has about
/// 16384 places; each other block has at most as many as all blocks before it. Those blocks raise the limit that
/// candidates must exceed, so each block yields about as many candidates as are wanted in total.
inline std::vector<std::vector<GrowthBlock>> growth_passes(Network const& network, std::vector<bool> const& growing,
                                                           std::size_t max_sums, bool is_one_micro_batch) {
  constexpr std::size_t first_places = 16384; // of the first block of a layer; small, because most become candidates
  std::vector<std::vector<GrowthBlock>> passes(1);
  std::size_t used = 0; // sums of the last pass
  for (std::size_t number = 0; number < network.num_layers(); ++number) {
    auto const& layer = network.layers()[number];
    if (!growing[number]) continue;
    for (std::size_t first = 0; first < layer.num_outputs();) {
      if (is_one_micro_batch) used = 0;
      std::size_t const room = (max_sums - std::min(used, max_sums)) / layer.num_inputs();
      std::size_t const wanted = std::max(first, first_places / layer.num_inputs());
      if (room == 0 && used > 0) {
        passes.emplace_back();
        used = 0;
        continue;
      }
      std::size_t const count = std::clamp<std::size_t>(std::min(room, wanted), 1, layer.num_outputs() - first);
      passes.back().push_back({number, first, count, used});
      used += count * layer.num_inputs();
      first += count;
    }
  }
  return passes;
}

/// Finds the free places with the largest gradients of a mini-batch, block by block: computes the gradients of all
/// places of a block, adds them up over the mini-batch by the tree over leaves, and keeps the best candidates.
template <class Scalar>
class GrowthSearch {
public:
  using Passes = TrainingPasses<Scalar>;
  using Panel = LeafPanel<Scalar>;
  template <class T>
  using Array = DeviceNumbers<T>;

  /// kept: the layers with the edges that keep their places; counts: wanted places by layer; forward: runs the forward
  /// pass of a micro-batch. All must outlive this object.
  GrowthSearch(TrainingKernels<Scalar> const& kernels, Stream const& stream, Passes& passes, Network const& kept,
               std::vector<EdgeOffset> const& counts, std::size_t num_micro_batches, std::size_t max_sums,
               std::function<void(std::size_t)> const& forward)
      : kernels_(kernels),
        stream_(stream),
        passes_(passes),
        kept_(&kept),
        forward_(forward),
        num_micro_batches_(num_micro_batches),
        best_(counts.begin(), counts.end()) {
    std::vector<bool> growing;
    for (auto const count : counts) growing.push_back(count > 0);
    blocks_ = growth_passes(kept, growing, max_sums, num_micro_batches == 1);
    for (auto const& pass : blocks_)
      for (auto const& block : pass) max_sums_ = std::max(max_sums_, block.first_sum + num_places(block));
    places_ = new_numbers<std::uint32_t>(kernels.memory(), "varve::free_places", max_sums_);
    magnitudes_ = new_numbers<Scalar>(kernels.memory(), "varve::free_magnitudes", max_sums_);
  }

  /// The best places of each layer, ascending.
  std::vector<std::vector<PlaceNumber>> run() {
    ProfilingRegion const region("varve::growth_search");
    for (auto const& blocks : blocks_) {
      height_ = 0;
      for (std::size_t micro = 0; micro < num_micro_batches_; ++micro) {
        if (totals_.size() == height_)
          totals_.push_back(new_numbers<Scalar>(kernels_.memory(), "varve::place_gradients", max_sums_));
        forward_(micro);
        passes_.visit_errors(stream_, [&](std::size_t layer, Panel const& inputs, Panel const& errors, int positions) {
          for (auto const& block : blocks)
            if (block.layer == layer) add_up(block, inputs, errors, positions);
        });
        add_to_tree(micro);
      }
      if (num_micro_batches_ > 1)
        for (auto const& block : blocks) take_candidates(block);
    }
    std::vector<std::vector<PlaceNumber>> found;
    for (auto const& best : best_) found.push_back(best.places());
    return found;
  }

private:
  SparseMatrix const& pattern_of(GrowthBlock const& block) const { return kept_->layers()[block.layer].weights; }
  std::size_t num_places(GrowthBlock const& block) const { return block.num_outputs * pattern_of(block).num_columns; }

  /// Computes the sums of a block over the present micro-batch; takes its candidates if this is the whole mini-batch.
  void add_up(GrowthBlock const& block, Panel const& inputs, Panel const& errors, int num_positions) {
    PlaceBlock<Scalar> const places = place_block(block, inputs, errors, num_positions);
    auto const num_leaves = static_cast<int>(varve::num_leaves<Scalar>(static_cast<std::size_t>(num_positions)));
    int const per_run = kernels_.leaves_of_places(places.num_inputs, places.block_outputs, num_leaves);
    std::size_t const needed = size_of_levels(num_places(block), num_leaves, per_run);
    if (levels_.size() < needed) levels_ = new_numbers<Scalar>(kernels_.memory(), "varve::place_leaf_sums", needed);
    GradientLevels<Scalar> const levels{{levels_, num_places(block), per_run, num_leaves}, {}};
    kernels_.place_gradients(stream_, places, levels.weights);
    kernels_.totals(stream_, levels, nullptr, totals_[height_], block.first_sum, 0);
    if (num_micro_batches_ == 1) take_candidates(block);
  }

  /// Merges the sums over a micro-batch with the sums over neighbouring earlier subtrees. After the last micro-batch,
  /// the bottom of the stack holds the sums over the mini-batch. All micro-batches but the last have the same number of
  /// leaves, a power of two.
  void add_to_tree(std::size_t micro) {
    std::size_t merges = micro + 1 == num_micro_batches_ ? height_ : static_cast<std::size_t>(std::countr_one(micro));
    for (; merges > 0; --merges, --height_) kernels_.merge_subtrees(stream_, totals_[height_ - 1], totals_[height_]);
    ++height_;
  }

  /// The edges of a layer that keep their places. Only those of one layer are on the device at a time.
  RowsOnDevice const& kept_edges_of(GrowthBlock const& block) {
    if (layer_on_device_ == block.layer) return kept_edges_;
    auto const& pattern = pattern_of(block);
    kept_edges_ = {};
    kept_edges_ = upload_rows(kernels_.memory(), "varve::kept_edges", pattern.row_pointers, pattern.column_indices);
    layer_on_device_ = block.layer;
    return kept_edges_;
  }

  PlaceBlock<Scalar> place_block(GrowthBlock const& block, Panel const& inputs, Panel const& errors,
                                 int num_positions) const {
    return {inputs,
            errors,
            static_cast<int>(pattern_of(block).num_columns),
            static_cast<int>(pattern_of(block).num_rows),
            static_cast<int>(block.first_output),
            static_cast<int>(block.num_outputs),
            num_positions};
  }

  void take_candidates(GrowthBlock const& block) {
    auto& best = best_[block.layer];
    std::size_t const num_listed =
        kernels_.list_free_places(stream_, kept_edges_of(block), place_block(block, {}, {}, 0),
                                  totals_[0].part(block.first_sum, block.first_sum + num_places(block)),
                                  static_cast<Scalar>(best.limit().value_or(-1.0)), places_, magnitudes_);
    auto const places = download(kernels_.memory(), places_.part(0, num_listed));
    auto const magnitudes = download(kernels_.memory(), magnitudes_.part(0, num_listed));
    std::vector<GrowthCandidate> candidates;
    candidates.reserve(places.size());
    for (std::size_t i = 0; i < places.size(); ++i)
      candidates.push_back(
          {block.first_output * pattern_of(block).num_columns + places[i], static_cast<double>(magnitudes[i])});
    best.add(candidates);
  }

  TrainingKernels<Scalar> const& kernels_;
  Stream const& stream_;
  Passes& passes_;
  Network const* kept_;
  std::function<void(std::size_t)> const& forward_;
  std::size_t num_micro_batches_;
  std::vector<BestCandidates> best_; ///< [layer]
  RowsOnDevice kept_edges_;
  std::optional<std::size_t> layer_on_device_;   ///< the layer of kept_edges_
  std::vector<std::vector<GrowthBlock>> blocks_; ///< [pass]
  std::size_t max_sums_ = 0;
  std::vector<Array<Scalar>> totals_; ///< sums over subtrees of micro-batches: a stack
  std::size_t height_ = 0;            ///< index in the stack of the sums over the present micro-batch
  Array<Scalar> magnitudes_, levels_;
  Array<std::uint32_t> places_;
};

/// Carries out a change of the pattern (passes/regrow.hpp) of weights on a device, whose optimizer has this
/// state (with all moments). `forward(micro)` runs the forward pass of a micro-batch of the mini-batch whose gradients
/// decide where PatternKind::rigl grows edges. With several ranks, each computes everything and gets the same result.
template <class Scalar>
PatternCount evolve_pattern(TrainingKernels<Scalar> const& kernels, Stream const& stream,
                            TrainedWeights<Scalar>& weights, OptimizerState state, TrainingPasses<Scalar>& passes,
                            PatternEvent const& event, std::size_t num_micro_batches, std::size_t max_sums,
                            std::function<void(std::size_t)> const& forward) {
  auto layers = weights.network().layers();
  std::vector<std::vector<EdgeOffset>> dropped;
  std::vector<EdgeOffset> counts;
  for (auto const& layer : layers) {
    auto const num_places = EdgeOffset{layer.num_outputs()} * layer.num_inputs();
    counts.push_back(edges_to_drop(event.fraction, layer.num_edges(), num_places));
    dropped.push_back(smallest_edges(layer.weights, counts.back()));
  }
  std::vector<std::vector<PlaceNumber>> grown;
  if (event.kind == PatternKind::rigl) {
    auto kept = layers;
    for (std::size_t number = 0; number < kept.size(); ++number) {
      kept[number].weights = regrown(kept[number].weights, dropped[number], {}).pattern;
      kept[number].weights.values.assign(kept[number].num_edges(), 0.0);
    }
    Network const kept_network(std::move(kept));
    GrowthSearch<Scalar> search(kernels, stream, passes, kept_network, counts, num_micro_batches, max_sums, forward);
    grown = search.run();
  } else {
    for (std::size_t number = 0; number < layers.size(); ++number)
      grown.push_back(random_places(layers[number].weights, dropped[number], event, number));
  }
  PatternCount count;
  for (std::size_t number = 0; number < layers.size(); ++number)
    count += regrow(layers[number], state.layers[number].weights, dropped[number], grown[number]);
  weights.replace(Network(std::move(layers)), state);
  return count;
}

} // namespace varve
