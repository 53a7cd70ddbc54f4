#include "io/container.hpp"

#include "core/error.hpp"
#include "io/json_text.hpp"
#include "io/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace varve::container {
namespace {

constexpr std::size_t most_dimensions = 8;
constexpr std::size_t most_texts = 2; ///< of the metadata: one more is kept, for it makes the file another program's

constexpr std::array<std::pair<NumberType, char const*>, 6> type_names = {{{NumberType::u8, "U8"},
                                                                           {NumberType::u16, "U16"},
                                                                           {NumberType::u32, "U32"},
                                                                           {NumberType::u64, "U64"},
                                                                           {NumberType::f32, "F32"},
                                                                           {NumberType::f64, "F64"}}};

/// Takes a header as its JSON is parsed: {NAME: {"dtype": TYPE, "shape": [...], "data_offsets": [BEGIN, END]}, ...},
/// and {"__metadata__": {KEY: TEXT, ...}}.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
public:
  HeaderReader(Header& header, std::string const& place) : header_(header), place_(place) {}

  bool start_object(std::size_t /*size*/) override {
    if (++depth_ > 2 || is_in_list_) fail("an object within an object", "the names of arrays alone");
    return true;
  }

  bool end_object() override {
    if (--depth_ == 1 && !is_metadata_) take_array();
    return true;
  }

  bool key(std::string& name) override {
    if (depth_ == 1) {
      name_ = name;
      is_metadata_ = name == "__metadata__";
      if (is_metadata_ ? std::exchange(has_metadata_, true) : header_.arrays.contains(name)) fail("it twice", "once");
      type_ = {};
      array_ = {};
      offsets_.clear();
      keys_.clear();
      return true;
    }
    key_ = name;
    bool const is_known = name == "dtype" || name == "shape" || name == "data_offsets";
    if (!is_metadata_ && !is_known) fail(fmt::format("the key {}", quote(name)), "dtype, shape and data_offsets");
    if (std::ranges::find(keys_, name) != keys_.end()) fail(fmt::format("the key {} twice", quote(name)), "once");
    if (!is_metadata_ || keys_.size() <= most_texts) keys_.push_back(name);
    return true;
  }

  bool string(std::string& value) override {
    if (depth_ != 2 || is_in_list_) unexpected();
    if (is_metadata_) {
      if (header_.metadata.size() <= most_texts) header_.metadata.emplace(key_, std::move(value));
    } else if (key_ == "dtype") {
      type_ = std::move(value);
    } else {
      unexpected();
    }
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (depth_ != 2 || is_metadata_ || key_ == "dtype" || std::exchange(is_in_list_, true)) unexpected();
    return true;
  }

  bool end_array() override {
    is_in_list_ = false;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (!is_in_list_) unexpected();
    auto& list = key_ == "shape" ? array_.shape : offsets_;
    if (list.size() == most_dimensions) fail("more numbers", fmt::format("at most {}", most_dimensions));
    list.push_back(value);
    return true;
  }

  bool null() override { unexpected(); }
  bool boolean(bool /*value*/) override { unexpected(); }
  bool number_integer(number_integer_t /*value*/) override { unexpected(); }
  bool number_float(number_float_t /*value*/, std::string const& /*text*/) override { unexpected(); }
  bool binary(binary_t& /*value*/) override { unexpected(); }
  bool parse_error(std::size_t at, std::string const& /*token*/,
                   nlohmann::detail::exception const& /*error*/) override {
    throw InputError(
        fmt::format("{}: found no JSON at byte {} of its header, expected that of a safetensors file", place_, at));
  }

private:
  [[noreturn]] void fail(std::string const& found, std::string const& expected) const {
    fail_at(fmt::format("{}: header: {}", place_, quote(name_)), found, expected);
  }
  [[noreturn]] void unexpected() const {
    fail(fmt::format("something else for {}", quote(key_)), "what safetensors has there");
  }

  void take_array() {
    auto const type = std::ranges::find(type_names, type_, [](auto const& entry) { return std::string(entry.second); });
    if (type == type_names.end()) fail(fmt::format("the type {}", quote(type_)), "U8, U16, U32, U64, F32 or F64");
    if (keys_.size() != 3 || offsets_.size() != 2) fail("something missing", "dtype, shape and two data_offsets");
    array_.type = type->first;
    array_.begin = offsets_[0];
    array_.end = offsets_[1];
    std::uint64_t num_bytes = size_of(array_.type);
    for (auto const size : array_.shape) num_bytes = capped_multiply(num_bytes, size);
    if (array_.begin > array_.end || array_.end - array_.begin != num_bytes)
      fail(fmt::format("the bytes {} to {}", array_.begin, array_.end), fmt::format("{} of them", num_bytes));
    header_.arrays.emplace(std::move(name_), std::move(array_));
  }

  Header& header_;
  std::string const& place_;
  int depth_ = 0;
  bool is_in_list_ = false;
  bool is_metadata_ = false; ///< this object is that of the metadata
  bool has_metadata_ = false;
  std::string name_;              ///< of this array
  std::string key_;               ///< within this object
  std::vector<std::string> keys_; ///< of this object, so far
  std::string type_;
  Array array_;
  std::vector<std::uint64_t> offsets_;
};

} // namespace

char const* name_of(NumberType type) {
  return std::ranges::find(type_names, type, &std::pair<NumberType, char const*>::first)->second;
}

Header parse_header(std::string_view text, std::string const& place) {
  Header header;
  HeaderReader reader(header, place);
  // What is nested more deeply than the reader allows ends the parsing at once, so the parser does not recurse.
  auto const end = text.find('\0'); // at which the parser would take the text to be over
  if (end != std::string_view::npos) fail_at(place, fmt::format("a zero at byte {} of its header", end), "JSON");
  nlohmann::json::sax_parse(text, &reader);
  return header;
}

std::string header_text(Header const& header) {
  nlohmann::json const metadata(header.metadata);
  auto text = fmt::format(R"({{"__metadata__":{})", metadata.dump());
  for (auto const& [name, array] : header.arrays) {
    fmt::format_to(std::back_inserter(text), R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name,
                   name_of(array.type), fmt::join(array.shape, ","), array.begin, array.end);
  }
  return text + "}";
}

} // namespace varve::container
