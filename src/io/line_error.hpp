#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace varve {

/// Quotes text from a file for a message: shortened, with unprintable bytes escaped.
std::string quote(std::string_view text);

/// Throws InputError "PLACE: found FOUND, expected EXPECTED".
[[noreturn]] void fail_at(std::string_view place, std::string_view found, std::string_view expected);

/// Throws InputError "FILE:LINE: found FOUND, expected EXPECTED".
[[noreturn]] void fail_at_line(std::filesystem::path const& path, std::size_t line, std::string_view found,
                               std::string_view expected);

} // namespace varve
