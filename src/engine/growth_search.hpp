#pragma once

#include "engine/growth_blocks.hpp"
#include "engine/training_step.hpp"
#include "kernels/growth.hpp"
#include "kernels/leaf_sums.hpp"
#include "passes/regrow.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// Finds the free places with the largest gradients of a mini-batch, block by block: computes the gradients of all
/// places of a block, adds them up over the mini-batch by the tree over leaves, and keeps the best candidates.
template <class ExecutionSpace, class Scalar, class WeightSpace>
class GrowthSearch {
public:
  using Passes = TrainingPasses<ExecutionSpace, Scalar, WeightSpace>;
  using Panel = TrainingPanel<ExecutionSpace, Scalar>;
  template <class T>
  using Array = DeviceArray<ExecutionSpace, T>;

  /// kept: the layers with the edges that keep their places; counts: how many places are wanted in each; forward:
  /// runs the forward pass of a micro-batch. All must outlive this object.
  GrowthSearch(ExecutionSpace const& space, Passes& passes, Network const& kept, std::vector<EdgeOffset> const& counts,
               std::size_t num_micro_batches, GrowthLimits const& limits,
               std::function<void(std::size_t)> const& forward)
      : space_(space),
        passes_(passes),
        kept_(&kept),
        forward_(forward),
        num_micro_batches_(num_micro_batches),
        best_(counts.begin(), counts.end()) {
    std::vector<bool> growing;
    for (std::size_t number = 0; number < counts.size(); ++number) {
      auto const& pattern = kept.layers()[number].weights;
      growing.push_back(counts[number] > 0);
      num_inputs_.push_back(pattern.num_columns);
      num_outputs_.push_back(pattern.num_rows);
    }
    blocks_ = growth_passes(kept, growing, limits.most_sums, num_micro_batches == 1);
    for (auto const& pass : blocks_)
      for (auto const& block : pass) most_sums_ = std::max(most_sums_, block.first_sum + num_places(block));
    places_ = Array<std::uint32_t>(room("varve::free_places"), most_sums_);
    magnitudes_ = Array<Scalar>(room("varve::free_magnitudes"), most_sums_);
  }

