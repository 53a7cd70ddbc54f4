#include "apps/reductions_report.hpp"

#include <fmt/format.h>

namespace varve {

nlohmann::ordered_json describe(ReductionReport const& found) {
  return {{"neurons_before", found.neurons_before}, {"neurons_after", found.neurons_after},
          {"edges_before", found.edges_before},     {"edges_after", found.edges_after},
          {"merged_neurons", found.merged_neurons}, {"constant_neurons", found.constant_neurons},
          {"unread_neurons", found.unread_neurons}, {"seconds", found.seconds},
          {"read_seconds", found.read_seconds}};
}

nlohmann::ordered_json describe_reductions(Plan const& plan) {
  nlohmann::ordered_json json;
  if (plan.reduction) json = describe(*plan.reduction);
  if (plan.saturates_from) json["saturates_from_layer"] = *plan.saturates_from;
  return json;
}

bool orders_edges(Plan const& plan) { return plan.edge_order && plan.edge_order->num_layers > 0; }

nlohmann::ordered_json as_json(EdgeOrderReport const& order) {
  return {{"layers", order.num_layers},
          {"steps", order.chosen.num_steps},
          {"wavefronts", order.chosen.num_wavefronts},
          {"steps_ascending", order.ascending.num_steps},
          {"wavefronts_ascending", order.ascending.num_wavefronts},
          {"thread_seconds", order.seconds}};
}

void print_reductions(nlohmann::ordered_json const& found) {
  if (found.contains("neurons_before") && found["neurons_after"] != found["neurons_before"]) {
    fmt::print(
        "reduced   neurons from {} to {} ({} merged, {} constant, {} unread), edges from {} to {}, in {:.3f} s\n",
        found["neurons_before"].get<std::size_t>(), found["neurons_after"].get<std::size_t>(),
        found["merged_neurons"].get<std::size_t>(), found["constant_neurons"].get<std::size_t>(),
        found["unread_neurons"].get<std::size_t>(), found["edges_before"].get<EdgeOffset>(),
        found["edges_after"].get<EdgeOffset>(), found["seconds"].get<double>());
  }
  if (found.contains("saturates_from_layer")) {
    fmt::print(
        "reduced   a sample whose activations all equal the cap after {} layers or more leaves: its result is known\n",
        found["saturates_from_layer"].get<std::size_t>());
  }
}

} // namespace varve
