#include "engine/inference.hpp"

#include "core/config.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "engine/backends.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"
#include "reference/infer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>

namespace varve {

namespace {

constexpr bool kHasKokkosKernels = VARVE_HAVE_KOKKOS_KERNELS != 0;

/// Rewritten layers are kept in up to a fourth of the usable host memory; all others are rewritten each time they are
/// read.
constexpr std::size_t kept_part_of_memory = 4;
/// Layers that are read ahead, while earlier ones are rewritten, use up to this part of the same memory.
constexpr std::size_t ahead_part_of_memory = 16;

/// The network with its edges in this order.
NetworkToRun with_order(NetworkToRun network, EdgeOrder order) {
  if (order == EdgeOrder::ascending) return network;
  network.ordered = std::make_shared<OrderedNetwork const>(network.layers, order);
  network.layers = network.ordered;
  return network;
}

using SharedNetwork = std::shared_ptr<NetworkSource const>;

NetworkToRun as_given(SharedNetwork const& network) { return {network, std::nullopt, {}, nullptr}; }

/// The plain loops of reference/ as an engine: slow and correct.
class ReferenceEngine final : public Inference {
public:
  ReferenceEngine(NetworkToRun const& network, InferenceOptions const& options) : network_(network), options_(options) {
    for (std::size_t number = 0; number < num_layers(); ++number) {
      Layer const layer = layers().layer(number);
      if (number == 0) num_inputs_ = layer.num_inputs();
      num_outputs_ = layer.num_outputs();
      num_edges_ += layer.num_edges();
    }
  }

  std::size_t num_inputs() const override { return num_inputs_; }
  std::size_t num_outputs() const override { return num_outputs_; }
  std::size_t num_layers() const override { return layers().num_layers(); }
  EdgeOffset num_edges() const override { return num_edges_; }

  Plan const& plan(InputShape const& input) override {
    plan_ = {};
    plan_.engine = to_string(Engine::reference);
    plan_.device = "host threads";
    plan_.method = "plain loops, layers read when they are needed";
    if (network_.ordered) plan_.edge_order = network_.ordered->report();
    plan_.batch = std::max<std::size_t>(1, std::min(input.num_samples, options_.batch.value_or(input.num_samples)));
    return plan_;
  }

  Plan const& plan() const override { return plan_; }

  BatchResult infer(SampleBatch const& batch, WantedOutputs wanted) override {
    require_representable(batch, options_.precision, options_.input_name);
    auto const samples = to_set(batch);
    BatchResult result;
    for (std::size_t repetition = 0; repetition < options_.repeat; ++repetition) {
      Stopwatch const loop_time;
      result.activations = options_.precision == Precision::double_precision ? varve::infer<double>(layers(), samples)
                                                                             : varve::infer<float>(layers(), samples);
      result.loop_seconds.push_back(loop_time.seconds());
    }
    result.live_samples = categories(result.activations);
    result.activation_hash = hash(result.activations, options_.precision);
    result.live_edges = static_cast<double>(num_edges_) * static_cast<double>(samples.num_samples());
    if (wanted.predictions) result.predictions = largest(result.activations.matrix);
    if (wanted.digests) result.digests = output_digests(result.activations);
    if (!wanted.activations) result.activations = SampleSet();
    return result;
  }

private:
  NetworkSource const& layers() const { return *network_.layers; }

  NetworkToRun network_;
  InferenceOptions options_;
  Plan plan_;
  std::size_t num_inputs_ = 0;
  std::size_t num_outputs_ = 0;
  EdgeOffset num_edges_ = 0;
};

std::unique_ptr<Inference> prepare_varve(SharedNetwork const& network, InferenceOptions const& options) {
  auto const& wanted = options.reductions;
  if (!wanted.rewrites_network()) return prepare_on_device(with_order(as_given(network), options.edge_order), options);
  auto const memory = std::min(available_memory(Backend::serial), options.memory_limit.value_or(SIZE_MAX));
  NetworkPasses const passes{wanted.merge_neurons, wanted.fold_constants, wanted.drop_unread};
  auto const keep_source = [network](ReducedNetwork const* reduced) { delete reduced; };
  std::shared_ptr<ReducedNetwork const> const reduced(
      new ReducedNetwork(*network, passes, memory / kept_part_of_memory, memory / ahead_part_of_memory), keep_source);
  return prepare_on_device(with_order({reduced, reduced->report(), reduced->output_map(), nullptr}, options.edge_order),
                           options);
}

} // namespace

std::string to_string(Engine engine) {
  switch (engine) {
  case Engine::varve:
    return "varve";
  case Engine::kokkos_kernels:
    return "kokkos-kernels";
  case Engine::reference:
    return "reference";
  }
  throw std::logic_error("varve: unknown engine");
}

Engine parse_engine(std::string const& name) {
  if (name == "varve") return Engine::varve;
  if (name == "reference") return Engine::reference;
  if (name == "kokkos-kernels" && kHasKokkosKernels) return Engine::kokkos_kernels;
  throw UsageError("this build has no engine '" + name + "'; it has: varve, " +
                   (kHasKokkosKernels ? "kokkos-kernels, " : "") + "reference");
}

WeightTraffic& WeightTraffic::operator+=(WeightTraffic const& other) {
  wait_seconds += other.wait_seconds;
  copy_seconds += other.copy_seconds;
  make_seconds += other.make_seconds;
  copied_bytes += other.copied_bytes;
  return *this;
}

Reductions parse_reductions(std::string const& list) {
  if (list == "auto") return {true, true, true, true, true};
  Reductions wanted;
  if (list == "none") return wanted;
  using Entry = std::pair<char const*, bool Reductions::*>;
  static constexpr Entry entries[] = {{"merge_neurons", &Reductions::merge_neurons},
                                      {"fold_constants", &Reductions::fold_constants},
                                      {"drop_unread", &Reductions::drop_unread},
                                      {"saturation", &Reductions::saturation},
                                      {"equal_samples", &Reductions::equal_samples}};
  for (std::size_t first = 0; first <= list.size();) {
    std::size_t const last = std::min(list.find(',', first), list.size());
    auto const name = list.substr(first, last - first);
    auto const* const entry = std::ranges::find(entries, name, &Entry::first);
    if (entry == std::end(entries)) {
      throw UsageError("there is no reduction '" + name +
                       "'; there are: auto, none, or some of merge_neurons, fold_constants, drop_unread, saturation, "
                       "equal_samples");
    }
    wanted.*entry->second = true;
    first = last + 1;
  }
  return wanted;
}

std::unique_ptr<Inference> prepare(NetworkSource const& network, InferenceOptions const& options) {
  if (options.batch && *options.batch == 0) throw UsageError("a batch needs at least 1 sample");
  if (options.repeat == 0) throw UsageError("the layer loop must run at least once");
  if (options.exchange && options.engine != Engine::varve) {
    throw UsageError("the engine " + to_string(options.engine) + " cannot split neurons across ranks; take varve");
  }
  auto const checked = std::make_shared<RepresentableNetwork const>(network, options.precision);
  switch (options.engine) {
  case Engine::varve:
    return prepare_varve(checked, options);
  case Engine::reference:
    return std::make_unique<ReferenceEngine>(with_order(as_given(checked), options.edge_order), options);
  case Engine::kokkos_kernels:
    if constexpr (kHasKokkosKernels) return prepare_kokkos_kernels(*checked, options);
  }
  throw UsageError("this build has no engine " + to_string(options.engine));
}

} // namespace varve
