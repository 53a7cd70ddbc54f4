#pragma once

#include <cstdint>

namespace varve {

/// A stream of pseudo-random numbers that is the same on every platform: SplitMix64 (Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", 2014), a counter passed through a mixing function. Streams with
/// different numbers under one seed are independent, so parts of a network or input can be generated in any order.
class RandomStream {
public:
  RandomStream(std::uint64_t seed, std::uint64_t stream) : counter_(mixed(mixed(seed + kStep) + stream)) {}

  /// 64 random bits.
  std::uint64_t bits() { return mixed(counter_ += kStep); }

  /// The bits that the call after `index` calls of bits() from now would give, without drawing any.
  std::uint64_t bits_at(std::uint64_t index) const { return mixed(counter_ + (index + 1) * kStep); }

  /// Uniform in 0 ... bound - 1; bound is at least 1.
  std::uint64_t below(std::uint64_t bound) {
    // Reject the first 2^64 mod bound values: the remaining ones form whole blocks of `bound` values, so every result
    // is equally likely.
    std::uint64_t const first_few = (0 - bound) % bound;
    std::uint64_t value = bits();
    while (value < first_few) value = bits();
    return value % bound;
  }

  /// Uniform in low ... high, both inclusive; low <= high.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }

private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;

  static std::uint64_t mixed(std::uint64_t word) {
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
    return word ^ (word >> 31U);
  }

  std::uint64_t counter_;
};

} // namespace varve
