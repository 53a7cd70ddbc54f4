#include "io/checksum.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace varve {
namespace {

constexpr std::size_t block_size = 64;

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr std::array<std::uint32_t, 64> constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;

std::uint32_t word_at(char const* bytes) {
  std::uint32_t word = 0;
  for (int number = 0; number < 4; ++number) word = word << 8U | static_cast<unsigned char>(bytes[number]);
  return word;
}

void compress(State& state, char const* blocks, std::size_t count) {
  for (; count > 0; --count, blocks += block_size) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t t = 0; t < 16; ++t) w[t] = word_at(blocks + 4 * t);
    for (std::size_t t = 16; t < 64; ++t) {
      auto const before = w[t - 2];
      auto const after = w[t - 15];
      w[t] = w[t - 16] + w[t - 7] + (std::rotr(after, 7) ^ std::rotr(after, 18) ^ after >> 3U) +
             (std::rotr(before, 17) ^ std::rotr(before, 19) ^ before >> 10U);
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t t = 0; t < 64; ++t) {
      auto const first =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + constants[t] + w[t];
      auto const second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    State const worked = {a, b, c, d, e, f, g, h};
    for (std::size_t number = 0; number < state.size(); ++number) state[number] += worked[number];
  }
}

#if defined(__x86_64__)
bool has_instructions() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned sha_bit = 1U << 29U;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & sha_bit) != 0 && __builtin_cpu_supports("sse4.1") != 0;
}

/// The same by the SHA extensions. A register holds four words of the message, or half of the state: its words a, b, e,
/// f in one and c, d, g, h in the other.
__attribute__((target("sha,sse4.1"))) void compress_by_instructions(State& state, char const* blocks,
                                                                    std::size_t count) {
  auto const reversed = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto* const words = reinterpret_cast<__m128i*>(state.data());
  auto const low = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xb1);
  auto const high = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1b);
  auto abef = _mm_alignr_epi8(low, high, 8);
  auto cdgh = _mm_blend_epi16(high, low, 0xf0);
  for (; count > 0; --count, blocks += block_size) {
    auto const abef_before = abef;
    auto const cdgh_before = cdgh;
    __m128i w[4];
#pragma GCC unroll 16
    for (int t = 0; t < 16; ++t) { // four rounds each
      auto& now = w[t % 4];
      if (t < 4) {
        now = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<__m128i const*>(blocks) + t), reversed);
      } else {
        auto const& last = w[(t + 3) % 4];
        auto const sum =
            _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(t + 1) % 4]), _mm_alignr_epi8(last, w[(t + 2) % 4], 4));
        now = _mm_sha256msg2_epu32(sum, last);
      }
      auto const keys = _mm_add_epi32(now, _mm_load_si128(reinterpret_cast<__m128i const*>(constants.data()) + t));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, keys);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(keys, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  auto const feba = _mm_shuffle_epi32(abef, 0x1b);
  auto const dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}
#endif

void compress_blocks(State& state, char const* blocks, std::size_t count) {
#if defined(__x86_64__)
  static bool const is_fast = has_instructions();
  if (is_fast) return compress_by_instructions(state, blocks, count);
#endif
  compress(state, blocks, count);
}

} // namespace

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Sha256::add(std::string_view bytes) {
  if (bytes.empty()) return;
  num_bytes_ += bytes.size();
  if (num_rest_ > 0) {
    auto const taken = std::min(bytes.size(), block_size - num_rest_);
    std::memcpy(rest_.data() + num_rest_, bytes.data(), taken);
    bytes.remove_prefix(taken);
    num_rest_ += taken;
    if (num_rest_ < block_size) return;
    compress_blocks(state_, rest_.data(), 1);
  }
  compress_blocks(state_, bytes.data(), bytes.size() / block_size);
  num_rest_ = bytes.size() % block_size;
  if (num_rest_ > 0) std::memcpy(rest_.data(), bytes.data() + bytes.size() - num_rest_, num_rest_);
}

Digest Sha256::finish() {
  auto const num_bits = num_bytes_ * 8;
  std::array<char, 2 * block_size> end{};
  auto const padding = (num_rest_ < 56 ? 56 : 120) - num_rest_; // up to the length
  end[0] = '\x80';
  for (std::size_t number = 0; number < 8; ++number)
    end[padding + number] = static_cast<char>(num_bits >> (56 - 8 * number));
  add({end.data(), padding + 8});
  Digest digest{};
  for (std::size_t number = 0; number < digest.size(); ++number)
    digest[number] = static_cast<unsigned char>(state_[number / 4] >> (24 - 8 * (number % 4)));
  return digest;
}

Digest sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

std::string to_hex(std::span<unsigned char const> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(2 * bytes.size(), '0');
  for (std::size_t place = 0; place < bytes.size(); ++place) {
    text[2 * place] = digits[bytes[place] >> 4U];
    text[2 * place + 1] = digits[bytes[place] & 15U];
  }
  return text;
}

} // namespace varve
