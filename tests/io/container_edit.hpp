#pragma once

#include "io/container.hpp"
#include "io/files.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Containers that are taken apart, changed and put together again.
namespace varve::test {

using Json = nlohmann::ordered_json;

/// A file of a header and arrays, with the length of the header.
inline std::string joined(std::string const& header, std::string_view arrays) {
  std::uint64_t const length = header.size();
  std::string bytes(reinterpret_cast<char const*>(&length), sizeof(length));
  return bytes.append(header).append(arrays);
}

/// The two parts of a file.
struct ContainerParts {
  Json header;
  std::string arrays;

  static ContainerParts of(std::string const& bytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    return {Json::parse(bytes.substr(sizeof(length), length)), bytes.substr(sizeof(length) + length)};
  }

  std::string bytes() const { return joined(header.dump(), arrays); }

  /// The bytes of an array, as far as the header says where they are.
  std::string_view bytes_of(Json const& array) const {
    auto const places = array.is_object() ? array.value("data_offsets", Json()) : Json();
    if (!places.is_array() || places.size() != 2 || !places[0].is_number_unsigned() || !places[1].is_number_unsigned())
      return {};
    auto const begin = places[0].get<std::uint64_t>();
    auto const end = places[1].get<std::uint64_t>();
    return begin <= end && end <= arrays.size() ? std::string_view(arrays).substr(begin, end - begin) : "";
  }

  /// Writes the hashes of the other arrays behind them, and the hash of all into the header.
  void hash() {
    std::map<std::string, std::string_view> others;
    std::size_t size = 0;
    for (auto const& [name, array] : header.items()) {
      if (name == "__metadata__" || name == "sha256") continue;
      auto const bytes = others[name] = bytes_of(array);
      if (!bytes.empty()) size = std::max(size, static_cast<std::size_t>(bytes.data() + bytes.size() - arrays.data()));
    }
    std::vector<Digest> hashes;
    for (auto const& [name, bytes] : others) {
      auto const found = container::hashes_of(bytes);
      hashes.insert(hashes.end(), found.begin(), found.end());
    }
    arrays.resize(size);
    arrays += container::bytes_of(hashes);
    header["sha256"] = {{"dtype", "U8"}, {"shape", {hashes.size(), 32}}, {"data_offsets", {size, arrays.size()}}};
    auto& metadata = header["__metadata__"];
    if (!metadata.is_object() || !metadata.contains("varve") || !metadata["varve"].is_string()) return;
    Sha256 root;
    root.add(metadata["varve"].get<std::string>());
    root.add(container::bytes_of(hashes));
    metadata["varve.sha256"] = to_hex(root.finish());
  }
};

/// What a container says, to be changed and written again with the right hashes.
struct ContainerEdit {
  struct Array {
    std::string type;
    std::vector<std::uint64_t> shape;
    std::string bytes;
  };

  Json description;
  std::map<std::string, Array> arrays; ///< without those of hashes and padding

  ContainerEdit() = default;
  explicit ContainerEdit(std::filesystem::path const& path) {
    auto const parts = ContainerParts::of(read_bytes(path));
    description = Json::parse(parts.header["__metadata__"]["varve"].get<std::string>());
    for (auto const& [name, array] : parts.header.items()) {
      if (name == "__metadata__" || name == "sha256" || name.starts_with("padding.")) continue;
      arrays[name] = {array["dtype"], array["shape"], std::string(parts.bytes_of(array))};
    }
  }

  /// Makes an array a list of these numbers.
  template <class Number>
  void set(std::string const& name, std::vector<Number> const& numbers) {
    arrays[name] = {name_of(container::type_of<Number>()), {numbers.size()}, std::string(container::bytes_of(numbers))};
  }

  ContainerParts parts() const {
    ContainerParts parts;
    parts.header["__metadata__"]["varve"] = description.dump();
    for (auto const& [name, array] : arrays) {
      auto const begin = parts.arrays.size();
      parts.arrays += array.bytes;
      parts.header[name] = {
          {"dtype", array.type}, {"shape", array.shape}, {"data_offsets", {begin, parts.arrays.size()}}};
    }
    parts.hash();
    return parts;
  }

  std::filesystem::path write(std::filesystem::path const& path) const { return write_bytes(path, parts().bytes()); }
};

/// Changes a container.
template <class Change>
void edit(std::filesystem::path const& path, Change const& change) {
  ContainerEdit file(path);
  change(file);
  file.write(path);
}

} // namespace varve::test
