#include "engine/training.hpp"

#include "core/config.hpp"
#include "core/repeated_launches.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "engine/backends.hpp"
#include "engine/growth_search.hpp"
#include "engine/layer_stream.hpp"
#include "engine/leaf_levels.hpp"
#include "engine/shared_step.hpp"
#include "engine/step_shares.hpp"
#include "engine/training_plan.hpp"
#include "engine/training_step.hpp"
#include "network/network.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace varve {
namespace {

template <class Scalar>
GrowthLimits growth_limits_of(Network const& network, TrainingOptions const& options) {
  return growth_limits(network, num_leaves<Scalar>(options.batch), sizeof(Scalar), options.growth_bytes);
}

/// Training on the device of one rank: weights, passes over micro-batches, the tree of their sums, and the exchange
/// with other ranks. Weights, sums and the optimizer's step are on the device or, if weights are streamed, on the host.
template <class Scalar>
class TrainedNetwork final : public Training {
public:
  using Kernels = std::unique_ptr<TrainingKernels<Scalar>>;
  static constexpr std::size_t leaf = kLeafSamples<Scalar>;

  /// host_kernels: the kernels of the host if weights are streamed from it to the device, else null.
  TrainedNetwork(Kernels kernels, Kernels host_kernels, Network const& network, TrainingOptions const& options,
                 TrainingPlan const& plan, std::vector<TrainedFormat> const& formats)
      : kernels_(std::move(kernels)),
        host_kernels_(std::move(host_kernels)),
        options_(options),
        plan_(plan),
        max_growth_sums_(growth_limits_of<Scalar>(network, options).max_sums),
        stream_(kernels_->memory().default_stream()),
        weight_stream_(weight_kernels().memory().default_stream()),
        weights_(weight_kernels(), network, options.optimizer, parts_for(network, options, plan),
                 options.exchange ? options.exchange->rank() : 0, formats,
                 host_kernels_ ? &kernels_->memory() : nullptr),
        passes_(*kernels_, weight_kernels(), weights_, plan_, options.loss),
        launches_(kernels_->memory()),
        shares_(num_ranks(options), options.rank_speeds),
        end_of_passes_(kernels_->memory().new_mark()) {
    if (num_ranks(options) > 1) shared_.emplace(weight_kernels(), *options_.exchange, weights_, options_.reads_peers);
  }

  std::size_t add_samples(SampleSet const& samples, Answers const& answers, std::string const& place) override {
    require_representable(SampleBatch(samples), options_.precision, place);
    auto const widths = weights_.widths();
    if (samples.num_neurons() != widths.front()) {
      throw InputError(place + ": the samples have " + std::to_string(samples.num_neurons()) +
                       " neurons, but layer 0 takes " + std::to_string(widths.front()) + " inputs");
    }
    require_fit(answers, samples.num_samples(), widths.back(), options_.loss, place);
    require_representable(SampleBatch(SampleSet{answers.values, samples.first_sample}), options_.precision,
                          place + ": targets");
    TrainingSet<Scalar> set{rows_on_device(samples.matrix), {}, answers.labels, answers.weights, samples.num_samples()};
    if (!answers.are_labels()) set.targets = rows_on_device(answers.values);
    sets_.push_back(std::move(set));
    return sets_.size() - 1;
  }

  void remove_last_samples() override {
    launches_.forget(); // they use the set's arrays
    sets_.pop_back();
  }

  LossSum step(std::size_t set, std::span<std::uint64_t const> rows, double rate) override {
    VARVE_REQUIRE(!rows.empty() && rows.size() <= options_.batch, "a mini-batch of another size than planned");
    auto const cuts = shares_.cuts(num_leaves<Scalar>(rows.size()));
    weights_.begin_step(rate, rows.size());
    if (shared_) shared_->begin(cuts);
    RankLosses losses;
    auto const passes = own_passes(cuts);
    bool const is_repeated = !shared_ && !plan_.streams_weights && passes.size() == 1;
    Stopwatch const time;
    for (auto const& pass : passes) {
      bool const is_last = &pass == &passes.back();
      if (is_repeated) {
        repeat(set, rows, pass);
        weights_.launch_end(*weight_stream_); // before the host waits
      } else {
        forward(set, rows, pass);
        backward(pass, is_last);
      }
      if (!shared_ || !is_last) add_losses(losses);
    }
    if (shared_) {
      losses.seconds = share(passes.empty(), time);
      if (!passes.empty()) add_losses(losses); // after the last messages, because a device may not have been waited for
    }
    if (!is_repeated) weights_.launch_end(*weight_stream_);
    auto const sum = sum_over_ranks(losses, cuts, true);
    weights_.end_step(*weight_stream_);
    if (!shared_) times_.compute_seconds += time.seconds();
    return sum;
  }

