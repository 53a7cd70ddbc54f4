#pragma once

#include "apps/cli_types.hpp"

#include <functional>
#include <string>
#include <vector>

namespace varve {

/// A setting that only studies change, and no bit of any result depends on.
struct TuningKey {
  std::string name;
  std::vector<std::string> values; ///< all that it takes, the default first
  std::string help;
  std::function<void(std::string const& value)> take; ///< called with the value that was given
};

/// Adds the option --tuning KEY=VALUE, which may be given several times. Parsing refuses other keys and values with a
/// list of those there are.
void add_tuning(CLI::App& command, std::vector<TuningKey> const& keys);

} // namespace varve