  /// The best places of each layer, ascending.
  std::vector<std::vector<PlaceNumber>> run() {
    ProfilingRegion const region("varve::growth_search");
    for (auto const& blocks : blocks_) {
      height_ = 0;
      for (std::size_t micro = 0; micro < num_micro_batches_; ++micro) {
        if (totals_.size() == height_) totals_.push_back(Array<Scalar>(room("varve::place_gradients"), most_sums_));
        forward_(micro);
        passes_.visit_errors(space_, [&](std::size_t layer, Panel const& inputs, Panel const& errors, int num_leaves) {
          for (auto const& block : blocks)
            if (block.layer == layer) add_up(block, inputs, errors, num_leaves);
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
  static auto room(char const* label) { return Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label)); }

  std::size_t num_places(GrowthBlock const& block) const { return block.num_outputs * num_inputs_[block.layer]; }

  /// Computes the sums of a block over the present micro-batch; takes its candidates if that is the mini-batch.
  void add_up(GrowthBlock const& block, Panel const& inputs, Panel const& errors, int num_leaves) {
    using Tune = TrainingTuning<ExecutionSpace>;
    PlaceGradients<ExecutionSpace, Scalar> kernel{};
    kernel.inputs = inputs;
    kernel.errors = errors;
    kernel.num_inputs = static_cast<int>(num_inputs_[block.layer]);
    kernel.num_outputs = static_cast<int>(num_outputs_[block.layer]);
    kernel.first_output = static_cast<int>(block.first_output);
    kernel.block_outputs = static_cast<int>(block.num_outputs);
    int const parts = place_gradient_blocks<ExecutionSpace, Scalar>(space_, kernel.num_inputs, kernel.block_outputs);
    int const per_run = Tune::leaves_per_run(num_processors(space_), parts, num_leaves);
    int num_levels = 1;
    while (1 << (num_levels - 1) < per_run) ++num_levels;
    std::size_t const needed = size_of_levels(num_places(block), num_leaves, per_run);
    if (levels_.size() < needed) levels_ = Array<Scalar>(room("varve::place_leaf_sums"), needed);
    kernel.levels = {levels_, num_places(block), num_levels, per_run, num_leaves};
    place_gradients(space_, kernel);
    add_levels(space_, AddLevels<ExecutionSpace, Scalar>{kernel.levels, totals_[height_], block.first_sum});
    if (num_micro_batches_ == 1) take_candidates(block);
  }

  /// Merges the sums over a micro-batch with those over neighbouring subtrees before it; after the last micro-batch the
  /// lowest sums of the stack are those of the mini-batch. All micro-batches but the last have equally many leaves, a
  /// power of two.
  void add_to_tree(std::size_t micro) {
    std::size_t merges = micro + 1 == num_micro_batches_ ? height_ : static_cast<std::size_t>(std::countr_one(micro));
    for (; merges > 0; --merges, --height_)
      merge_subtrees(space_, MergeSubtrees<ExecutionSpace, Scalar>{totals_[height_ - 1], totals_[height_]});
    ++height_;
  }

  /// The edges of a layer that keep their places. Only those of one layer are on the device at a time.
  EdgeRows<ExecutionSpace> const& kept_edges_of(std::size_t layer) {
    if (layer_on_device_ == layer) return kept_edges_;
    auto const& pattern = kept_->layers()[layer].weights;
    kept_edges_ = {};
    kept_edges_ = EdgeRows<ExecutionSpace>("varve::kept_edges", pattern.row_pointers, pattern.column_indices);
    layer_on_device_ = layer;
    return kept_edges_;
  }

  void take_candidates(GrowthBlock const& block) {
    auto& best = best_[block.layer];
    auto const part = std::make_pair(block.first_sum, block.first_sum + num_places(block));
    ListFreePlaces<ExecutionSpace, Scalar> kernel{};
    kernel.edges = kept_edges_of(block.layer);
    kernel.gradients = Kokkos::subview(totals_[0], part);
    kernel.places = places_;
    kernel.magnitudes = magnitudes_;
    kernel.limit = static_cast<Scalar>(best.limit().value_or(-1.0));
    kernel.num_inputs = static_cast<int>(num_inputs_[block.layer]);
    kernel.first_output = static_cast<int>(block.first_output);
    auto const listed = std::make_pair(std::size_t(0), list_free_places(space_, kernel, num_places(block)));
    auto const places = download(Kokkos::subview(places_, listed));
    auto const magnitudes = download(Kokkos::subview(magnitudes_, listed));
    std::vector<GrowthCandidate> candidates;
    candidates.reserve(places.size());
    for (std::size_t i = 0; i < places.size(); ++i)
      candidates.push_back(
          {block.first_output * num_inputs_[block.layer] + places[i], static_cast<double>(magnitudes[i])});
    best.add(candidates);
  }

  ExecutionSpace space_;
  Passes& passes_;
  Network const* kept_;
  std::function<void(std::size_t)> const& forward_;
  std::size_t num_micro_batches_;
  std::vector<BestCandidates> best_; ///< by layer
  EdgeRows<ExecutionSpace> kept_edges_;
  std::optional<std::size_t> layer_on_device_; ///< the layer of kept_edges_
  std::vector<std::size_t> num_inputs_, num_outputs_;
  std::vector<std::vector<GrowthBlock>> blocks_; ///< by pass
  std::size_t most_sums_ = 0;
  std::vector<Array<Scalar>> totals_; ///< sums over subtrees of micro-batches: a stack
  std::size_t height_ = 0;            ///< where the sums over the present micro-batch stand in it
  Array<Scalar> magnitudes_, levels_;
  Array<std::uint32_t> places_;
};

} // namespace varve