  PatternCount evolve(std::size_t set, std::span<std::uint64_t const> rows, PatternEvent const& event) override {
    VARVE_REQUIRE(!rows.empty() && rows.size() <= options_.batch, "a mini-batch of another size than planned");
    VARVE_REQUIRE(event.kind == options_.pattern, "the pattern changes in another way than planned");
    Stopwatch const time;
    auto const state = weights_.state(
        [&](std::vector<double> const& moments) { return shared_ ? options_.exchange->gather(moments) : moments; },
        true);
    // Every rank computes all leaves, which may exceed the share that fits its memory.
    std::size_t const micro_batch =
        rows.size() <= plan_.micro_batch ? rows.size() : std::bit_floor(plan_.micro_batch / leaf) * leaf;
    std::size_t const count = (rows.size() + micro_batch - 1) / micro_batch;
    auto const moved = evolve_pattern<Scalar>(
        *kernels_, *stream_, weights_, state, passes_, event, count, max_growth_sums_, [&](std::size_t micro) {
          std::size_t const first = micro * micro_batch;
          forward(set, rows.subspan(first, std::min(micro_batch, rows.size() - first)));
        });
    passes_.take_patterns();
    if (shared_) shared_->rebind_arrays();
    launches_.forget();
    times_.compute_seconds += time.seconds();
    return moved;
  }

  LossSum evaluate(std::size_t set) override {
    std::vector<std::uint64_t> rows(sets_.at(set).num_samples);
    std::iota(rows.begin(), rows.end(), std::uint64_t{0});
    auto const cuts = shares_.cuts(num_leaves<Scalar>(rows.size()));
    RankLosses losses;
    for (auto const& pass : own_passes(cuts)) {
      forward(set, rows, pass);
      add_losses(losses);
    }
    return sum_over_ranks(losses, cuts, false);
  }

  void require_finite_moments() override {
    weights_.require_finite_moments(*weight_stream_, shared_ ? options_.exchange.get() : nullptr);
  }

  Network network() const override { return weights_.network(); }
  OptimizerState state() const override {
    return weights_.state(
        [&](std::vector<double> moments) {
          return shared_ ? options_.exchange->gather_on_root(moments) : std::move(moments);
        },
        !shared_ || options_.exchange->rank() == 0);
  }
  void restore(OptimizerState const& state) override {
    weights_.restore(state);
    launches_.forget();
  }
  TrainingPlan const& plan() const override { return plan_; }
  TrainingTimes times() const override {
    auto times = times_;
    if (!shared_) return times;
    times.exchange_seconds = shared_->seconds();
    times.wait_seconds += shared_->wait_seconds();
    times.exchange_bytes = shared_->bytes();
    return times;
  }

  std::string exchange_way() const override { return shared_ ? shared_->way() : std::string(); }

private:
  using Sums = DeviceNumbers<Scalar>;

  TrainingKernels<Scalar> const& weight_kernels() const { return host_kernels_ ? *host_kernels_ : *kernels_; }

  /// A single rank takes its step in one piece, unless the host steps layers while the device computes others.
  static GradientParts parts_for(Network const& network, TrainingOptions const& options, TrainingPlan const& plan) {
    if (plan.streams_weights)
      return {network, num_ranks(options), options.min_bundle.value_or(GradientParts::min_sums), plan.strip_size};
    bool const is_one = num_ranks(options) == 1;
    return {network, num_ranks(options),
            is_one ? GradientParts::one_bundle : options.min_bundle.value_or(GradientParts::min_sums_of(network))};
  }

  /// The passes over this rank's leaves.
  std::vector<TrainingPass> own_passes(std::vector<std::size_t> const& cuts) const {
    std::size_t const rank = options_.exchange ? options_.exchange->rank() : 0;
    return passes_of(cuts[rank], cuts[rank + 1], cuts.back(), plan_.micro_batch / leaf);
  }

  static std::span<std::uint64_t const> rows_of(TrainingPass const& pass, std::span<std::uint64_t const> rows) {
    std::size_t const first = pass.first_leaf * leaf;
    return rows.subspan(first, std::min(pass.num_leaves * leaf, rows.size() - first));
  }

  void forward(std::size_t set, std::span<std::uint64_t const> rows) {
    passes_.batch().select_rows(*stream_, sets_.at(set), rows);
    passes_.forward(*stream_, sets_.at(set));
  }
  void forward(std::size_t set, std::span<std::uint64_t const> rows, TrainingPass const& pass) {
    forward(set, rows_of(pass, rows));
  }

