#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace varve {

/// A field of a message in the encoding of Protocol Buffers (protobuf.dev, "Encoding").
struct ProtoField {
  enum class Kind { number, fixed64, bytes, fixed32 };

  std::uint32_t id = 0; ///< the number of the field in the message's definition
  Kind kind = Kind::number;
  std::uint64_t number = 0; ///< of the kinds number, fixed64 and fixed32
  std::string_view bytes;   ///< of the kind bytes: a text, a message or a packed list
};

/// Reads the fields of a message one after the other. Takes no memory; the bytes must outlive it.
class ProtoReader {
public:
  /// `place` is for messages.
  ProtoReader(std::string_view message, std::string place);

  /// Reads the next field; false at the end of the message. Throws InputError "PLACE: ..." if it is broken.
  bool next(ProtoField& field);

private:
  [[noreturn]] void fail();
  std::uint64_t take_number();
  std::uint64_t take_fixed(std::size_t size);

  std::string_view rest_;
  std::string place_;
};

} // namespace varve
