#pragma once

#include "core/runtime.hpp"
#include "engine/backends.hpp"
#include "engine/evolve_pattern.hpp"
#include "engine/training_step.hpp"
#include "network/representable.hpp"

#include <memory>
#include <numeric>
#include <span>
#include <string>

namespace varve {

/// Training on one device: weights, passes over micro-batches, and the tree of their sums.
template <class ExecutionSpace, class Scalar>
class TrainingOn final : public Training {
public:
  static constexpr std::size_t leaf = kLeafSamples<Scalar>;

  TrainingOn(Network const& network, TrainingOptions const& options)
      : options_(options),
        plan_(plan_for(network, options)),
        growth_limits_(limits_of_growth(network, options)),
        weights_(network, options.optimizer),
        passes_(weights_, plan_, options.loss) {}

  std::size_t add_samples(SampleSet const& samples, Answers const& answers, std::string const& place) override {
    require_representable(SampleBatch(samples), options_.precision, place);
    auto const widths = weights_.widths();
    if (samples.num_neurons() != widths.front()) {
      throw InputError(place + ": the samples have " + std::to_string(samples.num_neurons()) +
                       " neurons, but layer 0 takes " + std::to_string(widths.front()) + " inputs");
    }
    require_fit(answers, samples.num_samples(), widths.back(), options_.loss, place);
    TrainingSet<ExecutionSpace, Scalar> set{rows_on_device(samples.matrix), {}, answers.labels, samples.num_samples()};
    if (!answers.are_labels()) set.targets = rows_on_device(answers.values);
    sets_.push_back(std::move(set));
    return sets_.size() - 1;
  }

  LossSum step(std::size_t set, std::span<std::uint64_t const> rows, double rate) override {
    VARVE_REQUIRE(!rows.empty() && rows.size() <= options_.batch, "a mini-batch of another size than planned");
    std::vector<double> losses;
    LossSum sum;
    std::size_t const count = (rows.size() + plan_.micro_batch - 1) / plan_.micro_batch;
    for (std::size_t micro = 0; micro < count; ++micro) {
      passes_.forward(space_, sets_.at(set), part(rows, micro), losses, sum.num_right);
      passes_.backward(space_, weights_.weight_sums(), weights_.bias_sums());
      if (count > 1) add_to_tree(micro, count);
    }
    weights_.step(space_, rate, rows.size());
    add_up(losses, sum);
    return sum;
  }

  PatternCount evolve(std::size_t set, std::span<std::uint64_t const> rows, PatternEvent const& event) override {
    VARVE_REQUIRE(!rows.empty() && rows.size() <= options_.batch, "a mini-batch of another size than planned");
    VARVE_REQUIRE(event.kind == options_.pattern, "the pattern changes in another way than planned");
    std::size_t const count = (rows.size() + plan_.micro_batch - 1) / plan_.micro_batch;
    return evolve_pattern<ExecutionSpace, Scalar>(
        space_, weights_, passes_, event, count, growth_limits_, [&](std::size_t micro) {
          std::vector<double> losses;
          std::size_t num_right = 0;
          passes_.forward(space_, sets_.at(set), part(rows, micro), losses, num_right);
        });
  }

  LossSum evaluate(std::size_t set) override {
    std::vector<std::uint64_t> rows(sets_.at(set).num_samples);
    std::iota(rows.begin(), rows.end(), std::uint64_t{0});
    std::vector<double> losses;
    LossSum sum;
    for (std::size_t micro = 0; micro * plan_.micro_batch < rows.size(); ++micro)
      passes_.forward(space_, sets_[set], part(rows, micro), losses, sum.num_right);
    add_up(losses, sum);
    return sum;
  }

  Network network() const override { return weights_.network(); }
  OptimizerState state() const override { return weights_.state(); }
  void restore(OptimizerState const& state) override { weights_.restore(state); }
  TrainingPlan const& plan() const override { return plan_; }

private:
  static TrainingPlan plan_for(Network const& network, TrainingOptions const& options) {
    require_valid(options.optimizer);
    TrainingSizes sizes;
    sizes.widths.push_back(network.num_inputs());
    for (std::size_t number = 0; number < network.num_layers(); ++number) {
      require_representable(network.layers()[number], number, options.precision, network.name());
      sizes.widths.push_back(network.layers()[number].num_outputs());
    }
    sizes.leaf = leaf;
    sizes.scalar_bytes = sizeof(Scalar);
    std::size_t const leaves = num_leaves<Scalar>(options.batch);
    sizes.weight_bytes = TrainedWeights<ExecutionSpace, Scalar>::bytes_for(network, options.optimizer) +
                         TrainingPasses<ExecutionSpace, Scalar>::bytes_of_levels(network, leaves);
    if (options.pattern == PatternKind::rigl) {
      auto const limits = limits_of_growth(network, options);
      sizes.weight_bytes += limits.most_sums * limits.bytes_per_sum + network.num_edges() * sizeof(NeuronIndex);
    }
    return plan_training(sizes, options, options.memory_limit.value_or(available_memory(options.backend) / 10 * 9));
  }

