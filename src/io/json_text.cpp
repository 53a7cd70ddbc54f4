#include "io/json_text.hpp"

#include "core/error.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// The words for numbers for which JSON has none: those of JavaScript, which Python's float() takes, too.
constexpr std::array<std::pair<char const*, double>, 3> words_for_numbers = {
    {{"Infinity", std::numeric_limits<double>::infinity()},
     {"-Infinity", -std::numeric_limits<double>::infinity()},
     {"NaN", std::numeric_limits<double>::quiet_NaN()}}};

/// True if the JSON holds numbers that are not finite.
bool has_words(nlohmann::ordered_json const& json) {
  if (json.is_number_float()) return !std::isfinite(json.get<double>());
  if (!json.is_structured()) return false;
  for (auto const& member : json)
    if (has_words(member)) return true;
  return false;
}

/// Replaces numbers that are not finite by their words.
void spell_out(nlohmann::ordered_json& json) {
  if (json.is_structured()) {
    for (auto& member : json) spell_out(member);
  } else if (has_words(json)) {
    double const number = json.get<double>();
    json = words_for_numbers[std::isnan(number) ? 2 : number > 0.0 ? 0 : 1].first;
  }
}

} // namespace

nlohmann::ordered_json parse_json(std::string_view text, std::string const& place, std::size_t max_bytes) {
  if (text.size() > max_bytes) {
    throw InputError(fmt::format("{}: found JSON of more than {} bytes, expected no more", place, max_bytes));
  }
  if (text.find('\0') != std::string_view::npos) return nlohmann::ordered_json::value_t::discarded; // not an end

  using Event = nlohmann::ordered_json::parse_event_t;
  std::vector<std::unordered_set<std::string>> keys; // those of each open object
  std::size_t deepest = 0;
  std::size_t num_values = 0;
  auto const require_flat = [&] {
    if (deepest <= deepest_json) return;
    fail_at(place, fmt::format("JSON that nests {} deep", deepest), fmt::format("no more than {}", deepest_json));
  };
  auto const fail = [&](std::string const& found, char const* expected) {
    require_flat();
    fail_at(place, found, expected);
  };
  // Of a key that an object has twice, the parser itself keeps the last value, other programs the first. What nests too
  // deeply is not kept, for functions would visit it recursively.
  auto const check = [&](int depth, Event event, nlohmann::ordered_json const& parsed) {
    bool const opens = event == Event::object_start || event == Event::array_start;
    if (opens) deepest = std::max(deepest, static_cast<std::size_t>(depth) + 1);
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if ((opens || event == Event::value) && ++num_values > max_json_values)
      fail(fmt::format("JSON of more than {} values", max_json_values), "no more");
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second)
      fail(fmt::format("the JSON key {} twice in one object", quote(parsed.get<std::string>())), "it once");
    if (event == Event::key && keys.back().size() > max_json_keys)
      fail(fmt::format("a JSON object of more than {} keys", max_json_keys), "no more");
    return !opens || deepest <= deepest_json;
  };
  auto json = nlohmann::ordered_json::parse(text, check, false);
  require_flat();
  return json;
}

std::string json_text(nlohmann::ordered_json const& json, int indent) {
  auto const dump = [indent](nlohmann::ordered_json const& any) {
    return any.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  };
  if (!has_words(json)) return dump(json);
  auto spelled = json;
  spell_out(spelled);
  return dump(spelled);
}

double real_of(nlohmann::ordered_json const& json) {
  for (auto const& [word, number] : words_for_numbers)
    if (json == word) return number;
  return json.get<double>();
}

std::string member_text(nlohmann::ordered_json const& object, std::string const& name) {
  constexpr std::size_t longest = 100;
  auto text = object.contains(name) ? json_text(object[name]) : "not there";
  if (text.size() > longest) text.replace(longest, std::string::npos, "...");
  return text;
}

} // namespace varve
