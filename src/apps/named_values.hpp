#pragma once

#include <string>
#include <vector>

namespace varve {

/// The values that an option takes by name, such as those of "--backend", in the order in which messages list them; of
/// lists ("--formats") the names of which they consist. Empty for options that take anything else, and for those whose
/// set of values is a rule of CLI11 (CLI::IsMember), which it knows itself.
std::vector<std::string> named_values(std::string const& option);

} // namespace varve
