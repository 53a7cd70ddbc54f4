#include "arrays.hpp"
#include "bindings.hpp"
#include "gil.hpp"
#include "interruptible.hpp"

#include "core/error.hpp"
#include "network/network.hpp"

#include <varve/generate.hpp>

#include <fmt/ranges.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace varve::python {
namespace {

/// The activation with this name and this parameter, which those without one ignore.
v0_3::Activation activation_of(std::string const& name, double parameter) {
  if (auto const* const entry = find_activation(name)) return v0_3::to_public(make_activation(*entry, parameter));
  throw UsageError(
      fmt::format("there is no activation '{}'; there are: {}", name, fmt::join(names_of(all_activations), ", ")));
}

/// Layers added one by one, before they become a network, which then judges all but the matrices.
struct LayerList {
  std::vector<v0_3::Layer> layers;
};

void append_layer(LayerList& list, CompressedRows const& rows, Vector<double> const& bias,
                  std::string const& activation, double parameter) {
  auto weights = rows.matrix("layer " + std::to_string(list.layers.size()));
  list.layers.push_back({std::move(weights), to_vector(bias), activation_of(activation, parameter)});
}

v0_3::Network reduce(v0_3::Network const& network, bool merge_neurons, bool fold_constants, bool drop_unread) {
  return reduced(interruptible(network), {merge_neurons, fold_constants, drop_unread});
}

v0_3::Network prune(v0_3::Network const& network, double density, std::string const& scope) {
  if (scope != "layer" && scope != "network")
    throw UsageError("there is no scope '" + scope + "'; there are: layer, network");
  return pruned(interruptible(network), density, scope == "network");
}

std::optional<v0_3::Activation> optional_activation(std::optional<std::string> const& name, double parameter) {
  if (!name) return std::nullopt;
  return activation_of(*name, parameter);
}

v0_3::Network with_initial_weights(v0_3::Network const& network, std::string const& weights,
                                   std::optional<std::string> const& activation, double parameter,
                                   std::optional<std::string> const& last_activation, double last_parameter,
                                   std::uint64_t seed) {
  return initial_network(interruptible(network), weights, optional_activation(activation, parameter),
                         optional_activation(last_activation, last_parameter), seed);
}

nb::tuple layer_of(v0_3::Network const& network, std::size_t number) {
  v0_3::Layer layer;
  {
    WithoutGil const no_gil;
    layer = network.layer(number);
  }
  auto const activation = v0_3::to_private(layer.activation);
  return nb::make_tuple(to_tuple(layer.weights), layer.weights.num_rows, layer.weights.num_columns,
                        to_numpy(std::move(layer.bias)),
                        nb::make_tuple(entry_of(activation.kind).name, parameter_of(activation)));
}

/// The numbers of edges, and of all products of outputs and inputs of a layer: the edges that there could be.
std::pair<EdgeOffset, EdgeOffset> count_edges(v0_3::Network const& network) {
  InterruptibleNetwork const source(network);
  std::pair<EdgeOffset, EdgeOffset> counts;
  for (std::size_t number = 0; number < source.num_layers(); ++number) {
    Layer const layer = source.layer(number);
    counts.first += layer.num_edges();
    counts.second += static_cast<EdgeOffset>(layer.num_outputs()) * layer.num_inputs();
  }
  return counts;
}

} // namespace

void add_networks(nb::module_& module) {
  using v0_3::Network;
  using NoGil = nb::call_guard<WithoutGil>;
  nb::class_<LayerList>(module, "LayerList", "Layers on their way to a network.")
      .def(nb::init<>())
      .def("append", &append_layer, nb::arg("rows"), nb::arg("bias"), nb::arg("activation"), nb::arg("parameter"),
           NoGil());
  nb::class_<Network>(module, "Network", "A network that is never changed.")
      .def_prop_ro("name", &Network::name)
      .def_prop_ro("num_layers", &Network::num_layers)
      .def_prop_ro("num_inputs", &Network::num_inputs)
      .def_prop_ro("num_outputs", &Network::num_outputs)
      .def("count_edges", &count_edges, NoGil(), "Edges, and places where edges could be. Reads all layers.")
      .def("layer", &layer_of, nb::arg("number"))
      .def(
          "weights_hash", [](Network const& self) { return interruptible(self).weights_hash(); }, NoGil())
      .def("reduce", &reduce, nb::arg("merge_neurons"), nb::arg("fold_constants"), nb::arg("drop_unread"), NoGil())
      .def("prune", &prune, nb::arg("density"), nb::arg("scope"), NoGil())
      .def("with_initial_weights", &with_initial_weights, nb::arg("weights"), nb::arg("activation").none(),
           nb::arg("parameter"), nb::arg("last_activation").none(), nb::arg("last_parameter"), nb::arg("seed"),
           NoGil());
  module.def(
      "make_network",
      [](LayerList& list, std::string const& name) { return Network(std::exchange(list.layers, {}), name); },
      nb::arg("layers"), nb::arg("name"), NoGil(), "Makes a network of the layers and leaves the list empty.");
}

} // namespace varve::python
