#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace varve {

/// The indices of the first text that stands before already, as {where it stands first, here}: of the identities of
/// devices (core/runtime.hpp), the two ranks that share one. Empty texts do not count.
inline std::optional<std::pair<std::size_t, std::size_t>> first_repeated(std::vector<std::string> const& texts) {
  std::map<std::string, std::size_t> first_of;
  for (std::size_t index = 0; index < texts.size(); ++index) {
    if (texts[index].empty()) continue;
    auto const [first, is_new] = first_of.emplace(texts[index], index);
    if (!is_new) return std::pair(first->second, index);
  }
  return std::nullopt;
}

} // namespace varve
