#include "io/checksum.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace varve {
namespace {

constexpr std::size_t block_size = 64;

std::uint32_t word_at(char const* bytes) {
  std::uint32_t word = 0;
  for (int number = 0; number < 4; ++number) word = word << 8U | static_cast<unsigned char>(bytes[number]);
  return word;
}

void compress(Sha256State& state, char const* blocks, std::size_t count) {
  for (; count > 0; --count, blocks += block_size) {
    std::uint32_t words[16];
    for (std::size_t t = 0; t < 16; ++t) words[t] = word_at(blocks + 4 * t);
    state.add(words);
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
__attribute__((target("sha,sse4.1"))) void compress_by_instructions(Sha256State& state, char const* blocks,
                                                                    std::size_t count) {
  static constexpr Sha256Constants constants;
  auto const reversed = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto* const words = reinterpret_cast<__m128i*>(state.words);
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
      auto const keys = _mm_add_epi32(now, _mm_load_si128(reinterpret_cast<__m128i const*>(constants.words) + t));
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

void compress_blocks(Sha256State& state, char const* blocks, std::size_t count) {
#if defined(__x86_64__)
  static bool const is_fast = has_instructions();
  if (is_fast) return compress_by_instructions(state, blocks, count);
#endif
  compress(state, blocks, count);
}

} // namespace

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
    digest[number] = static_cast<unsigned char>(state_.words[number / 4] >> (24 - 8 * (number % 4)));
  return digest;
}

Digest sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

} // namespace varve