  /// Replays the only pass of a step of one rank: all its launches before the optimizer's step are the same in every
  /// step.
  void repeat(std::size_t set, std::span<std::uint64_t const> rows, TrainingPass const& pass) {
    auto const& samples = sets_.at(set);
    passes_.batch().select_rows(*stream_, samples, rows_of(pass, rows));
    prepare_sums(pass);
    launches_.run(*stream_, {set, rows.size()}, [&](Stream const& stream) {
      passes_.forward(stream, samples);
      passes_.backward(stream, pass.subtrees, sums_, [](std::size_t /*layer*/, std::size_t /*strip*/) {});
      return 0; // the host reads nothing from the device
    });
    auto const& bundle = weights_.parts().bundles().front();
    merge(bundle, pass.subtrees.back());
    weights_.step_part(*weight_stream_, 0, part_of_bundle(sums_.front(), bundle));
  }

  /// Waits for the pass in progress and adds its losses.
  void add_losses(RankLosses& losses) {
    std::vector<double> found;
    passes_.batch().add_losses(*stream_, found, losses.num_right);
    losses.add(found, leaf);
  }

  /// Allocates the arrays of the stack of sums that a pass writes.
  void prepare_sums(TrainingPass const& pass) {
    auto const& last = weights_.parts().bundles().back();
    while (sums_.size() <= pass.subtrees.back().place) sums_.push_back(new_sums(last.first_sum() + last.num_sums()));
  }

  /// Adds the gradients of a pass to the stack of sums. In the last pass each bundle is sent, or stepped, as soon as
  /// its gradients are complete.
  void backward(TrainingPass const& pass, bool is_last) {
    auto const& bundles = weights_.parts().bundles();
    prepare_sums(pass);
    std::size_t bundle = bundles.size();
    passes_.backward(*stream_, pass.subtrees, sums_, [&](std::size_t layer, std::size_t first_edge) {
      while (bundle > 0 && bundles[bundle - 1].first_layer >= layer && bundles[bundle - 1].first_edge >= first_edge)
        end_bundle(--bundle, pass.subtrees.back(), is_last);
    });
  }

  /// Call when the gradients of a bundle over the last subtree of a pass are complete.
  void end_bundle(std::size_t bundle, PassSubtree const& subtree, bool is_last) {
    auto const& whole = weights_.parts().bundles()[bundle];
    merge(whole, subtree);
    if (!is_last) return;
    if (shared_) {
      shared_->send(*weight_stream_, bundle, sums_);
    } else {
      weights_.step_part(*weight_stream_, bundle, part_of_bundle(sums_.front(), whole));
    }
  }

  /// An array of the stack. If weights are streamed to a GPU, it is pinned, because the GPU copies sums to it while the
  /// host works.
  Sums new_sums(std::size_t size) {
    if (!host_kernels_) return new_zeros<Scalar>(kernels_->memory(), "varve::gradient", size);
    auto const sums =
        numbers_in<Scalar>(kernels_->memory().allocate_on_host("varve::pinned_gradient", size * sizeof(Scalar)));
    std::fill_n(sums.data(), size, Scalar(0));
    return sums;
  }

  static Sums part_of_bundle(Sums const& sums, GradientBundle const& bundle) {
    return sums.part(bundle.first_sum(), bundle.first_sum() + bundle.num_sums());
  }

  /// Merges the topmost sums of the stack, for one bundle, as often as the last subtree of a pass requires.
  void merge(GradientBundle const& bundle, PassSubtree const& last) {
    for (std::size_t merge = 0; merge < last.merges; ++merge) {
      std::size_t const top = last.place - merge;
      weight_kernels().merge_subtrees(*weight_stream_, part_of_bundle(sums_[top - 1], bundle),
                                      part_of_bundle(sums_[top], bundle));
    }
  }

  /// Completes the part of the step that ranks share. A rank without leaves has sent nothing before. Returns the
  /// duration of the passes in seconds.
  double share(bool has_no_leaves, Stopwatch const& time) {
    if (has_no_leaves)
      for (std::size_t bundle = weights_.parts().bundles().size(); bundle-- > 0;)
        shared_->send(*weight_stream_, bundle, sums_);
    end_of_passes_->set(*stream_);
    return shared_->finish(*weight_stream_, time, [&] { return end_of_passes_->is_reached(); });
  }

