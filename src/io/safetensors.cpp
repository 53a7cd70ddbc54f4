#include "io/safetensors.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "io/dense_matrix.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/line_error.hpp"
#include "io/matrix_parts.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <span>
#include <utility>

namespace varve {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t length_size = 8; // bytes of the header's length
constexpr std::size_t bytes_per_block = std::size_t{1} << 17;

struct TypeName {
  char const* name;
  ElementType type;
};

constexpr std::array type_names = {
    TypeName{"F64", {ElementType::Kind::floating, 8}},
    TypeName{"F32", {ElementType::Kind::floating, 4}},
    TypeName{"F16", {ElementType::Kind::floating, 2}},
    TypeName{"BF16", {ElementType::Kind::brain_floating, 2}},
    TypeName{"I64", {ElementType::Kind::signed_integer, 8}},
    TypeName{"I32", {ElementType::Kind::signed_integer, 4}},
    TypeName{"I16", {ElementType::Kind::signed_integer, 2}},
    TypeName{"I8", {ElementType::Kind::signed_integer, 1}},
    TypeName{"U8", {ElementType::Kind::unsigned_integer, 1}},
    TypeName{"BOOL", {ElementType::Kind::unsigned_integer, 1}},
};

ElementType type_of(std::string const& name, std::string const& place) {
  auto const found = std::ranges::find(type_names, name, [](TypeName const& entry) { return std::string(entry.name); });
  if (found != type_names.end()) return found->type;
  std::string names;
  for (auto const& entry : type_names) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  fail_at(place, fmt::format("elements of the type {}", quote(name)), "one of " + names);
}

/// The length of the header, from the first bytes of a file.
std::uint64_t header_length(std::span<char const> bytes) {
  std::uint64_t length = 0;
  for (std::size_t byte = length_size; byte-- > 0;) length = length << 8U | static_cast<unsigned char>(bytes[byte]);
  return length;
}

/// A list of whole numbers.
std::vector<std::uint64_t> numbers_of(Json const& object, char const* key, std::string const& place) {
  auto const fail_list = [&] { fail_at(place, fmt::format("no \"{}\" that is a list of whole numbers", key), "one"); };
  std::vector<std::uint64_t> numbers;
  if (!object.contains(key) || !object[key].is_array()) fail_list();
  for (auto const& number : object[key]) {
    if (!number.is_number_unsigned()) fail_list();
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

/// Calls visit(number) for all numbers in a part of a file.
template <class Visit>
void for_each_number(fs::path const& path, std::uint64_t begin, std::uint64_t size, ElementType type,
                     std::string const& place, Visit const& visit) {
  std::ifstream file(readable_place(path), std::ios::binary);
  file.seekg(static_cast<std::streamoff>(begin));
  std::vector<char> bytes(static_cast<std::size_t>(std::min<std::uint64_t>(size, bytes_per_block)));
  std::vector<double> numbers;
  while (size > 0) {
    auto const part = std::span(bytes).first(static_cast<std::size_t>(std::min<std::uint64_t>(size, bytes.size())));
    if (!file.read(part.data(), static_cast<std::streamsize>(part.size())))
      throw InputError(place + " changed while it was read: it is shorter now");
    numbers.clear();
    append_reals(type, part, numbers);
    for (auto const number : numbers) visit(number);
    size -= part.size();
  }
}

} // namespace

bool is_safetensors(fs::path const& path) {
  auto const head = bytes_of_file(path, 0, length_size + 1);
  return head.size() == length_size + 1 && head[length_size] == '{' && header_length(head) < (std::uint64_t{1} << 32U);
}

SafetensorsFile::SafetensorsFile(fs::path path) : path_(std::move(path)) {
  auto const place = path_.string();
  std::error_code error;
  auto const readable = readable_place(path_);
  std::uint64_t const file_size = fs::file_size(readable, error);
  std::ifstream file(readable, std::ios::binary);
  std::array<char, length_size> head{};
  if (error || !file.read(head.data(), head.size())) fail_at(place, "no safetensors file", "one");
  auto const length = header_length(head);
  auto const most = std::min<std::uint64_t>(longest_long_json, file_size - length_size);
  if (length > most) fail_at(place, fmt::format("a header of {} bytes", length), fmt::format("no more than {}", most));
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  auto const header = parse_json(text, place, longest_long_json);
  if (!header.is_object()) fail_at(place, "a header that is no JSON object", "one");
  auto const data_begin = length_size + length;
  for (auto const& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    auto const tensor_place = fmt::format("{}: tensor {}", place, quote(name));
    if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string())
      fail_at(tensor_place, "no \"dtype\"", "the type of its elements");
    auto const offsets = numbers_of(entry, "data_offsets", tensor_place);
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > file_size - data_begin)
      fail_at(tensor_place, "data_offsets outside the file",
              fmt::format("two numbers from 0 to {}", file_size - data_begin));
    tensors_[name] = {entry["dtype"].get<std::string>(), numbers_of(entry, "shape", tensor_place),
                      data_begin + offsets[0], offsets[1] - offsets[0]};
  }
}

SafetensorsFile::Tensor const& SafetensorsFile::find(std::string const& name, std::size_t num_dimensions) const {
  auto const found = tensors_.find(name);
  if (found == tensors_.end())
    fail_at(path_.string(), fmt::format("no tensor {}", quote(name)), fmt::format("one among its {}", tensors_.size()));
  auto const& tensor = found->second;
  auto const place = fmt::format("{}: tensor {}", path_.string(), quote(name));
  if (tensor.shape.size() != num_dimensions)
    fail_at(place, fmt::format("{} dimensions", tensor.shape.size()), fmt::format("{}", num_dimensions));
  std::uint64_t bytes = type_of(tensor.type, place).size;
  for (auto const length : tensor.shape) bytes = capped_multiply(bytes, length);
  if (std::ranges::find(tensor.shape, 0U) != tensor.shape.end()) bytes = 0;
  if (bytes != tensor.size)
    fail_at(place, fmt::format("{} bytes", tensor.size),
            fmt::format("{} for its shape ({})", bytes, fmt::join(tensor.shape, ", ")));
  return tensor;
}

SparseMatrix SafetensorsFile::matrix(std::string const& name, bool transposes) const {
  auto const& tensor = find(name, 2);
  auto const place = fmt::format("{}: tensor {}", path_.string(), quote(name));
  auto const type = type_of(tensor.type, place);
  DenseShape shape{tensor.shape[0], tensor.shape[1]};
  if (transposes) shape = {tensor.shape[1], tensor.shape[0], DenseOrder::by_columns};
  require_countable(shape.num_rows, shape.num_columns, tensor.size / type.size, place);
  return matrix_of_dense(
      shape, place, [&](auto const& visit) { for_each_number(path_, tensor.begin, tensor.size, type, place, visit); });
}

std::vector<double> SafetensorsFile::list(std::string const& name) const {
  auto const& tensor = find(name, 1);
  auto const place = fmt::format("{}: tensor {}", path_.string(), quote(name));
  std::vector<double> numbers;
  for_each_number(path_, tensor.begin, tensor.size, type_of(tensor.type, place), place,
                  [&](double number) { numbers.push_back(number); });
  return numbers;
}

} // namespace varve
