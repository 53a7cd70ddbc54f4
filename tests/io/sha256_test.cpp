// Of the library and, in a program of its own, of what it has for processors without instructions for it.
#include "io/checksum.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace varve {
namespace {

// FIPS 180-4's examples (NIST, "Cryptographic Standards and Guidelines: Example Values") and the empty text.
TEST(Sha256, GivesTheHashesOfTheStandard) {
  for (auto const& [text, digits] : std::vector<std::pair<std::string, char const*>>{
           {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
           {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
           {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
           {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrst"
            "nopqrstu",
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
           {std::string(1'000'000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}}) {
    EXPECT_EQ(to_hex(sha256(text)), digits);
  }
}

std::string some_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t place = 0; place < count; ++place) bytes[place] = static_cast<char>(7 * place + place / 256);
  return bytes;
}

// Python: hashlib.sha256 of the hashes of all prefixes of bytes((7 * i + i // 256) % 256 for i in range(200)). Among
// these lengths are all at which the padding of the last block changes.
TEST(Sha256, TakesEveryLength) {
  auto const bytes = some_bytes(200);
  Sha256 all;
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    auto const digest = sha256(std::string_view(bytes).substr(0, length));
    all.add({reinterpret_cast<char const*>(digest.data()), digest.size()});
  }
  EXPECT_EQ(to_hex(all.finish()), "c43614ca86d050b81500ab839e2b7e83381ef396e722c27d3e537ab57268e893");
}

TEST(Sha256, TakesBytesInPartsOfEverySize) {
  auto const bytes = some_bytes(1000);
  auto const whole = sha256(bytes);
  for (std::size_t size = 1; size <= 200; ++size) {
    Sha256 parts;
    for (std::size_t first = 0; first < bytes.size(); first += size) {
      parts.add(std::string_view(bytes).substr(first, size));
      parts.add("");
    }
    EXPECT_EQ(parts.finish(), whole) << size;
  }
}

} // namespace
} // namespace varve
