#include "io/named_activation.hpp"

#include "core/error.hpp"
#include "io/line_error.hpp"
#include "network/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace varve {

Activation activation_of_name(std::string const& name, std::optional<double> cap, std::optional<double> slope,
                              std::string const& place) {
  auto const found =
      std::ranges::find(all_activations, name, [](auto const& entry) { return std::string(entry.name); });
  if (found == all_activations.end()) {
    std::string names;
    for (auto const& entry : all_activations) names += (names.empty() ? "" : ", ") + std::string(entry.name);
    throw InputError(fmt::format("{}: found the activation {}, expected one of {}", place, quote(name), names));
  }
  for (auto const& [parameter, value, kind] :
       {std::tuple("cap", cap, ActivationKind::clipped_relu), std::tuple("slope", slope, ActivationKind::leaky_relu)}) {
    if (value.has_value() == (found->kind == kind)) continue;
    throw InputError(value
                         ? fmt::format("{}: found a {} for the activation {}, which has none", place, parameter, name)
                         : fmt::format("{}: found no {} for the activation {}, expected one", place, parameter, name));
  }
  Activation activation = found->kind == ActivationKind::relu ? Activation::relu() : Activation::identity();
  if (cap) activation = Activation::clipped_relu(*cap);
  if (slope) activation = Activation::leaky_relu(*slope);
  activation.kind = found->kind;
  require_valid(activation, place);
  return activation;
}

} // namespace varve
