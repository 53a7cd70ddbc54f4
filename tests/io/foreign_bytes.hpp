#pragma once

#include "io/npy_bytes.hpp"
#include "network/network.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Bytes of files as other programs write them.
namespace varve::testing {

inline std::string little_endian(std::uint64_t number, std::size_t size) {
  std::string bytes;
  for (std::size_t byte = 0; byte < size; ++byte, number >>= 8U) bytes += static_cast<char>(number & 0xffU);
  return bytes;
}

inline std::string bytes_of(std::vector<float> const& numbers) {
  return {reinterpret_cast<char const*>(numbers.data()), numbers.size() * sizeof(float)};
}

/// A ZIP archive of members that are stored; their checksums are right.
class ZipWriter {
public:
  void add(std::string const& name, std::string const& content) {
    auto const head = little_endian(20, 2) + little_endian(0, 8) + little_endian(checksum(content), 4) +
                      little_endian(content.size(), 4) + little_endian(content.size(), 4) +
                      little_endian(name.size(), 2) + little_endian(0, 2);
    directory_ +=
        "PK\1\2" + little_endian(20, 2) + head + little_endian(0, 10) + little_endian(members_.size(), 4) + name;
    members_ += "PK\3\4" + head + name + content;
    ++num_members_;
  }

  std::string finish() const {
    return members_ + directory_ + "PK\5\6" + little_endian(0, 4) + little_endian(num_members_, 2) +
           little_endian(num_members_, 2) + little_endian(directory_.size(), 4) + little_endian(members_.size(), 4) +
           little_endian(0, 2);
  }

private:
  /// CRC-32 of ISO 3309, bit by bit.
  static std::uint32_t checksum(std::string const& content) {
    std::uint32_t sum = 0xffffffffU;
    for (char const letter : content) {
      sum ^= static_cast<unsigned char>(letter);
      for (int bit = 0; bit < 8; ++bit) sum = sum >> 1U ^ ((sum & 1U) != 0 ? 0xedb88320U : 0U);
    }
    return ~sum;
  }

  std::string members_, directory_;
  std::size_t num_members_ = 0;
};

/// A safetensors file.
inline std::string safetensors(std::string header, std::string const& data) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return little_endian(header.size(), 8) + header + data;
}

/// Messages of Protocol Buffers.
inline std::string proto_number(std::uint64_t number) {
  std::string bytes;
  for (; number >= 128; number >>= 7U) bytes += static_cast<char>(number % 128 + 128);
  return bytes + static_cast<char>(number);
}
inline std::string proto(std::uint32_t id, std::string const& content) {
  return proto_number(id << 3U | 2U) + proto_number(content.size()) + content;
}
inline std::string proto(std::uint32_t id, std::uint64_t number) {
  return proto_number(id << 3U) + proto_number(number);
}

/// A constant of an ONNX model, of float numbers.
inline std::string onnx_constant(std::string const& name, std::vector<std::uint64_t> const& shape,
                                 std::vector<float> const& numbers) {
  std::string dimensions;
  for (auto const length : shape) dimensions += proto(1, length);
  return proto(5, dimensions + proto(2, 1) + proto(8, name) + proto(9, bytes_of(numbers)));
}

/// An operation of an ONNX model.
inline std::string onnx_node(std::string const& operation, std::vector<std::string> const& inputs,
                             std::string const& output, std::string const& attributes = "") {
  std::string node;
  for (auto const& input : inputs) node += proto(1, input);
  return proto(1, node + proto(2, output) + proto(4, operation) + attributes);
}
inline std::string onnx_integer(std::string const& name, std::uint64_t number) {
  return proto(5, proto(1, name) + proto(3, number) + proto(20, 2));
}
inline std::string onnx_real(std::string const& name, float number) {
  return proto(5, proto(1, name) + proto_number(2U << 3U | 5U) + bytes_of({number}) + proto(20, 1));
}

/// A model with the input x and the output y, of this version of ONNX's operations.
inline std::string onnx_model(std::string const& parts, std::uint64_t version = 17) {
  return proto(1, 7) + proto(7, parts + proto(11, proto(1, std::string("x"))) + proto(12, proto(1, std::string("y")))) +
         proto(8, proto(2, version));
}

} // namespace varve::testing
