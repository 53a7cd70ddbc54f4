#include "io/line_error.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

namespace varve {

std::string quote(std::string_view text) {
  constexpr std::size_t longest = 40;
  std::string shown = "\"";
  for (char const letter : text.substr(0, longest)) {
    bool const is_printable = letter >= ' ' && letter <= '~';
    shown += is_printable     ? std::string(1, letter)
             : letter == '\t' ? "\\t"
                              : fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(letter)));
  }
  return shown + (text.size() > longest ? "...\"" : "\"");
}

void fail_at(std::string_view place, std::string_view found, std::string_view expected) {
  throw InputError(fmt::format("{}: found {}, expected {}", place, found, expected));
}

void fail_at_line(std::filesystem::path const& path, std::size_t line, std::string_view found,
                  std::string_view expected) {
  fail_at(fmt::format("{}:{}", path.string(), line), found, expected);
}

} // namespace varve
