#include "io/container.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "core/types.hpp"
#include "io/json_text.hpp"
#include "io/text_file.hpp"
#include "io/whole_bytes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

namespace varve::container {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t version = 1;
constexpr std::size_t pieces_at_once = 16; ///< of one thread

/// Calls visit(piece) for the pieces [0, count) on host threads, which take several at a time: fewer are hashed sooner
/// than threads start, and their stacks take more memory than a small file.
template <class Visit>
void for_each_piece(std::size_t count, Visit const& visit) {
  for_each_on_host_threads((count + pieces_at_once - 1) / pieces_at_once, [&](std::size_t part) {
    auto const last = std::min(count, (part + 1) * pieces_at_once);
    for (auto piece = part * pieces_at_once; piece < last; ++piece) visit(piece);
  });
}

/// Calls visit(Stored{}) with a number of the stored type.
template <class Visit>
void with_type(NumberType type, Visit const& visit) {
  auto const try_all = [&]<class... Stored>(std::tuple<Stored...> const&) {
    ((type == type_of<Stored>() ? visit(Stored{}) : void()), ...);
  };
  try_all(std::tuple<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, float, double>());
}

template <class Number, class Stored>
constexpr bool can_hold = std::is_floating_point_v<Number> == std::is_floating_point_v<Stored> &&
                          sizeof(Number) >= sizeof(Stored);

/// The numbers stored in some bytes, each of which Number can hold.
template <class Number>
void widen(NumberType type, std::span<char const> bytes, Number* numbers) {
  with_type(type, [&]<class Stored>(Stored stored) {
    if constexpr (can_hold<Number, Stored>) {
      for (std::size_t at = 0; at < bytes.size(); at += sizeof(Stored)) {
        std::memcpy(&stored, bytes.data() + at, sizeof(Stored));
        *numbers++ = static_cast<Number>(stored);
      }
    } else {
      VARVE_REQUIRE(false, "numbers of a file are read as a narrower type");
    }
  });
}

constexpr std::size_t max_dimensions = 8;
constexpr std::size_t max_texts = 2; ///< of the metadata: one more is kept, for it makes the file another program's

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
    if (!is_metadata_ || keys_.size() <= max_texts) keys_.push_back(name);
    return true;
  }

  bool string(std::string& value) override {
    if (depth_ != 2 || is_in_list_) unexpected();
    if (is_metadata_) {
      if (header_.metadata.size() <= max_texts) header_.metadata.emplace(key_, std::move(value));
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
    if (list.size() == max_dimensions) fail("more numbers", fmt::format("at most {}", max_dimensions));
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
    varve::fail<InputError>("{}: found no JSON at byte {} of its header, expected that of a safetensors file", place_,
                            at);
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
    array_.name = name_;
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

constexpr std::size_t bytes_per_array = 128; ///< of a header, with the array that pads another one
constexpr std::size_t bytes_at_once = pieces_at_once * piece_size;

fs::path const& readable_back(fs::path const& path) {
  require_file_to_read_back(path);
  return path;
}

} // namespace

std::size_t size_of(NumberType type) {
  std::size_t size = 0;
  with_type(type, [&](auto number) { size = sizeof(number); });
  return size;
}

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

bool is_container(fs::path const& path) {
  auto const head = bytes_of_file(path, 0, 9);
  if (head.size() < 9 || head[8] != '{') return false;
  std::uint64_t length = 0;
  std::memcpy(&length, head.data(), sizeof(length));
  return length >= 2 && length <= longest_header;
}

File::File(fs::path const& path) : path_(path), file_(open_input(path)) {
  auto const place = path_.string();
  struct stat status {};
  if (fstat(file_.number(), &status) != 0) fail_to_read(path_, errno);
  auto const size = static_cast<std::uint64_t>(status.st_size);
  std::uint64_t length = 0;
  if (size >= sizeof(length)) read_at(0, {reinterpret_cast<char*>(&length), sizeof(length)});
  if (length < 2 || length > longest_header || length > size - sizeof(length))
    fail_at(place, fmt::format("no header of {} bytes in a file of {}", length, size), "a safetensors file of Varve");
  std::string text(length, ' ');
  read_at(sizeof(length), text);

  auto header = parse_header(text, place);
  text = {};
  arrays_ = std::move(header.arrays);
  auto const described = header.metadata.find("varve");
  auto const root = header.metadata.find("varve.sha256");
  if (described == header.metadata.end() || root == header.metadata.end() || header.metadata.size() != 2)
    fail_at(place, "other metadata",
            R"("varve" and "varve.sha256" alone, as in the files of Varve; varve-convert, of )"
            "the Python package, takes files of other programs");
  place_arrays(sizeof(length) + length, size);
  read_hashes(described->second, root->second);
  description_ = parse_json(described->second, place, longest_header);
  if (!description_.is_object()) fail_at(place, "no JSON object in \"varve\"", "a description");
}

/// Makes the places of arrays those in the file, checks that they fill it, and numbers their pieces.
void File::place_arrays(std::uint64_t begin, std::uint64_t size) {
  std::vector<Array*> by_place;
  std::uint64_t num_pieces = 0;
  for (auto& [name, array] : arrays_) {
    by_place.push_back(&array);
    if (name == "sha256") continue;
    array.first_piece = num_pieces;
    num_pieces += pieces_of(array.end - array.begin);
  }
  std::ranges::sort(by_place, {}, [](Array const* one) { return std::pair(one->begin, one->end); });
  std::uint64_t next = 0;
  for (auto* const array : by_place) {
    if (array->begin != next)
      fail_at(path_.string(), fmt::format("the array {} at byte {}", quote(array->name), array->begin),
              fmt::format("{}, where the one before ends", next));
    next = array->end;
    array->begin += begin;
    array->end += begin;
  }
  if (next != size - begin)
    fail_at(path_.string(), fmt::format("{} bytes of arrays", size - begin), fmt::format("{} by the header", next));
  auto const& hashes = array("sha256", {NumberType::u8});
  if (hashes.shape != std::vector<std::uint64_t>{num_pieces, sizeof(Digest)})
    fail_at(path_.string(), fmt::format("the shape {} of \"sha256\"", fmt::join(hashes.shape, " x ")),
            fmt::format("{} x 32", num_pieces));
  hashes_.resize(num_pieces);
  is_checked_ = std::make_unique<std::atomic<bool>[]>(num_pieces);
}

void File::read_hashes(std::string const& text, std::string const& expected) {
  std::span<char> const bytes(reinterpret_cast<char*>(hashes_.data()), hashes_.size() * sizeof(Digest));
  read_at(at("sha256").begin, bytes);
  Sha256 root;
  root.add(text);
  root.add({bytes.data(), bytes.size()});
  identity_ = to_hex(root.finish());
  if (identity_ != expected)
    fail_at(path_.string(), fmt::format("the SHA-256 {} of its description", identity_),
            fmt::format("{}; the file is damaged", quote(expected)));
}

void File::read_at(std::uint64_t first, std::span<char> bytes) const {
  auto const count = varve::read_at(file_.number(), first, bytes.data(), bytes.size());
  if (count < 0) fail_to_read(path_, errno);
  if (static_cast<std::uint64_t>(count) != bytes.size())
    fail_at(path_.string(), fmt::format("an end at byte {}", first + static_cast<std::uint64_t>(count)), "more bytes");
}

void File::require_kind(std::string_view kind, std::initializer_list<std::string_view> keys) const {
  auto const place = path_.string();
  auto const found = member_text(description_, "kind");
  if (found != json_text(kind)) fail_at(place, fmt::format("the kind {}", found), json_text(kind));
  if (!description_.contains("version") || description_["version"] != version)
    fail_at(place, fmt::format("the version {}", member_text(description_, "version")), fmt::format("{}", version));
  std::vector<std::string_view> all = {"kind", "version"};
  all.insert(all.end(), keys.begin(), keys.end());
  require_keys(description_, all, place);
}

Array const& File::array(std::string const& name, std::initializer_list<NumberType> types) {
  auto const found = arrays_.find(name);
  if (found == arrays_.end()) fail<InputError>("{} has no array {}", path_.string(), quote(name));
  auto& array = found->second;
  array.is_known = true;
  if (std::ranges::find(types, array.type) != types.end()) return array;
  std::string expected;
  for (auto const type : types) expected += fmt::format("{}{}", expected.empty() ? "" : " or ", name_of(type));
  fail_at(fmt::format("{}: {}", path_.string(), name), fmt::format("numbers of the type {}", name_of(array.type)),
          expected);
}

Array const& File::list(std::string const& name, std::initializer_list<NumberType> types, std::uint64_t count,
                        bool may_be_one) {
  auto const& found = array(name, types);
  if (found.shape.size() == 1 && (found.count() == count || (may_be_one && found.count() == 1))) return found;
  fail_at(fmt::format("{}: {}", path_.string(), name), fmt::format("the shape {}", fmt::join(found.shape, " x ")),
          fmt::format("{}{}", may_be_one ? "1 or " : "", count));
}

void File::require_no_others() const {
  auto const other = std::ranges::find_if(
      arrays_, [](auto const& named) { return !named.second.is_known && !named.first.starts_with("padding."); });
  if (other != arrays_.end())
    fail_at(path_.string(), fmt::format("the array {}", quote(other->first)), "those that its description names");
}

void File::check_piece(Array const& array, std::uint64_t piece, std::string_view bytes) const {
  auto const number = array.first_piece + piece;
  if (sha256(bytes) != hashes_[number]) {
    fail_at(fmt::format("{}: {}", path_.string(), array.name),
            fmt::format("bytes from {} on whose SHA-256 is not what the file says", piece * piece_size),
            "the right one; the file is damaged");
  }
  is_checked_[number].store(true, std::memory_order_relaxed);
}

/// Reads bytes of a piece, from its `first` on.
void File::read_piece(Array const& array, std::uint64_t piece, std::uint64_t first, std::span<char> bytes) const {
  auto const begin = array.begin + piece * piece_size;
  auto const size = std::min<std::uint64_t>(piece_size, array.end - begin);
  bool const is_checked = is_checked_[array.first_piece + piece].load(std::memory_order_relaxed);
  if (is_checked || bytes.size() == size) {
    read_at(begin + first, bytes);
    if (!is_checked) check_piece(array, piece, {bytes.data(), bytes.size()});
    return;
  }
  std::vector<char> whole(size);
  read_at(begin, whole);
  check_piece(array, piece, {whole.data(), whole.size()});
  std::memcpy(bytes.data(), whole.data() + first, bytes.size());
}

void File::read_bytes(Array const& array, std::uint64_t first, std::span<char> bytes) const {
  while (!bytes.empty()) {
    auto const at = first % piece_size;
    auto const count = std::min<std::size_t>(bytes.size(), piece_size - at);
    read_piece(array, first / piece_size, at, bytes.first(count));
    bytes = bytes.subspan(count);
    first += count;
  }
}

template <class Number>
void File::read(Array const& array, std::uint64_t first, std::span<Number> numbers,
                std::type_identity_t<std::function<void(std::span<Number>)>> const& visit) const {
  VARVE_REQUIRE(first + numbers.size() <= array.count(), "numbers outside an array are read");
  auto const size = size_of(array.type);
  auto const at_once = pieces_at_once * piece_size / size;
  auto const shift = first % at_once; // so that parts begin where pieces do
  for_each_on_host_threads((shift + numbers.size() + at_once - 1) / at_once, [&](std::size_t number) {
    auto const begin = number == 0 ? 0 : number * at_once - shift;
    auto const part = numbers.subspan(begin, std::min(numbers.size(), (number + 1) * at_once - shift) - begin);
    auto const from = (first + begin) * size;
    if (array.type == type_of<Number>()) {
      read_bytes(array, from, {reinterpret_cast<char*>(part.data()), part.size_bytes()});
    } else {
      std::vector<char> bytes(piece_size);
      for (std::size_t done = 0; done < part.size();) {
        auto const left = std::min(piece_size - (from + done * size) % piece_size, (part.size() - done) * size);
        read_bytes(array, from + done * size, std::span(bytes).first(left));
        widen(array.type, std::span<char const>(bytes).first(left), part.data() + done);
        done += left / size;
      }
    }
    visit(part);
  });
}

#define VARVE_READ(Number)                                                                                             \
  template void File::read(Array const&, std::uint64_t, std::span<Number>,                                             \
                           std::function<void(std::span<Number>)> const&) const;
VARVE_READ(char)
VARVE_READ(std::uint16_t)
VARVE_READ(std::uint32_t)
VARVE_READ(std::uint64_t)
VARVE_READ(float)
VARVE_READ(double)
#undef VARVE_READ

void File::check_all() const {
  std::vector<std::pair<Array const*, std::uint64_t>> pieces;
  for (auto const& [name, array] : arrays_) {
    if (name == "sha256") continue;
    for (std::uint64_t piece = 0; piece < pieces_of(array.end - array.begin); ++piece)
      pieces.emplace_back(&array, piece);
  }
  for_each_piece(pieces.size(), [&](std::size_t number) {
    auto const& [array, piece] = pieces[number];
    std::vector<char> bytes(std::min<std::uint64_t>(piece_size, array->end - array->begin - piece * piece_size));
    read_piece(*array, piece, 0, bytes);
  });
}

std::uint64_t count_in(Json const& object, std::string_view key, std::string const& place) {
  auto const found = object.find(std::string(key));
  if (found != object.end() && found->is_number_unsigned()) return found->get<std::uint64_t>();
  fail_at(place, fmt::format("the {} {}", key, member_text(object, std::string(key))), "a whole number from 0");
}

std::array<std::uint64_t, 2> shape_in(Json const& object, std::string const& place) {
  constexpr std::uint64_t most = std::numeric_limits<NeuronIndex>::max();
  auto const found = object.find("shape");
  bool const is_shape = found != object.end() && found->is_array() && found->size() == 2 &&
                        std::ranges::all_of(*found, [](Json const& size) { return size.is_number_unsigned(); });
  if (!is_shape) fail_at(place, fmt::format("the shape {}", member_text(object, "shape")), "[rows, columns]");
  std::array<std::uint64_t, 2> const shape = {(*found)[0].get<std::uint64_t>(), (*found)[1].get<std::uint64_t>()};
  if (shape[0] > most || shape[1] > most)
    fail_at(place, fmt::format("the shape {} x {}", shape[0], shape[1]), fmt::format("no more than {}", most));
  return shape;
}

void require_keys(Json const& object, std::vector<std::string_view> const& keys, std::string const& place) {
  for (auto const& [key, value] : object.items())
    if (std::ranges::find(keys, std::string_view(key)) == keys.end())
      fail_at(place, fmt::format("the key {}", quote(key)), fmt::format("one of {}", fmt::join(keys, ", ")));
}

std::vector<Digest> hashes_of(std::string_view bytes) {
  std::vector<Digest> hashes(pieces_of(bytes.size()));
  for_each_piece(hashes.size(),
                 [&](std::size_t piece) { hashes[piece] = sha256(bytes.substr(piece * piece_size, piece_size)); });
  return hashes;
}

GrowingBytes::GrowingBytes(fs::path folder, fs::path path) : folder_(std::move(folder)), path_(std::move(path)) {}

void GrowingBytes::append(std::string_view bytes) {
  tail_ += bytes;
  if (tail_.size() < buffer_size) return;
  if (file_.number() < 0) file_ = open_temporary_file(folder_);
  auto const whole = std::string_view(tail_).substr(0, tail_.size() / piece_size * piece_size);
  auto const hashes = hashes_of(whole);
  if (!write_at(file_.number(), num_stored_, whole)) fail_to_write(path_, errno);
  hashes_.insert(hashes_.end(), hashes.begin(), hashes.end());
  num_stored_ += whole.size();
  tail_.erase(0, whole.size());
}

std::vector<Digest> GrowingBytes::hashes() const {
  auto all = hashes_;
  auto const last = hashes_of(tail_);
  all.insert(all.end(), last.begin(), last.end());
  return all;
}

void GrowingBytes::for_each_part(std::function<void(std::string_view)> const& visit) {
  std::string part;
  for (std::uint64_t first = 0; first < num_stored_; first += part.size()) {
    part.resize(std::min<std::uint64_t>(bytes_at_once, num_stored_ - first));
    auto const count = read_at(file_.number(), first, part.data(), part.size());
    if (count < 0) fail_to_write(path_, errno);
    auto const hashes = hashes_of(part);
    if (static_cast<std::size_t>(count) != part.size() ||
        !std::equal(hashes.begin(), hashes.end(), hashes_.begin() + static_cast<std::ptrdiff_t>(first / piece_size)))
      fail_to_write(path_, "its disk or file system lost some bytes");
    visit(part);
  }
  if (!tail_.empty()) visit(tail_);
}

Writer::Writer(fs::path const& path, std::size_t max_arrays, std::size_t description_bytes)
    : output_(readable_back(path)) {
  begin_ = (512 + (max_arrays + 1) * 2 * bytes_per_array + description_bytes) / 8 * 8;
  end_ = begin_;
  file_ = Descriptor(open(output_.partial_path().c_str(), O_RDWR | O_CLOEXEC));
  if (file_.number() < 0) fail_to_write(this->path(), errno);
}

void Writer::write(std::uint64_t first, std::string_view bytes) {
  if (!write_at(file_.number(), first, bytes)) fail_to_write(path(), errno);
}

/// The same by all host threads.
void Writer::write_in_parts(std::uint64_t first, std::string_view bytes) {
  for_each_on_host_threads((bytes.size() + bytes_at_once - 1) / bytes_at_once, [&](std::size_t part) {
    write(first + part * bytes_at_once, bytes.substr(part * bytes_at_once, bytes_at_once));
  });
}

Array& Writer::place(std::string const& name, NumberType type, std::vector<std::uint64_t> shape) {
  auto const missing = (size_of(type) - end_ % size_of(type)) % size_of(type); // to a multiple of the numbers' size
  if (missing > 0) add(fmt::format("padding.{}", header_.arrays.size()), std::vector<std::uint8_t>(missing));
  std::uint64_t num_bytes = size_of(type);
  for (auto const size : shape) num_bytes *= size;
  auto const [found, is_new] =
      header_.arrays.emplace(name, Array{name, type, std::move(shape), end_, end_ + num_bytes});
  VARVE_REQUIRE(is_new, "an array is written twice");
  end_ += num_bytes;
  return found->second;
}

void Writer::add(std::string const& name, NumberType type, std::vector<std::uint64_t> shape, std::string_view bytes,
                 std::vector<Digest> hashes) {
  auto const& array = place(name, type, std::move(shape));
  VARVE_REQUIRE(array.end - array.begin == bytes.size(), "an array has another size than its bytes");
  write_in_parts(array.begin, bytes);
  hashes_[name] = std::move(hashes);
}

void Writer::add(std::string const& name, NumberType type, GrowingBytes& bytes) {
  auto const& array = place(name, type, {bytes.size() / size_of(type)});
  auto next = array.begin;
  hashes_[name] = bytes.hashes();
  bytes.for_each_part([&](std::string_view part) {
    write_in_parts(next, part);
    next += part.size();
  });
}

Place Writer::reserve(std::string const& name, NumberType type, std::vector<std::uint64_t> shape) {
  auto const& array = place(name, type, std::move(shape));
  if (ftruncate(file_.number(), static_cast<off_t>(array.end)) != 0) fail_to_write(path(), errno);
  reserved_.push_back(name);
  return {output_.partial_path(), path(), array.begin};
}

/// Reads what others have written.
void Writer::hash_reserved() {
  for (auto const& name : reserved_) {
    auto const& array = header_.arrays.at(name);
    auto& hashes = hashes_[name];
    hashes.resize(pieces_of(array.end - array.begin));
    for_each_piece(hashes.size(), [&](std::size_t piece) {
      auto const first = array.begin + piece * piece_size;
      std::string bytes(std::min<std::uint64_t>(piece_size, array.end - first), '\0');
      auto const count = read_at(file_.number(), first, bytes.data(), bytes.size());
      if (count < 0) fail_to_write(path(), errno);
      if (static_cast<std::size_t>(count) != bytes.size()) fail_to_write(path(), EIO);
      hashes[piece] = sha256(bytes);
    });
  }
}

void Writer::commit(nlohmann::ordered_json const& description, std::function<bool(fs::path const&)> const& holds) {
  hash_reserved();
  std::vector<Digest> all;
  for (auto const& [name, hashes] : hashes_) all.insert(all.end(), hashes.begin(), hashes.end());
  auto const text = json_text(description);
  Sha256 root;
  root.add(text);
  root.add(bytes_of(all));
  auto const identity = to_hex(root.finish());
  add("sha256", NumberType::u8, {all.size(), sizeof(Digest)}, bytes_of(all), {});

  header_.metadata = {{"varve", text}, {"varve.sha256", identity}};
  for (auto& [name, array] : header_.arrays) {
    array.begin -= begin_;
    array.end -= begin_;
  }
  auto header = header_text(header_);
  std::uint64_t const length = begin_ - sizeof(length);
  VARVE_REQUIRE(header.size() <= length, "a header has no room");
  if (length > longest_header)
    fail_to_write(path(), fmt::format("its header would have {} bytes, and {} are readable", length, longest_header));
  header.resize(length, ' ');
  write(0, {reinterpret_cast<char const*>(&length), sizeof(length)});
  write(sizeof(length), header);
  output_.commit([&](fs::path const& written) {
    File const file(written);
    if (!holds) file.check_all();
    return file.identity() == identity && (!holds || holds(written));
  });
}

bool fit_float(std::span<double const> numbers) {
  return std::ranges::all_of(numbers, [](double number) { return double(float(number)) == number; });
}

void add_reals(Writer& writer, std::string const& name, std::vector<double> const& numbers) {
  if (!fit_float(numbers)) return writer.add(name, numbers);
  writer.add(name, std::vector<float>(numbers.begin(), numbers.end()));
}

} // namespace varve::container