  /// The loss over all ranks' leaves. After a step, updates the ranks' speeds, except after the first one, which
  /// touches memory for the first time.
  LossSum sum_over_ranks(RankLosses const& own, std::vector<std::size_t> const& cuts, bool is_step) {
    if (is_step) ++times_.num_steps;
    if (is_step) times_.num_leaves += own.leaves.size();
    if (is_step && shared_) times_.compute_seconds += own.seconds;
    if (!shared_) return sum_of(own);
    Stopwatch const time;
    std::vector<double> seconds;
    auto const all = gather(*options_.exchange, own, seconds);
    times_.wait_seconds += time.seconds();
    if (is_step && times_.num_steps > 1) shares_.measure(seconds, cuts);
    return sum_of(all);
  }

  SampleRowsOnDevice<Scalar> rows_on_device(SparseMatrix const& matrix) const {
    auto const& memory = kernels_->memory();
    std::vector<Scalar> const values(matrix.values.begin(), matrix.values.end());
    return {new_copy(memory, "varve::sample_rows", matrix.row_pointers),
            new_copy(memory, "varve::sample_columns", matrix.column_indices),
            new_copy(memory, "varve::sample_values", values)};
  }

  Kernels kernels_, host_kernels_;
  TrainingOptions options_;
  TrainingPlan plan_;
  std::size_t max_growth_sums_;
  std::unique_ptr<Stream> stream_, weight_stream_;
  TrainedWeights<Scalar> weights_;
  TrainingPasses<Scalar> passes_;
  std::vector<TrainingSet<Scalar>> sets_;
  std::vector<Sums> sums_; ///< sums of gradients over subtrees: a stack; pinned if weights are streamed to a GPU
  /// Launches of steps, by the number of the set and the number of samples of the batch.
  RepeatedLaunches<std::pair<std::size_t, std::size_t>, int> launches_;
  LeafShares shares_;
  std::optional<SharedStep<Scalar>> shared_; ///< with several ranks only
  std::unique_ptr<StreamMark> end_of_passes_;
  TrainingTimes times_;
};

/// Upper bound in bytes of the device memory for sums of leaves, with strips of this size.
template <class Scalar>
std::size_t bytes_of_levels(TrainingKernels<Scalar> const& kernels, std::vector<TrainedShape> const& layers,
                            std::size_t num_leaves, std::size_t strip_size) {
  std::map<std::tuple<std::size_t, std::size_t, bool>, TrainedShape> largest; // by inputs, outputs and format
  for (auto const& layer : layers) {
    auto& shape = largest[{layer.num_inputs, layer.num_outputs, layer.format.has_dense_backward}];
    if (layer.num_edges >= shape.num_edges) shape = layer;
  }
  std::size_t most = 0;
  for (auto const& [key, layer] : largest)
    most = std::max(most, LeafLevels<Scalar>::max_bytes(kernels, layer, strip_size, num_leaves));
  return most;
}

/// Device memory in bytes for the gradients of free places.
template <class Scalar>
std::size_t bytes_of_growth(Network const& network, TrainingOptions const& options) {
  if (options.pattern != PatternKind::rigl) return 0;
  auto const limits = growth_limits_of<Scalar>(network, options);
  EdgeOffset max_edges = 0;
  for (auto const& layer : network.layers()) max_edges = std::max(max_edges, layer.num_edges());
  return limits.max_sums * limits.bytes_per_sum + max_edges * sizeof(NeuronIndex);
}

/// Bytes for sums of subtrees that are sent and received, with equal shares, and for arrays that other ranks read.
template <class Scalar>
std::size_t bytes_of_exchange(std::vector<TrainedShape> const& layers, std::size_t leaves, std::size_t ranks,
                              bool reads_peers) {
  std::size_t const num_edges = layers.back().first_weight_sum + layers.back().num_edges;
  std::size_t const num_outputs = layers.back().first_bias_sum + layers.back().num_outputs;
  std::size_t const num_sums = num_edges + num_outputs;
  auto const cuts = LeafShares(ranks, {}).cuts(leaves);
  std::size_t subtrees = 0;
  std::size_t max_of_rank = 1;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto const own = subtrees_of(cuts[rank], cuts[rank + 1], leaves).size();
    subtrees += own;
    max_of_rank = std::max(max_of_rank, own);
  }
  std::size_t const of_sums = num_sums * sizeof(Scalar) * (max_of_rank - 1 + (subtrees + ranks - 1) / ranks);
  auto const read = StepTransport<Scalar>::peer_bytes(num_outputs, num_edges, num_sums, max_of_rank);
  return of_sums + (reads_peers ? read : 0);
}

