#include "io/json_text.hpp"

#include "core/error.hpp"
#include "io/text_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace varve {
namespace {

/// Finds a key that an object has twice (the parser itself keeps the last of them, other programs the first), and more
/// than the limits allow. Events come without recursion, however deep the text nests.
class FaultSearch final : public nlohmann::json_sax<nlohmann::ordered_json> {
public:
  bool start_object(std::size_t /*size*/) override {
    keys_.emplace_back();
    return open();
  }
  bool end_object() override {
    keys_.pop_back();
    return end_array();
  }
  bool key(std::string& name) override {
    auto& keys = keys_.back();
    if (!keys.insert(name).second) {
      fault_ = fmt::format("the JSON key {} twice in one object, expected it once", quote(name));
    } else if (keys.size() > max_json_keys) {
      fault_ = fmt::format("a JSON object of more than {} keys, expected no more", max_json_keys);
    }
    return fault_.empty();
  }
  bool null() override { return count(); }
  bool boolean(bool /*value*/) override { return count(); }
  bool number_integer(number_integer_t /*value*/) override { return count(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return count(); }
  bool number_float(number_float_t /*value*/, std::string const& /*text*/) override { return count(); }
  bool string(std::string& /*value*/) override { return count(); }
  bool binary(binary_t& /*value*/) override { return count(); }
  bool start_array(std::size_t /*size*/) override { return open(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t /*place*/, std::string const& /*token*/,
                   nlohmann::detail::exception const& /*error*/) override {
    return false;
  }

  /// Empty if there is none.
  std::string fault() const {
    if (deepest_ <= deepest_json) return fault_;
    return fmt::format("JSON that nests {} deep, expected no more than {}", deepest_, deepest_json);
  }

private:
  bool open() {
    deepest_ = std::max(deepest_, ++depth_);
    return count();
  }
  bool count() {
    if (++num_values_ > max_json_values)
      fault_ = fmt::format("JSON of more than {} values, expected no more", max_json_values);
    return fault_.empty();
  }

  std::vector<std::unordered_set<std::string>> keys_; ///< those of each open object
  std::size_t depth_ = 0;
  std::size_t deepest_ = 0;
  std::size_t num_values_ = 0;
  std::string fault_;
};

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
  if (text.size() > max_bytes)
    fail<InputError>("{}: found JSON of more than {} bytes, expected no more", place, max_bytes);
  if (text.find('\0') != std::string_view::npos) return nlohmann::ordered_json::value_t::discarded; // not an end
  FaultSearch search;
  nlohmann::ordered_json::sax_parse(text, &search);
  if (auto const fault = search.fault(); !fault.empty()) fail<InputError>("{}: found {}", place, fault);
  return nlohmann::ordered_json::parse(text, nullptr, false);
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
