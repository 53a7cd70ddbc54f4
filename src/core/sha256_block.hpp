#pragma once

#include "core/types.hpp"

#include <cstdint>

/// The compression function of SHA-256 (FIPS 180-4), for host and device code.
namespace varve {

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
struct Sha256Constants {
  alignas(16) std::uint32_t words[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
};

/// The hash of the bytes so far, as eight words.
struct Sha256State {
  std::uint32_t words[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

  /// Adds a block of 64 bytes, given as 16 words whose first byte is the highest. Uses the words for its own.
  VARVE_HOST_DEVICE void add(std::uint32_t (&w)[16]) {
    constexpr Sha256Constants constants; // local, as device code knows no other
    auto a = words[0], b = words[1], c = words[2], d = words[3];
    auto e = words[4], f = words[5], g = words[6], h = words[7];
    VARVE_UNROLL
    for (int round = 0; round < 64; round += 16) {
      VARVE_UNROLL
      for (int t = 0; t < 16; ++t) {
        if (round > 0) {
          auto const before = w[(t + 14) % 16];
          auto const after = w[(t + 1) % 16];
          w[t] += w[(t + 9) % 16] + (rotated(after, 7) ^ rotated(after, 18) ^ after >> 3U) +
                  (rotated(before, 17) ^ rotated(before, 19) ^ before >> 10U);
        }
        auto const first = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & f) ^ (~e & g)) +
                           constants.words[round + t] + w[t];
        auto const second = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
      }
    }
    words[0] += a, words[1] += b, words[2] += c, words[3] += d;
    words[4] += e, words[5] += f, words[6] += g, words[7] += h;
  }

private:
  VARVE_HOST_DEVICE static std::uint32_t rotated(std::uint32_t word, int right) {
    return word >> static_cast<unsigned>(right) | word << static_cast<unsigned>(32 - right);
  }
};

} // namespace varve