/// Plans the memory of a training on one rank. Throws what plan_training() throws, and InputError if the precision
/// cannot represent the network.
template <class Scalar>
TrainingPlan plan_of_training(TrainingKernels<Scalar> const& kernels, Network const& network, TrainingOptions options,
                              std::vector<TrainedFormat> const& formats) {
  require_valid(options.optimizer);
  TrainingSizes sizes;
  sizes.widths.push_back(network.num_inputs());
  for (std::size_t number = 0; number < network.num_layers(); ++number) {
    require_representable(network.layers()[number], number, options.precision, network.name());
    sizes.widths.push_back(network.layers()[number].num_outputs());
  }
  sizes.leaf = kLeafSamples<Scalar>;
  sizes.scalar_bytes = sizeof(Scalar);
  std::size_t const ranks = num_ranks(options);
  std::size_t leaves = num_leaves<Scalar>(options.batch);
  auto const layers = shapes_of(network, formats);
  std::size_t of_weights = TrainedWeights<Scalar>::bytes_for(layers, options.optimizer, ranks);
  if (ranks > 1) { // a fourth more than equal shares; larger shares need several passes
    of_weights += bytes_of_exchange<Scalar>(layers, leaves, ranks, options.reads_peers);
    leaves = std::min(leaves, ((leaves + ranks - 1) / ranks * 5 + 3) / 4);
    options.batch = std::min(options.batch, leaves * sizes.leaf);
  }
  std::size_t const of_growth = bytes_of_growth<Scalar>(network, options);
  auto const of_levels = [&](std::size_t size) { return bytes_of_levels(kernels, layers, leaves, size); };
  auto const series = series_rule(kernels.traits(), layers); // adjacent sums give the longest series
  using Levels = LeafLevels<Scalar>;
  std::size_t const of_layer = of_levels(kWholeLayers);
  sizes.weight_bytes =
      of_weights + of_growth + of_layer + Levels::max_bytes_of_series(kernels, series.max_sums(), leaves);
  sizes.group_bytes = Levels::max_bytes_of_groups(kernels, network.num_layers(), of_layer) - of_layer;
  std::vector<std::size_t> costs; // weights and rows of each layer, in the direction that has more
  for (auto const& layer : layers)
    costs.push_back(
        std::max(layer.num_forward_weights() + layer.num_outputs, layer.num_backward_weights() + layer.num_inputs));
  for (auto const size : strip_sizes(std::ranges::max(costs), std::ranges::max(sizes.widths)))
    sizes.streamed.push_back({size, LayerStream<Scalar>::bytes_for(layers, size) + of_growth + of_levels(size)});
  sizes.streamed_host_bytes = of_weights;
  auto const limits = memory_limits({options.memory_limit, options.device_memory_limit, {}}, options.backend);
  auto plan = plan_training(sizes, options, limits);
  for (auto const& format : formats) {
    plan.num_dense_forward += format.has_dense_forward ? 1 : 0;
    plan.num_dense_backward += format.has_dense_backward ? 1 : 0;
  }
  if (!plan.streams_weights) plan.num_series_layers = series.num_layers_in_series(plan.micro_batch / plan.leaf);
  plan.num_cut_layers =
      static_cast<std::size_t>(std::ranges::count_if(costs, [&](std::size_t cost) { return cost > plan.strip_size; }));
  return plan;
}

template <class Scalar>
std::unique_ptr<Training> prepare_in(Network const& network, TrainingOptions const& options) {
  auto kernels = training_kernels<Scalar>(options.backend);
  auto const formats = choose_trained_formats(network, options);
  auto const plan = plan_of_training<Scalar>(*kernels, network, options, formats);
  bool const has_own_host = plan.streams_weights && !kernels->memory().is_host();
  auto host_kernels = has_own_host ? training_kernels<Scalar>(backend_of_host(options.backend)) : nullptr;
  return std::make_unique<TrainedNetwork<Scalar>>(std::move(kernels), std::move(host_kernels), network, options, plan,
                                                  formats);
}

} // namespace

template <class Scalar>
std::unique_ptr<TrainingKernels<Scalar>> training_kernels(Backend backend) {
  return on_chosen_backend<VARVE_BACKENDS>(
      backend, [&]<Backend one>() { return training_kernels_of<one, Scalar>(device_memory(backend)); });
}

template std::unique_ptr<TrainingKernels<float>> training_kernels(Backend);
template std::unique_ptr<TrainingKernels<double>> training_kernels(Backend);

std::unique_ptr<Training> prepare_training(Network const& network, TrainingOptions const& options) {
  bool const in_double = options.precision == Precision::double_precision;
  return in_double ? prepare_in<double>(network, options) : prepare_in<float>(network, options);
}

} // namespace varve
