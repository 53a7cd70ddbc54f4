#include "io/protobuf.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <utility>

namespace varve {

ProtoReader::ProtoReader(std::string_view message, std::string place) : rest_(message), place_(std::move(place)) {}

bool ProtoReader::next(ProtoField& field) {
  if (rest_.empty()) return false;
  auto const tag = take_number();
  field = {};
  field.id = static_cast<std::uint32_t>(tag >> 3U);
  if (field.id == 0 || tag >> 32U != 0) fail();
  switch (tag & 7U) {
  case 0:
    field.number = take_number();
    return true;
  case 1:
    field.kind = ProtoField::Kind::fixed64;
    field.number = take_fixed(8);
    return true;
  case 2: {
    field.kind = ProtoField::Kind::bytes;
    auto const length = take_number();
    if (length > rest_.size()) fail();
    field.bytes = rest_.substr(0, static_cast<std::size_t>(length));
    rest_.remove_prefix(field.bytes.size());
    return true;
  }
  case 5:
    field.kind = ProtoField::Kind::fixed32;
    field.number = take_fixed(4);
    return true;
  default:
    fail();
  }
}

void ProtoReader::fail() {
  throw InputError(
      fmt::format("{}: found bytes that are no message of Protocol Buffers, or only a part of one, expected "
                  "a whole one",
                  place_));
}

std::uint64_t ProtoReader::take_number() {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    auto const byte = take_fixed(1);
    number |= (byte & 0x7fU) << shift;
    if ((byte & 0x80U) == 0) return number;
  }
  fail();
}

std::uint64_t ProtoReader::take_fixed(std::size_t size) {
  if (rest_.size() < size) fail();
  std::uint64_t number = 0;
  for (std::size_t byte = size; byte-- > 0;) number = number << 8U | static_cast<unsigned char>(rest_[byte]);
  rest_.remove_prefix(size);
  return number;
}

} // namespace varve
