#include "io/text_file.hpp"

#include "core/error.hpp"
#include "core/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace varve {

std::string quote(std::string_view text) {
  constexpr std::size_t longest = 40;
  return fmt::format("\"{}{}\"", printable(text.substr(0, longest)), text.size() > longest ? "..." : "");
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (auto begin = line.find_first_not_of(" \t\r"); begin != std::string_view::npos;) {
    auto const end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(" \t\r", end);
  }
  return words;
}

void fail_at(std::string_view place, std::string_view found, std::string_view expected) {
  throw InputError(fmt::format("{}: found {}, expected {}", place, found, expected));
}

void fail_at_line(std::filesystem::path const& path, std::size_t line, std::string_view found,
                  std::string_view expected) {
  fail_at(fmt::format("{}:{}", path.string(), line), found, expected);
}

namespace {

constexpr std::size_t smallest_read = std::size_t{1} << 16; // a short file must not pay for a whole block

} // namespace

TextReader::TextReader(std::filesystem::path path, std::size_t block_size)
    : path_(std::move(path)), block_size_(block_size), source_(open_bytes(path_)) {}

bool TextReader::next(TextBlock& block) {
  block.text.assign(rest_);
  rest_.clear();
  block.first_line = next_line_;
  while (!at_end_ && block.text.size() < block_size_) {
    auto const kept = block.text.size();
    block.text.resize(std::min(block_size_, std::max(smallest_read, 2 * kept)));
    auto const filled = kept + source_->read(std::span(block.text).subspan(kept));
    at_end_ = filled < block.text.size();
    block.text.resize(filled);
  }
  if (!at_end_) {
    auto const last_end = block.text.rfind('\n');
    if (last_end == std::string::npos) {
      throw InputError(fmt::format("{}:{}: found a line of more than {} bytes, expected lines of numbers",
                                   path_.string(), next_line_, block_size_));
    }
    rest_ = block.text.substr(last_end + 1);
    block.text.resize(last_end + 1);
  }
  next_line_ += static_cast<std::size_t>(std::ranges::count(block.text, '\n'));
  return !block.text.empty();
}

std::string read_text(std::filesystem::path const& path) {
  auto const source = open_bytes(path);
  std::string text;
  for (std::size_t filled = 0;;) {
    text.resize(filled + TextReader::default_block_size);
    filled += source->read(std::span(text).subspan(filled));
    if (filled == text.size()) continue;
    text.resize(filled);
    return text;
  }
}

} // namespace varve