  static GrowthLimits limits_of_growth(Network const& network, TrainingOptions const& options) {
    return growth_limits(network, num_leaves<Scalar>(options.batch), sizeof(Scalar), options.growth_bytes);
  }

  std::span<std::uint64_t const> part(std::span<std::uint64_t const> rows, std::size_t micro) const {
    std::size_t const first = micro * plan_.micro_batch;
    return rows.subspan(first, std::min(plan_.micro_batch, rows.size() - first));
  }

  static DeviceRows<ExecutionSpace, Scalar> rows_on_device(SparseMatrix const& matrix) {
    std::vector<Scalar> const values(matrix.values.begin(), matrix.values.end());
    return {upload<ExecutionSpace>("varve::sample_rows", matrix.row_pointers),
            upload<ExecutionSpace>("varve::sample_columns", matrix.column_indices),
            upload<ExecutionSpace>("varve::sample_values", values)};
  }

  /// Adds the sums of a micro-batch, which form a subtree of the tree over leaves; after the last micro-batch, the sums
  /// are those of the mini-batch.
  void add_to_tree(std::size_t micro, std::size_t count) {
    weight_tree_ = pushed(weight_tree_, weights_.weight_sums(), micro, count);
    bias_tree_ = pushed(bias_tree_, weights_.bias_sums(), micro, count);
    if (micro + 1 < count) return;
    add_levels(space_, AddLevels<ExecutionSpace, Scalar>{weight_tree_, weights_.weight_sums(), 0});
    add_levels(space_, AddLevels<ExecutionSpace, Scalar>{bias_tree_, weights_.bias_sums(), 0});
  }

  using Levels = TreeLevels<ExecutionSpace, Scalar>;
  Levels pushed(Levels tree, DeviceArray<ExecutionSpace, Scalar> const& sums, std::size_t micro, std::size_t count) {
    tree.num_leaves = static_cast<int>(count);
    tree.leaves_per_run = 1;
    for (tree.num_levels = 1; static_cast<std::size_t>(tree.leaves_per_run) < count; ++tree.num_levels)
      tree.leaves_per_run *= 2;
    tree.num_sums = sums.size();
    std::size_t const needed = static_cast<std::size_t>(tree.num_levels) * tree.num_sums;
    if (tree.sums.size() < needed) tree.sums = DeviceArray<ExecutionSpace, Scalar>("varve::micro_batch_sums", needed);
    push_sums(space_, PushSums<ExecutionSpace, Scalar>{tree, sums, static_cast<int>(micro)});
    return tree;
  }

  static void add_up(std::vector<double> const& losses, LossSum& sum) {
    sum.num_samples = losses.size();
    if (losses.empty()) return;
    std::vector<double> leaves(num_leaves<Scalar>(losses.size()), 0.0);
    for (std::size_t i = 0; i < losses.size(); ++i) leaves[i / leaf] += losses[i];
    sum.loss = leaf_tree(0, leaves.size(), [&](std::size_t number) { return leaves[number]; });
  }

  TrainingOptions options_;
  TrainingPlan plan_;
  GrowthLimits growth_limits_;
  ExecutionSpace space_;
  TrainedWeights<ExecutionSpace, Scalar> weights_;
  TrainingPasses<ExecutionSpace, Scalar> passes_;
  std::vector<TrainingSet<ExecutionSpace, Scalar>> sets_;
  Levels weight_tree_{}, bias_tree_{};
};

/// prepare_training() on one backend: chooses the scalar type.
template <Backend backend>
std::unique_ptr<Training> train_on_backend(Network const& network, TrainingOptions const& options) {
  return options.precision == Precision::double_precision
             ? std::unique_ptr<Training>(std::make_unique<TrainingOn<SpaceOf<backend>, double>>(network, options))
             : std::make_unique<TrainingOn<SpaceOf<backend>, float>>(network, options);
}

} // namespace varve
