#include "arrays.hpp"
#include "bindings.hpp"
#include "gil.hpp"
#include "held_network.hpp"

#include "core/error.hpp"
#include "core/host.hpp"
#include "network/network.hpp"
#include "passes/pruned_network.hpp"
#include "passes/reduced_network.hpp"
#include "radixnet/network.hpp"

#include <fmt/ranges.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string_view>
#include <utility>

namespace nb = nanobind;

namespace varve::python {
namespace {

/// The activation with this name and this parameter, which those without one ignore.
Activation activation_of(std::string const& name, double parameter) {
  if (auto const* const entry = find_activation(name)) return make_activation(*entry, parameter);
  throw UsageError(
      fmt::format("there is no activation '{}'; there are: {}", name, fmt::join(names_of(all_activations), ", ")));
}

/// The name and the parameter of an activation; 0 without one.
nb::tuple to_tuple(Activation const& activation) {
  return nb::make_tuple(entry_of(activation.kind).name, parameter_of(activation));
}

/// Layers added one by one, before they become a network, which then judges all but the matrices.
struct LayerList {
  std::vector<Layer> layers;
};

void append_layer(LayerList& list, CompressedRows const& rows, Vector<double> const& bias,
                  std::string const& activation, double parameter) {
  Layer layer;
  layer.weights = rows.matrix("layer " + std::to_string(list.layers.size()));
  layer.bias = to_vector(bias);
  layer.activation = activation_of(activation, parameter);
  make_iso_if_equal(layer.weights);
  list.layers.push_back(std::move(layer));
}

std::unique_ptr<HeldNetwork> reduce(HeldNetwork const& network, bool merge_neurons, bool fold_constants,
                                    bool drop_unread) {
  constexpr std::size_t part_of_memory = 4; // rewritten layers are kept in a fourth of the memory, others made again
  NetworkPasses const passes{merge_neurons, fold_constants, drop_unread, false};
  InterruptibleNetwork const source(network.shared());
  return hold_copy(ReducedNetwork(source, passes, available_host_memory() / part_of_memory));
}

std::unique_ptr<HeldNetwork> prune(HeldNetwork const& network, double density, std::string const& scope) {
  if (scope != "layer" && scope != "network")
    throw UsageError("there is no scope '" + scope + "'; there are: layer, network");
  if (!(density > 0.0 && density <= 1.0))
    throw UsageError("the density is " + std::to_string(density) + ", expected a number above 0 and at most 1");
  InterruptibleNetwork const source(network.shared());
  return hold_copy(PrunedNetwork(source, density, scope == "layer" ? PruneScope::layer : PruneScope::network));
}

std::optional<Activation> optional_activation(std::optional<std::string> const& name, double parameter) {
  if (!name) return std::nullopt;
  return activation_of(*name, parameter);
}

std::unique_ptr<HeldNetwork> with_initial_weights(HeldNetwork const& network, std::string const& weights,
                                                  std::optional<std::string> const& activation, double parameter,
                                                  std::optional<std::string> const& last_activation,
                                                  double last_parameter, std::uint64_t seed) {
  InitialRecipe recipe;
  recipe.weights = parse_initial_weights(weights);
  recipe.activation = optional_activation(activation, parameter);
  recipe.last_activation = optional_activation(last_activation, last_parameter);
  recipe.seed = seed;
  for (auto const& wanted : {recipe.activation, recipe.last_activation})
    if (wanted) require_valid(*wanted, "initial weights");
  InterruptibleNetwork const source(network.shared());
  return hold_copy(InitialNetwork(source, recipe));
}

nb::tuple layer_of(HeldNetwork const& network, std::size_t number) {
  Layer layer;
  {
    WithoutGil const no_gil;
    layer = network.source().layer(number);
  }
  return nb::make_tuple(python::to_tuple(layer.weights), layer.weights.num_rows, layer.weights.num_columns,
                        to_numpy(std::move(layer.bias)), to_tuple(layer.activation));
}

} // namespace

void add_networks(nb::module_& module) {
  using NoGil = nb::call_guard<WithoutGil>;
  nb::class_<LayerList>(module, "LayerList", "Layers on their way to a network.")
      .def(nb::init<>())
      .def("append", &append_layer, nb::arg("rows"), nb::arg("bias"), nb::arg("activation"), nb::arg("parameter"),
           NoGil());
  nb::class_<HeldNetwork>(module, "Network", "A network that is never changed.")
      .def_prop_ro("name", [](HeldNetwork const& self) { return self.source().name(); })
      .def_prop_ro("num_layers", &HeldNetwork::num_layers)
      .def_prop_ro("num_inputs", &HeldNetwork::num_inputs)
      .def_prop_ro("num_outputs", &HeldNetwork::num_outputs)
      .def("num_edges", &HeldNetwork::num_edges, NoGil())
      .def("num_places", &HeldNetwork::num_places, NoGil())
      .def("layer", &layer_of, nb::arg("number"))
      .def(
          "weights_hash",
          [](HeldNetwork const& self) { return weights_hash(load(InterruptibleNetwork(self.shared()))); }, NoGil())
      .def("reduce", &reduce, nb::arg("merge_neurons"), nb::arg("fold_constants"), nb::arg("drop_unread"), NoGil())
      .def("prune", &prune, nb::arg("density"), nb::arg("scope"), NoGil())
      .def("with_initial_weights", &with_initial_weights, nb::arg("weights"), nb::arg("activation").none(),
           nb::arg("parameter"), nb::arg("last_activation").none(), nb::arg("last_parameter"), nb::arg("seed"),
           NoGil());
  module.def(
      "make_network",
      [](LayerList& list, std::string name) {
        return hold(std::make_shared<Network const>(std::move(list.layers), std::move(name)));
      },
      nb::arg("layers"), nb::arg("name"), NoGil(), "Makes a network of the layers and leaves the list empty.");
}

} // namespace varve::python
