#pragma once

#include <string>
#include <string_view>

namespace varve {

/// Text of unknown origin, such as the name of a file, as it may stand on a terminal and in a log of one entry a line:
/// control characters, line separators, marks that change the direction of text and bytes that are no UTF-8 become
/// \n, \t, \u{9b} or \xff. All other text stays as it is.
std::string printable(std::string_view text);

/// The same, shortened in the middle if it takes more than `most` bytes.
std::string printable(std::string_view text, std::size_t most);

} // namespace varve
