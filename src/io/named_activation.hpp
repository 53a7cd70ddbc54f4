#pragma once

#include "network/activation.hpp"

#include <optional>
#include <string>

namespace varve {

/// The activation of this name, as in network files, with its parameter. Throws InputError "PLACE: ..." if there is no
/// such activation, its parameter is missing or out of range, or one is given that it does not have.
Activation activation_of_name(std::string const& name, std::optional<double> cap, std::optional<double> slope,
                              std::string const& place);

} // namespace varve
