#pragma once

#include <fmt/format.h>

#include <utility>

namespace varve {

/// Throws an error whose sentence is formatted as by fmt::format.
template <class Kind, class... Values>
[[noreturn]] void fail(fmt::format_string<Values...> sentence, Values&&... values) {
  throw Kind(fmt::format(sentence, std::forward<Values>(values)...));
}

} // namespace varve
