#pragma once

#include "passes/edge_order.hpp"

#include <array>
#include <cstddef>
#include <span>

namespace varve {

/// The number of reads of each bank of passes/edge_order.hpp.
using BankCounts = std::array<int, kNumBanks>;

inline std::size_t bank_of(NeuronIndex neuron) { return neuron % kNumBanks; }

inline BankCounts count_banks(std::span<NeuronIndex const> inputs) {
  BankCounts counts{};
  for (NeuronIndex const input : inputs) ++counts[bank_of(input)];
  return counts;
}

inline BankCounts sum_of(BankCounts one, BankCounts const& other) {
  for (std::size_t bank = 0; bank < kNumBanks; ++bank) one[bank] += other[bank];
  return one;
}

} // namespace varve
