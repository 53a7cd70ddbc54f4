#include "io/chunk_decoder.hpp"

#include "core/spare_vectors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace varve {
namespace {

using Kind = ElementType::Kind;

constexpr std::size_t checksum_bytes = 4;

/// A stored number as an Element, by HDF5's rule: a number beyond the range of Element becomes the nearest in range.
template <class Element, class Stored>
Element converted(Stored number) {
  if constexpr (std::is_same_v<Element, std::uint32_t> && sizeof(Stored) > sizeof(Element))
    return static_cast<Element>(std::min<Stored>(number, std::numeric_limits<Element>::max()));
  return static_cast<Element>(number);
}

/// Converts numbers that lie one after the other.
template <class Stored, class Element>
void convert(char const* bytes, std::span<Element> elements) {
  for (std::size_t entry = 0; entry < elements.size(); ++entry) {
    Stored number{};
    std::memcpy(&number, bytes + entry * sizeof(Stored), sizeof(Stored));
    elements[entry] = converted<Element>(number);
  }
}

/// Converts numbers of which byte b of all lies `stride` bytes after byte b - 1 of all, as shuffled.
template <class Stored, class Element>
void convert_shuffled(char const* bytes, std::size_t stride, std::span<Element> elements) {
  using Word =
      std::conditional_t<sizeof(Stored) == 8, std::uint64_t,
                         std::conditional_t<sizeof(Stored) == 4, std::uint32_t,
                                            std::conditional_t<sizeof(Stored) == 2, std::uint16_t, std::uint8_t>>>;
  for (std::size_t entry = 0; entry < elements.size(); ++entry) {
    Word word = 0;
    for (std::size_t byte = 0; byte < sizeof(Stored); ++byte) {
      auto const part = static_cast<Word>(static_cast<unsigned char>(bytes[byte * stride + entry]));
      word = static_cast<Word>(word | static_cast<Word>(part << (8 * byte)));
    }
    elements[entry] = converted<Element>(std::bit_cast<Stored>(word));
  }
}

/// Calls work.template operator()<Stored>() with the C++ type of an element type. False if Element cannot hold it.
template <class Element, class Work>
bool with_type(ElementType type, Work const& work) {
  if (std::is_same_v<Element, std::uint16_t> && type.size > sizeof(Element)) return false;
  auto const of_size = [&]<class One, class Two, class Four, class Eight>() {
    switch (type.size) {
    case 1:
      return work.template operator()<One>(), true;
    case 2:
      return work.template operator()<Two>(), true;
    case 4:
      return work.template operator()<Four>(), true;
    case 8:
      return work.template operator()<Eight>(), true;
    default:
      return false;
    }
  };
  if constexpr (std::is_floating_point_v<Element> || std::is_unsigned_v<Element>) {
    if (type.kind == Kind::unsigned_integer)
      return of_size.template operator()<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>();
  }
  if constexpr (std::is_signed_v<Element>) { // real numbers, too
    if (type.kind == Kind::signed_integer)
      return of_size.template operator()<std::int8_t, std::int16_t, std::int32_t, std::int64_t>();
  }
  if constexpr (std::is_floating_point_v<Element>) {
    if (type.kind != Kind::floating) return false;
    if (type.size == sizeof(float)) return work.template operator()<float>(), true;
    if (type.size == sizeof(double)) return work.template operator()<double>(), true;
  }
  return false;
}

/// Subtracts multiples of 65535 until the sum has 16 bits; only 0 becomes 0.
std::uint32_t folded(std::uint64_t sum) {
  while (sum > 0xffffU) sum = (sum & 0xffffU) + (sum >> 16U);
  return static_cast<std::uint32_t>(sum);
}

} // namespace

