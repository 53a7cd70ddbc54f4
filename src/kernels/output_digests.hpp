#pragma once

#include "core/execution.hpp"
#include "core/sha256_block.hpp"
#include "kernels/dense_rows.hpp"
#include "kernels/tile.hpp"

#include <cstddef>
#include <cstdint>

namespace varve {

/// SHA-256 of 32-bit numbers as they lie in memory, byte after byte.
class WordHash {
public:
  KOKKOS_FUNCTION void add(std::uint32_t number) {
    block_[num_words_++ % 16] = reversed(number);
    if (num_words_ % 16 == 0) state_.add(block_);
  }
  KOKKOS_FUNCTION void add(std::uint64_t number) {
    add(static_cast<std::uint32_t>(number));
    add(static_cast<std::uint32_t>(number >> 32U));
  }

  /// Writes the hash as eight numbers; nothing may be added afterwards.
  KOKKOS_FUNCTION void finish(std::uint32_t* digest) {
    std::uint64_t const num_bits = num_words_ * 32;
    add(std::uint32_t{0x80});
    while (num_words_ % 16 != 14) add(std::uint32_t{0});
    add(reversed(static_cast<std::uint32_t>(num_bits >> 32U)));
    add(reversed(static_cast<std::uint32_t>(num_bits)));
    for (int word = 0; word < 8; ++word) digest[word] = reversed(state_.words[word]);
  }

private:
  KOKKOS_FUNCTION static std::uint32_t reversed(std::uint32_t word) {
    return word << 24U | (word << 8U & 0xff0000U) | (word >> 8U & 0xff00U) | word >> 24U;
  }

  Sha256State state_;
  std::uint32_t block_[16]{};
  std::uint64_t num_words_ = 0;
};

/// digests(s) = SampleLeaves::output (receipts/digests.hpp) of sample s, eight numbers: the hash of its number, of the
/// count and the places of its nonzero last activations, and of these, in double; one stands for all if all are equal.
/// Index: sample. Reads the activations of each live sample three times, and hashes 4 to 12 bytes of each, one after
/// the other: with few live samples bound by the latency of that chain.
template <class Scalar>
struct DigestOutputs {
  LastActivations<Scalar> source;
  std::uint64_t first_sample;
  int num_outputs;
  ArrayView<std::uint32_t> digests; ///< [sample][8]

  KOKKOS_FUNCTION void operator()(std::size_t sample) const {
    int const end = source.ends(sample);
    std::uint64_t count = 0;
    bool are_equal = true;
    Scalar one = 0;
    for_each_nonzero(end, [&](int, Scalar number) {
      if (count++ == 0) one = number;
      are_equal = are_equal && number == one;
    });
    WordHash hash;
    for (std::uint32_t const word : {0x72617600U, 0x6f206576U, 0x75707475U, 0x0a312074U}) // "\0varve output 1\n"
      hash.add(word);
    hash.add(first_sample + sample);
    hash.add(count);
    for_each_nonzero(end, [&](int output, Scalar) { hash.add(static_cast<std::uint32_t>(output)); });
    bool is_first = true;
    for_each_nonzero(end, [&](int, Scalar number) {
      if (is_first || !are_equal) hash.add(Kokkos::bit_cast<std::uint64_t>(static_cast<double>(number)));
      is_first = false;
    });
    hash.finish(&digests(8 * sample));
  }

private:
  /// Calls work(output, number) for the nonzero last activations of a sample, eight of which are read at a time.
  template <class Work>
  KOKKOS_FORCEINLINE_FUNCTION void for_each_nonzero(int end, Work const& work) const {
    constexpr int at_a_time = 8;
    if (end == LastActivations<Scalar>::is_dead) return;
    for (int first = 0; first < num_outputs; first += at_a_time) {
      Scalar numbers[at_a_time];
      VARVE_UNROLL
      for (int i = 0; i < at_a_time; ++i)
        numbers[i] = first + i < num_outputs ? source.number(end, static_cast<std::size_t>(first + i)) : Scalar(0);
      for (int i = 0; i < at_a_time; ++i) {
        if (numbers[i] != Scalar(0)) work(first + i, numbers[i]);
      }
    }
  }
};

} // namespace varve
