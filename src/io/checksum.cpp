#include "io/checksum.hpp"

#include "core/error.hpp"
#include "core/host_threads.hpp"
#include "io/input_files.hpp"
#include "io/whole_bytes.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace varve {
namespace {

constexpr std::uint64_t odd_factor = 0x9e3779b97f4a7c15U; // 2^64 divided by the golden ratio

std::uint64_t mixed(std::uint64_t sum, std::uint64_t word) {
  return std::rotl((sum ^ word) * odd_factor, 29) + 0x165667b19e3779f9U;
}

/// Final mixing step of splitmix64: every bit of the sum affects every bit of the result.
std::uint64_t finished(std::uint64_t sum) {
  sum = (sum ^ (sum >> 30U)) * 0xbf58476d1ce4e5b9U;
  sum = (sum ^ (sum >> 27U)) * 0x94d049bb133111ebU;
  return sum ^ (sum >> 31U);
}

std::uint64_t checksum_of_piece(std::filesystem::path const& path, int descriptor, std::uint64_t first,
                                std::uint64_t length) {
  std::string block(std::min<std::uint64_t>(length, std::uint64_t{1} << 20), '\0');
  std::uint64_t sum = 0;
  for (std::uint64_t done = 0; done < length;) {
    auto const wanted = std::min<std::uint64_t>(block.size(), length - done);
    auto const count = read_at(descriptor, first + done, block.data(), wanted);
    if (count < 0) fail_to_read(path, errno);
    if (count == 0) fail<InputError>("{} became shorter while it was read", path.string());
    sum = checksum({block.data(), static_cast<std::size_t>(count)}, sum);
    done += static_cast<std::uint64_t>(count);
  }
  return sum;
}

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

std::uint64_t checksum(std::string_view bytes, std::uint64_t before) {
  std::uint64_t sum = mixed(before, bytes.size());
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    auto const size = std::min(bytes.size(), sizeof(word));
    std::memcpy(&word, bytes.data(), size);
    sum = mixed(sum, word);
    bytes.remove_prefix(size);
  }
  return finished(sum);
}

std::uint64_t file_checksum(std::filesystem::path const& path) {
  auto const file = open_input(path);
  struct stat status {};
  if (fstat(file.number(), &status) != 0) fail_to_read(path, errno);
  auto const length = static_cast<std::uint64_t>(status.st_size);

  constexpr std::uint64_t piece = std::uint64_t{1} << 24;
  std::vector<std::uint64_t> sums((length + piece - 1) / piece);
  for_each_on_host_threads(sums.size(), [&](std::size_t number) {
    auto const first = number * piece;
    sums[number] = checksum_of_piece(path, file.number(), first, std::min(piece, length - first));
  });
  std::uint64_t sum = length;
  for (auto const next : sums) sum = mixed(sum, next);
  return finished(sum);
}

std::uint64_t files_checksum(std::vector<std::filesystem::path> const& files) {
  std::uint64_t sum = 0;
  for (auto const& file : files) {
    auto const next = file_checksum(file);
    sum = checksum({reinterpret_cast<char const*>(&next), sizeof(next)}, sum);
  }
  return sum;
}

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
