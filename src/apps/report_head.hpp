#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace varve {

/// What every report begins with: the program, its version and build, the host and the date.
nlohmann::ordered_json report_head(std::string const& program);

} // namespace varve
