#include <varve/network.hpp>

#include "core/error.hpp"
#include "core/host.hpp"
#include "library/crossing.hpp"
#include "network/network.hpp"
#include "passes/pruned_network.hpp"
#include "passes/reduced_network.hpp"

#include <fmt/format.h>

namespace varve::v0_3 {
namespace {

/// Appends a layer. Throws InputError unless it is well formed and takes the outputs of the layer before it.
void append(std::vector<varve::Layer>& layers, varve::Layer layer) {
  auto const number = layers.size();
  varve::require_valid(layer, number);
  if (number > 0) varve::require_fit(layers.back().num_outputs(), layer, number);
  varve::make_iso_if_equal(layer.weights);
  layers.push_back(std::move(layer));
}

} // namespace

Network::Contents::Contents(std::shared_ptr<varve::NetworkSource const> layers) : source(std::move(layers)) {
  num_inputs = source->layer(0).num_inputs();
  num_outputs = source->layer(source->num_layers() - 1).num_outputs();
}

Network hold(std::shared_ptr<varve::NetworkSource const> source) {
  return Network::Contents::wrapped(std::make_shared<Network::Contents const>(std::move(source)));
}

Network hold(Network const& network, std::shared_ptr<varve::NetworkSource const> source) {
  return Network::Contents::wrapped(
      std::make_shared<Network::Contents const>(std::move(source), network.num_inputs(), network.num_outputs()));
}

Network hold_copy(varve::NetworkSource const& source) {
  return hold(std::make_shared<varve::Network const>(varve::load(source)));
}

struct NetworkBuilder::Contents {
  std::vector<varve::Layer> layers;
};

NetworkBuilder::NetworkBuilder() : contents_(std::make_unique<Contents>()) {}
NetworkBuilder::~NetworkBuilder() = default;
NetworkBuilder::NetworkBuilder(NetworkBuilder&&) noexcept = default;
NetworkBuilder& NetworkBuilder::operator=(NetworkBuilder&&) noexcept = default;

NetworkBuilder& NetworkBuilder::add_layer(CsrView const& weights, std::span<double const> bias,
                                          Activation const& activation) {
  append(contents_->layers, {to_private(weights, fmt::format("layer {}: weights", contents_->layers.size())),
                             std::vector<double>(bias.begin(), bias.end()), to_private(activation)});
  return *this;
}

Network NetworkBuilder::build(std::string const& name) {
  return hold(std::make_shared<varve::Network const>(std::exchange(contents_->layers, {}), name));
}

Network::Network(std::vector<Layer> layers, std::string const& name) {
  std::vector<varve::Layer> own;
  for (auto& layer : layers) {
    append(own, {std::move(layer.weights), std::move(layer.bias), to_private(layer.activation)});
  }
  contents_ = std::make_shared<Contents const>(std::make_shared<varve::Network const>(std::move(own), name));
}

std::string Network::name() const { return contents_->source->name(); }
std::size_t Network::num_layers() const { return contents_->source->num_layers(); }
std::size_t Network::num_inputs() const { return contents_->num_inputs; }
std::size_t Network::num_outputs() const { return contents_->num_outputs; }

EdgeOffset Network::num_edges() const {
  EdgeOffset sum = 0;
  for (std::size_t number = 0; number < num_layers(); ++number) sum += contents_->source->layer(number).num_edges();
  return sum;
}

Layer Network::layer(std::size_t number) const {
  if (number >= num_layers()) fail<UsageError>("{} has no layer {}, only 0 to {}", name(), number, num_layers() - 1);
  auto layer = contents_->source->layer(number);
  return Layer{std::move(layer.weights), std::move(layer.bias), to_public(layer.activation)};
}

std::uint64_t Network::weights_hash() const { return varve::weights_hash(varve::load(*contents_->source)); }

Network reduced(Network const& network, ReductionPasses const& passes) {
  constexpr std::size_t part_of_memory = 4; // rewritten layers are kept in a fourth of the memory, others made again
  varve::NetworkPasses const wanted{passes.merge_neurons, passes.fold_constants, passes.drop_unread, false};
  return hold_copy(
      varve::ReducedNetwork(*network.contents().source, wanted, varve::available_host_memory() / part_of_memory));
}

Network pruned(Network const& network, double density, bool over_whole_network) {
  if (!(density > 0.0 && density <= 1.0))
    fail<UsageError>("the density is {}, expected a number above 0 and at most 1", density);
  auto const scope = over_whole_network ? varve::PruneScope::network : varve::PruneScope::layer;
  return hold_copy(varve::PrunedNetwork(*network.contents().source, density, scope));
}

} // namespace varve::v0_3
