#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace varve {

/// JSON that a file holds is short and flat: descriptors, options, the head of a journal. The parser's own calls nest
/// as deep as the text does, so the bounds come first.
constexpr std::size_t longest_json = std::size_t{1} << 16; ///< bytes
constexpr std::size_t deepest_json = 32;                   ///< brackets within brackets

/// Parses a JSON text; the result is discarded (is_discarded) if it is no JSON. Throws InputError "PLACE: ..." if it is
/// longer or nests deeper than the bounds.
nlohmann::ordered_json parse_json(std::string_view text, std::string const& place);

/// JSON as text; `indent` as nlohmann::json::dump. Bytes that are no UTF-8, as in the names of some files, become
/// U+FFFD: JSON holds none of them.
std::string json_text(nlohmann::ordered_json const& json, int indent = -1);

} // namespace varve
