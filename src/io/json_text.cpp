#include "io/json_text.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace varve {
namespace {

/// The greatest number of brackets open at a time, not counting brackets in strings.
std::size_t depth_of(std::string_view text) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool in_string = false;
  for (std::size_t place = 0; place < text.size(); ++place) {
    char const letter = text[place];
    if (letter == '"') in_string = !in_string;
    if (in_string && letter == '\\') ++place;
    if (in_string) continue;
    if (letter == '[' || letter == '{') deepest = std::max(deepest, ++depth);
    if ((letter == ']' || letter == '}') && depth > 0) --depth;
  }
  return deepest;
}

} // namespace

nlohmann::ordered_json parse_json(std::string_view text, std::string const& place, std::size_t most_bytes) {
  if (text.size() > most_bytes) {
    throw InputError(fmt::format("{}: found JSON of more than {} bytes, expected no more", place, most_bytes));
  }
  if (auto const depth = depth_of(text); depth > deepest_json) {
    throw InputError(
        fmt::format("{}: found JSON that nests {} deep, expected no more than {}", place, depth, deepest_json));
  }
  return nlohmann::ordered_json::parse(text, nullptr, false);
}

std::string json_text(nlohmann::ordered_json const& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string member_text(nlohmann::ordered_json const& object, std::string const& name) {
  return object.contains(name) ? json_text(object[name]) : "not there";
}

} // namespace varve
