#pragma once

#include "io/line_error.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string_view>

namespace varve {

/// Whether a line break must end the last line too: then a file that was cut inside its last number is noticed.
enum class LastBreak { optional, required };

/// Calls visit(line, number) for each line of a plain or compressed text file, except blank lines and comments, which
/// begin with % or #. Blanks at both ends are removed. The number counts all lines, from 1. Ends early if `visit`
/// returns false. Throws as TextReader does.
template <class Visit>
void for_each_line(std::filesystem::path const& path, Visit const& visit, LastBreak last = LastBreak::optional) {
  TextReader reader(path);
  TextBlock block;
  while (reader.next(block)) {
    std::string_view rest = block.text;
    for (std::size_t number = block.first_line; !rest.empty(); ++number) {
      auto const length = std::min(rest.find('\n'), rest.size());
      auto line = rest.substr(0, length);
      bool const has_break = length < rest.size();
      rest.remove_prefix(std::min(length + 1, rest.size()));
      line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
      line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
      if (line.empty() || line.front() == '%' || line.front() == '#') continue;
      if (!has_break && last == LastBreak::required)
        fail_at_line(path, number, fmt::format("{} at the end of the file", quote(line)),
                     "a line break behind it, without which the file may have been cut");
      if (!visit(line, number)) return;
    }
  }
}

} // namespace varve
