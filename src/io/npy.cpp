#include "io/npy.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "io/line_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr std::string_view magic_of_numpy = "\x93NUMPY";
constexpr std::size_t buffer_size = std::size_t{1} << 18;
constexpr std::size_t longest_header = std::size_t{1} << 16;

void skip_blanks(std::string_view& text) { text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size())); }

/// Removes blanks and then `expected` from the front of a text; false if it is not there.
bool take_word(std::string_view& text, std::string_view expected) {
  skip_blanks(text);
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

/// The text behind "'KEY':" of a Python dictionary.
std::string_view value_of(std::string_view text, std::string_view key, std::string const& place) {
  for (char const mark : {'\'', '"'}) {
    auto const name = fmt::format("{0}{1}{0}", mark, key);
    auto const begin = text.find(name);
    if (begin == std::string_view::npos) continue;
    auto value = text.substr(begin + name.size());
    if (take_word(value, ":")) return value;
  }
  fail_at(place, fmt::format("no '{}' in the header of a NumPy array", key), "one");
}

std::string quoted_of(std::string_view text, std::string const& place) {
  skip_blanks(text);
  bool const is_quoted = text.starts_with('\'') || text.starts_with('"');
  auto const end = is_quoted ? text.find(text.front(), 1) : std::string_view::npos;
  if (end == std::string_view::npos)
    fail_at(place, fmt::format("the type {} of elements", quote(text.substr(0, 40))),
            "one type of numbers, such as '<f4'");
  return std::string(text.substr(1, end - 1));
}

std::vector<std::uint64_t> shape_of(std::string_view text, std::string const& place) {
  auto const fail_shape = [&] {
    fail_at(place, "a shape that is no list of whole numbers", "one, such as (60000, 784)");
  };
  std::vector<std::uint64_t> shape;
  if (!take_word(text, "(")) fail_shape();
  while (!take_word(text, ")")) {
    std::uint64_t length = 0;
    skip_blanks(text);
    auto const [next, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (error != std::errc() || shape.size() >= 32) fail_shape();
    text.remove_prefix(static_cast<std::size_t>(next - text.data()));
    shape.push_back(length);
    if (take_word(text, ",")) continue;
    if (!take_word(text, ")")) fail_shape();
    break;
  }
  return shape;
}

std::string read_some(ByteSource& source, std::size_t count, std::string const& place) {
  std::string bytes(count, '\0');
  if (source.read(bytes) < count) fail_at(place, "an end within the header of a NumPy array", "all of it");
  return bytes;
}

NpyHeader read_header(ByteSource& source, std::string const& place) {
  auto const head = read_some(source, magic_of_numpy.size() + 2, place);
  auto const major = static_cast<unsigned char>(head[magic_of_numpy.size()]);
  if (!head.starts_with(magic_of_numpy)) fail_at(place, "no NumPy array", "the letters NUMPY at its begin");
  if (major < 1 || major > 3) fail_at(place, fmt::format("version {} of NumPy's format", major), "1 to 3");
  std::size_t length = 0;
  auto const digits = read_some(source, major == 1 ? 2 : 4, place);
  for (std::size_t byte = digits.size(); byte-- > 0;) length = length << 8U | static_cast<unsigned char>(digits[byte]);
  if (length > longest_header)
    fail_at(place, fmt::format("a header of {} bytes", length), fmt::format("no more than {}", longest_header));
  auto const text = read_some(source, length, place);
  NpyHeader header;
  header.type = quoted_of(value_of(text, "descr", place), place);
  auto order = value_of(text, "fortran_order", place);
  header.is_fortran = take_word(order, "True");
  if (!header.is_fortran && !take_word(order, "False"))
    fail_at(place, "an order that is neither True nor False", "one");
  header.shape = shape_of(value_of(text, "shape", place), place);
  return header;
}

} // namespace

std::uint64_t NpyHeader::num_elements() const {
  std::uint64_t count = 1;
  for (auto const length : shape) count = capped_multiply(count, length);
  return std::ranges::find(shape, 0U) == shape.end() ? count : 0;
}

NpyStream::NpyStream(std::unique_ptr<ByteSource> source, std::string place)
    : source_(std::move(source)), place_(std::move(place)), header_(read_header(*source_, place_)) {}

ElementType NpyStream::type() const {
  auto const& text = header_.type;
  auto const refuse = [&] {
    fail_at(place_, fmt::format("elements of NumPy's type {}", quote(text)),
            "integers or floating point of at most 8 bytes, lowest byte first (little endian)");
  };
  if (text.size() != 3 || text[2] < '1' || text[2] > '8') refuse();
  ElementType type{ElementType::Kind::floating, static_cast<std::size_t>(text[2] - '0')};
  if (text[1] == 'i') type.kind = ElementType::Kind::signed_integer;
  if (text[1] == 'u' || text[1] == 'b') type.kind = ElementType::Kind::unsigned_integer;
  bool const is_known = "iubf"sv.find(text[1]) != std::string_view::npos && (text[1] != 'b' || type.size == 1);
  bool const has_order = text[0] == '<' || (text[0] == '|' && type.size == 1);
  if (!is_known || !has_order || !element_exists(type)) refuse();
  return type;
}

/// Reads up to `count` elements, as many as the buffer holds.
std::span<char const> NpyStream::read_bytes(std::uint64_t count, std::size_t element_size) {
  if (buffer_.empty()) buffer_.resize(buffer_size);
  auto const length = static_cast<std::size_t>(std::min<std::uint64_t>(count, buffer_.size() / element_size));
  auto const bytes = std::span(buffer_).first(length * element_size);
  auto const held = source_->read(bytes);
  num_read_ += held / element_size;
  if (held == bytes.size()) return bytes;
  fail_at(place_, fmt::format("an end after {} numbers", num_read_),
          fmt::format("{} of the shape ({})", header_.num_elements(), fmt::join(header_.shape, ", ")));
}

std::vector<double> NpyStream::read_reals(std::uint64_t count) {
  std::vector<double> reals;
  auto const element = type();
  while (reals.size() < count) append_reals(element, read_bytes(count - reals.size(), element.size), reals);
  return reals;
}

std::vector<std::uint64_t> NpyStream::read_indices(std::uint64_t count) {
  std::vector<std::uint64_t> indices;
  auto const element = type();
  if (!element.is_integer())
    fail_at(place_, fmt::format("elements of NumPy's type {}", quote(header_.type)), "integers");
  while (indices.size() < count) {
    auto const first = num_read_;
    append_indices(element, read_bytes(count - indices.size(), element.size), first, place_, indices);
  }
  return indices;
}

void NpyStream::skip(std::uint64_t count) {
  auto const element = type();
  while (count > 0) count -= read_bytes(count, element.size).size() / element.size;
}

std::string NpyStream::read_text() {
  constexpr std::size_t longest = 16;
  auto const& type = header_.type;
  std::size_t length = 0;
  bool const is_text = type.size() > 2 && (type[1] == 'S' || type[1] == 'U') &&
                       std::from_chars(type.data() + 2, type.data() + type.size(), length).ec == std::errc();
  if (!is_text || length > longest || header_.num_elements() != 1)
    fail_at(place_, fmt::format("elements of NumPy's type {}", quote(type)), "one short text");
  std::size_t const letter_size = type[1] == 'U' ? 4 : 1; // UTF-32
  auto const bytes = read_some(*source_, length * letter_size, place_);
  std::string text;
  for (std::size_t letter = 0; letter < length; ++letter) text += bytes[letter * letter_size];
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

void NpyStream::require_end() {
  char letter = 0;
  if (source_->read({&letter, 1}) == 0) return;
  fail_at(place_, "bytes behind the last number",
          fmt::format("{} numbers of the shape ({})", header_.num_elements(), fmt::join(header_.shape, ", ")));
}

bool is_npy(fs::path const& path) {
  std::array<char, magic_of_numpy.size()> head{};
  return open_bytes(path)->read(head) == head.size() && std::string_view(head.data(), head.size()) == magic_of_numpy;
}

} // namespace varve
