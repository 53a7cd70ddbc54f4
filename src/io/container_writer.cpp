#include "io/container.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/json_text.hpp"
#include "io/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace varve::container {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t bytes_per_array = 128; ///< of a header, with the array that pads another one
constexpr std::size_t bytes_at_once = 16 * piece_size;

std::size_t parts_of(std::size_t size) { return (size + bytes_at_once - 1) / bytes_at_once; }

fs::path const& readable_back(fs::path const& path) {
  require_file_to_read_back(path);
  return path;
}

} // namespace

std::vector<Digest> hashes_of(std::string_view bytes) {
  std::vector<Digest> hashes(pieces_of(bytes.size()));
  for_each_on_host_threads(parts_of(bytes.size()), [&](std::size_t part) {
    auto const last = std::min(hashes.size(), (part + 1) * bytes_at_once / piece_size);
    for (auto piece = part * bytes_at_once / piece_size; piece < last; ++piece)
      hashes[piece] = sha256(bytes.substr(piece * piece_size, piece_size));
  });
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
      throw ResourceError(fmt::format("{} cannot be written: its disk or file system lost some bytes", path_.string()));
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
  for_each_on_host_threads(parts_of(bytes.size()), [&](std::size_t part) {
    write(first + part * bytes_at_once, bytes.substr(part * bytes_at_once, bytes_at_once));
  });
}

/// Puts the next array at a multiple of the size of its numbers.
void Writer::align(std::size_t size) {
  auto const missing = (size - end_ % size) % size;
  if (missing == 0) return;
  std::vector<std::uint8_t> const zeros(missing);
  add(fmt::format("padding.{}", header_.arrays.size()), zeros);
}

Array& Writer::place(std::string const& name, NumberType type, std::vector<std::uint64_t> shape) {
  align(size_of(type));
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
    for_each_on_host_threads(hashes.size(), [&](std::size_t piece) {
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
    throw ResourceError(fmt::format("{} cannot be written: its header would have {} bytes, and {} are readable",
                                    path().string(), length, longest_header));
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
