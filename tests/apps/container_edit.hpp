#pragma once

#include "io/container_writer.hpp"
#include "io/files.hpp"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace varve::test {

/// What a container says, to be changed and written again with the right hashes.
struct ContainerEdit {
  struct Array {
    container::NumberType type;
    std::vector<std::uint64_t> shape;
    std::string bytes;
  };

  nlohmann::ordered_json description;
  std::map<std::string, Array> arrays;

  explicit ContainerEdit(std::filesystem::path const& path) {
    auto const bytes = varve::testing::read_bytes(path);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    auto const header = container::parse_header(bytes.substr(sizeof(length), length), path.string());
    description = nlohmann::ordered_json::parse(header.metadata.at("varve"));
    for (auto const& [name, array] : header.arrays) {
      if (name == "sha256" || name.starts_with("padding.")) continue;
      arrays[name] = {array.type, array.shape,
                      bytes.substr(sizeof(length) + length + array.begin, array.end - array.begin)};
    }
  }

  /// Makes an array a list of these numbers.
  template <class Number>
  void set(std::string const& name, std::vector<Number> const& numbers) {
    arrays[name] = {container::type_of<Number>(), {numbers.size()}, std::string(container::bytes_of(numbers))};
  }

  void write(std::filesystem::path const& path) const {
    container::Writer writer(path, arrays.size(), description.dump().size());
    for (auto const& [name, array] : arrays)
      writer.add(name, array.type, array.shape, array.bytes, container::hashes_of(array.bytes));
    writer.commit(description);
  }
};

} // namespace varve::test
