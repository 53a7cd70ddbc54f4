#include "io/triple_line.hpp"

#include "io/line_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace varve {
namespace {

/// The words of a line, separated by blanks, tabs and carriage returns.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (auto begin = line.find_first_not_of(" \t\r"); begin != std::string_view::npos;) {
    auto const end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(" \t\r", end);
  }
  return words;
}

} // namespace

std::optional<Triple> parse_line(std::string_view line, TripleFormat const& format, std::filesystem::path const& path,
                                 std::size_t number) {
  auto const words = words_of(line);
  if (words.empty() || words[0].front() == '%' || words[0].front() == '#') return std::nullopt;
  if (words.size() != 3) {
    fail_at_line(path, number,
                 fmt::format("{} column{} in {}", words.size(), words.size() == 1 ? "" : "s", quote(line)),
                 fmt::format("3: {}, {}, {}", format.names[0], format.names[1], format.names[2]));
  }
  auto const read = [&](std::string_view word, auto& number_read) {
    auto const end = word.data() + word.size();
    auto const [next, error] = std::from_chars(word.data(), end, number_read);
    return error == std::errc() && next == end;
  };
  Triple triple;
  for (std::size_t position = 0; position < 2; ++position) {
    auto& index = triple.index[position];
    if (!read(words[position], index) || index < 1 || index > format.largest[position]) {
      fail_at_line(path, number, fmt::format("{} {}", format.names[position], quote(words[position])),
                   fmt::format("a number from 1 to {}", format.largest[position]));
    }
  }
  if (!read(words[2], triple.value) || !std::isfinite(triple.value)) {
    fail_at_line(path, number, fmt::format("{} {}", format.names[2], quote(words[2])), "a finite number");
  }
  return triple;
}

} // namespace varve
