#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace varve {

/// Limits for JSON in files, which is short and flat: descriptors, options, the head of a journal. They are checked
/// before values are made of it, which functions visit recursively.
constexpr std::size_t longest_json = std::size_t{1} << 16; ///< in bytes
constexpr std::size_t deepest_json = 32;                   ///< greatest nesting of brackets

/// Limits for all JSON, so that a small text does not become much memory or work.
constexpr std::size_t max_json_values = std::size_t{1} << 19; ///< each takes up to 80 bytes
constexpr std::size_t max_json_keys = 1024;                   ///< of one object, which compares each with all others

/// Parses a JSON text; the result is discarded (is_discarded()) if the text is not JSON. Throws InputError "PLACE: ..."
/// if the text has more than `max_bytes`, exceeds another limit, or has a key twice in one object.
nlohmann::ordered_json parse_json(std::string_view text, std::string const& place,
                                  std::size_t max_bytes = longest_json);

/// Serializes JSON; `indent` as in nlohmann::json::dump. Invalid UTF-8, as in some file names, becomes U+FFFD, because
/// JSON cannot hold it. Numbers that are not finite, for which JSON has no word either, become the texts "Infinity",
/// "-Infinity" and "NaN".
std::string json_text(nlohmann::ordered_json const& json, int indent = -1);

/// A number as json_text() writes it. Throws nlohmann::json::type_error if it is none.
double real_of(nlohmann::ordered_json const& json);

/// The member of this name as text for messages, of which a long one is cut; "not there" if the object has none.
std::string member_text(nlohmann::ordered_json const& object, std::string const& name);

} // namespace varve
