#include "receipts/receipt_members.hpp"

#include "io/json_text.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace varve {
nlohmann::ordered_json read_receipt_json(std::filesystem::path const& path, std::vector<std::string> const& kinds) {
  auto const text = read_text(path);
  auto json = parse_json(text, path.string(), text.size());
  auto const found = json.is_object() ? json.value("kind", nlohmann::ordered_json()) : nlohmann::ordered_json();
  if (std::ranges::none_of(kinds, [&](std::string const& kind) { return found == kind; }))
    fail_at(path.string(), "another file", fmt::format("a {}", fmt::join(kinds, " or ")));
  auto const version = ReceiptMembers(json, path.string()).number("version");
  if (version != kReceiptVersion)
    fail_at(path.string(), fmt::format("version {} of receipts", version), fmt::format("version {}", kReceiptVersion));
  return json;
}

ReceiptMembers::ReceiptMembers(nlohmann::ordered_json const& object, std::string place)
    : object_(object), place_(std::move(place)) {
  if (!object.is_object()) fail_at(place_, "no object", "the members of a receipt");
}

nlohmann::ordered_json const& ReceiptMembers::member(std::string const& name) const {
  auto const found = object_.find(name);
  if (found == object_.end()) fail_at(place_, "no member " + name, "a receipt");
  return *found;
}

std::string ReceiptMembers::text(std::string const& name) const {
  if (!member(name).is_string()) fail(name, "a text");
  return member(name);
}

std::uint64_t ReceiptMembers::number(std::string const& name) const {
  if (!member(name).is_number_unsigned()) fail(name, "a whole number from 0 on");
  return member(name);
}

std::vector<std::string> ReceiptMembers::texts(std::string const& name) const {
  auto const& list = member(name);
  if (!list.is_array()) fail(name, "a list");
  if (!std::ranges::all_of(list, &nlohmann::ordered_json::is_string)) fail(name, "a list of texts");
  return list;
}

std::vector<Digest> ReceiptMembers::digests(std::string const& name, std::size_t count) const {
  constexpr std::size_t digits_of_digest = 2 * std::tuple_size_v<Digest>;
  auto const digits = text(name);
  if (digits.size() / digits_of_digest != count || digits.size() % digits_of_digest != 0)
    fail(name, fmt::format("{} digests of {} hexadecimal digits", count, digits_of_digest));
  std::vector<Digest> digests(count);
  for (std::size_t place = 0; place < digits.size(); place += 2) {
    unsigned char byte = 0;
    auto const* const first = digits.data() + place;
    if (std::from_chars(first, first + 2, byte, 16).ptr != first + 2) fail(name, "hexadecimal digits");
    digests[place / digits_of_digest][place % digits_of_digest / 2] = byte;
  }
  return digests;
}

int ReceiptMembers::numerics() const {
  constexpr std::uint64_t largest = std::numeric_limits<int>::max();
  return static_cast<int>(std::min(number("numerics"), largest));
}

void ReceiptMembers::fail(std::string const& name, std::string const& expected) const {
  fail_at(place_, fmt::format("{} in {}", member_text(object_, name), name), expected);
}

std::string hex_of(std::vector<Digest> const& digests) {
  return to_hex({reinterpret_cast<unsigned char const*>(digests.data()), digests.size() * sizeof(Digest)});
}

} // namespace varve