std::uint32_t fletcher32(std::span<char const> bytes) {
  constexpr std::size_t words_at_a_time = 256; // the sums of this many words fit into 32 bits
  auto const byte_at = [&](std::size_t place) { return std::uint32_t{static_cast<unsigned char>(bytes[place])}; };
  std::size_t const num_words = bytes.size() / 2; // of two bytes, the higher one first
  std::uint64_t sum = 0;
  std::uint64_t sum_of_sums = 0;
  for (std::size_t first = 0; first < num_words; first += words_at_a_time) {
    std::size_t const last = std::min(first + words_at_a_time, num_words);
    std::uint32_t part = 0;
    std::uint32_t part_of_sums = 0;
    for (std::size_t word = first; word < last; ++word) {
      part += byte_at(2 * word) << 8U | byte_at(2 * word + 1);
      part_of_sums += part;
    }
    sum_of_sums = folded(sum_of_sums + (last - first) * sum + part_of_sums);
    sum = folded(sum + part);
  }
  if (bytes.size() % 2 != 0) { // the last word has a higher byte only
    sum = folded(sum + (byte_at(bytes.size() - 1) << 8U));
    sum_of_sums = folded(sum_of_sums + sum);
  }
  return static_cast<std::uint32_t>(sum_of_sums << 16U | sum);
}

ChunkDecoder::~ChunkDecoder() { SpareVectors<char>::of_process().give_back(std::move(inflated_)); }

std::span<char const> ChunkDecoder::filtered(std::span<char const> stored) {
  if (format_.has_checksum) {
    if (stored.size() <= checksum_bytes) return {};
    auto const bytes = stored.first(stored.size() - checksum_bytes);
    std::uint32_t expected = 0; // lowest byte first
    for (std::size_t byte = 0; byte < checksum_bytes; ++byte)
      expected |= static_cast<std::uint32_t>(static_cast<unsigned char>(stored[bytes.size() + byte])) << (8 * byte);
    if (fletcher32(bytes) != expected) return {};
    stored = bytes;
  }
  if (!format_.is_deflated) return stored;
  if (inflated_.empty()) inflated_ = SpareVectors<char>::of_process().take(format_.bytes());
  if (!inflater_.inflate(stored, inflated_)) return {};
  return inflated_;
}

template <class Element>
bool ChunkDecoder::converts(ElementType type) {
  return with_type<Element>(type, []<class Stored>() {});
}

template <class Element>
bool ChunkDecoder::decode(std::span<char const> stored, std::span<ChunkRun<Element> const> runs) {
  auto const bytes = filtered(stored);
  if (bytes.size() != format_.bytes()) return false;
  for (auto const& [first, elements] : runs)
    if (first > format_.length || elements.size() > format_.length - first) return false;
  return with_type<Element>(format_.type, [&]<class Stored>() {
    for (auto const& [first, elements] : runs) {
      if (format_.is_shuffled) {
        convert_shuffled<Stored>(bytes.data() + first, format_.length, elements);
      } else {
        convert<Stored>(bytes.data() + first * sizeof(Stored), elements);
      }
    }
  });
}

template bool ChunkDecoder::converts<float>(ElementType);
template bool ChunkDecoder::converts<double>(ElementType);
template bool ChunkDecoder::converts<std::int64_t>(ElementType);
template bool ChunkDecoder::converts<std::uint16_t>(ElementType);
template bool ChunkDecoder::converts<std::uint32_t>(ElementType);
template bool ChunkDecoder::converts<std::uint64_t>(ElementType);
template bool ChunkDecoder::decode(std::span<char const>, std::span<ChunkRun<float> const>);
template bool ChunkDecoder::decode(std::span<char const>, std::span<ChunkRun<double> const>);
template bool ChunkDecoder::decode(std::span<char const>, std::span<ChunkRun<std::int64_t> const>);
template bool ChunkDecoder::decode(std::span<char const>, std::span<ChunkRun<std::uint16_t> const>);
template bool ChunkDecoder::decode(std::span<char const>, std::span<ChunkRun<std::uint32_t> const>);
template bool ChunkDecoder::decode(std::span<char const>, std::span<ChunkRun<std::uint64_t> const>);

} // namespace varve
