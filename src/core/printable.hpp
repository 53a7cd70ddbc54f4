#pragma once

#include <string>
#include <string_view>

namespace varve {

/// Makes text of unknown origin, such as a file name, safe for a terminal and for one-entry-per-line logs: control
/// characters, line separators, bidirectional marks and invalid UTF-8 become escapes such as \n, \t, \u{9b} and \xff.
/// All other text is unchanged.
std::string printable(std::string_view text);

/// printable(text), shortened in the middle to at most `most` bytes.
std::string printable(std::string_view text, std::size_t most);

/// Two hexadecimal digits per byte.
std::string hexadecimal(std::string_view bytes);

/// The bytes of hexadecimal digits; empty if the text is anything else.
std::string from_hexadecimal(std::string_view digits);

} // namespace varve
