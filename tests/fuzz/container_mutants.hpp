#pragma once

#include "io/container_edit.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Containers that differ a little from others. Nearly all get the length and the hashes that fit, without which a
/// reader would look at nothing else.
namespace varve::fuzz {

class ContainerMutator {
public:
  explicit ContainerMutator(std::uint64_t seed) : random_(seed) {}

  /// What becomes of a file by one to four changes.
  std::string mutant_of(std::string const& bytes) {
    try {
      return change_parts(test::ContainerParts::of(bytes));
    } catch (std::exception const&) { // no container
      auto changed = bytes;
      change_bytes(changed);
      return changed;
    }
  }

private:
  using Json = test::Json;

  /// A number below `count`, or 0.
  std::size_t below(std::size_t count) { return count == 0 ? 0 : random_() % count; }

  std::string change_parts(test::ContainerParts parts) {
    auto description = Json::parse(parts.header.at("__metadata__").at("varve").get<std::string>());
    bool const keeps_places = below(2) == 0; // so that readers look at what arrays hold
    for (auto changes = 1 + below(4); changes > 0; --changes) {
      auto const part = below(8);
      if (keeps_places) {
        change_bytes(parts.arrays, true);
      } else if (part < 3) {
        change_member(description);
      } else if (part < 6) {
        change_member(parts.header);
      } else {
        change_bytes(parts.arrays);
      }
    }
    if (parts.header["__metadata__"].is_object()) parts.header["__metadata__"]["varve"] = description.dump();
    if (below(16) > 0) parts.hash();
    if (below(16) > 0) return parts.bytes();
    auto header = parts.header.dump();
    change_bytes(header);
    return test::joined(header, parts.arrays);
  }

  /// A number at which something changes, or one beside it.
  std::uint64_t some_number() {
    constexpr std::array<unsigned, 12> powers = {0, 1, 3, 5, 8, 15, 16, 31, 32, 40, 53, 63};
    return (std::uint64_t{1} << powers[below(powers.size())]) - 1 + below(3);
  }

  void change_bytes(std::string& bytes, bool keeps_places = false) {
    auto const place = below(bytes.size());
    auto const number = some_number();
    std::string_view const word(reinterpret_cast<char const*>(&number), std::size_t{1} << below(4));
    switch (keeps_places ? 3 + below(2) : below(5)) {
    case 0:
      bytes.insert(place, word);
      break;
    case 1:
      bytes.erase(place, 1 + below(16));
      break;
    case 2:
      bytes.insert(place, bytes.substr(below(bytes.size()), below(64)));
      break;
    case 3:
      if (!bytes.empty()) bytes[place] = static_cast<char>(bytes[place] ^ 1 << below(8));
      break;
    default:
      bytes.replace(place, std::min(word.size(), bytes.size() - place), word, 0,
                    std::min(word.size(), bytes.size() - place));
    }
  }

  /// Changes a member of a list or an object, or a member of that.
  void change_member(Json& json) {
    if (json.empty()) return;
    auto member = json.begin();
    std::advance(member, static_cast<std::ptrdiff_t>(below(json.size())));
    if (member->is_structured() && below(4) > 0) return change_member(*member);
    auto const chosen = below(8);
    if (chosen == 0) {
      json.erase(member);
    } else if (chosen == 1) { // one member more, or another one instead
      Json const copy = *member;
      if (json.is_array()) return json.push_back(copy);
      auto other = json.begin();
      std::advance(other, static_cast<std::ptrdiff_t>(below(json.size())));
      json[below(2) == 0 ? other.key() : some_text()] = copy;
    } else {
      change_value(*member);
    }
  }

  void change_value(Json& value) {
    bool const is_number = value.is_number_unsigned();
    switch (below(is_number || value.is_string() ? 8 : 3)) {
    case 0:
      value = some_number();
      break;
    case 1:
      value = some_text();
      break;
    case 2:
      value = std::vector<Json>{nullptr, false, -1, 0.5, 1e300, Json::array(), Json::object()}[below(7)];
      break;
    default:
      if (is_number) {
        value = value.get<std::uint64_t>() + below(3) - 1 + 8 * below(2);
      } else {
        value = some_text();
      }
    }
  }

  std::string some_text() {
    constexpr std::array<char const*, 33> words = {
        "",           "U8",         "U16",          "U32",        "U64",         "F32",      "F64",
        "I32",        "relu",       "clipped_relu", "leaky_relu", "identity",    "tanh",     "softplus",
        "network",    "samples",    "matrix",       "layers",     "best",        "training", "shape",
        "weights_of", "cap",        "slope",        "targets",    "labels",      "steps",    "moments",
        "history",    "activation", "sha256",       "varve",      "first_sample"};
    constexpr std::array<char const*, 6> parts = {"pointers", "indices", "values", "bias", "recipe", "weights.0"};
    constexpr std::array<char const*, 5> owners = {"layers", "best", "samples", "targets", "training"};
    if (below(2) == 0) return words[below(words.size())];
    std::string const owner = owners[below(owners.size())];
    return owner + (below(2) == 0 ? "." : "." + std::to_string(below(4)) + ".") + parts[below(parts.size())];
  }

  std::mt19937_64 random_;
};

} // namespace varve::fuzz
