#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace varve {

/// The beginning of every report: the program, its version and build, the host and the date.
nlohmann::ordered_json report_head(std::string const& program);

} // namespace varve
