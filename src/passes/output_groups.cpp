#include "passes/output_groups.hpp"

#include "passes/bank_counts.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

namespace varve {
namespace {

constexpr std::size_t kWordSteps = 64;

/// The steps in which each output reads each bank, as bits.
class BankSteps {
public:
  explicit BankSteps(SparseMatrix const& weights) {
    std::size_t longest = 0;
    for (std::size_t output = 0; output < weights.num_rows; ++output)
      longest = std::max(longest, static_cast<std::size_t>(weights.row_size(output)));
    num_words_ = (longest + kWordSteps - 1) / kWordSteps;
    words_.assign(weights.num_rows * kNumBanks * num_words_, 0);
    for (std::size_t output = 0; output < weights.num_rows; ++output) {
      std::size_t step = 0;
      for (NeuronIndex const input : weights.row_columns(output)) {
        words_[place_of(output, bank_of(input)) + step / kWordSteps] |= std::uint64_t(1) << step % kWordSteps;
        ++step;
      }
    }
  }

  std::size_t num_words() const { return num_words_; }

  /// The words of all banks of an output.
  std::span<std::uint64_t const> of(std::size_t output) const {
    return std::span(words_).subspan(place_of(output, 0), kNumBanks * num_words_);
  }

private:
  std::size_t place_of(std::size_t output, std::size_t bank) const { return (output * kNumBanks + bank) * num_words_; }

  std::size_t num_words_ = 0;
  std::vector<std::uint64_t> words_;
};

/// Steps in which an output reads a bank that others read.
int num_common(std::span<std::uint64_t const> one, std::span<std::uint64_t const> others) {
  int count = 0;
  for (std::size_t word = 0; word < one.size(); ++word) count += std::popcount(one[word] & others[word]);
  return count;
}

} // namespace

std::vector<NeuronIndex> group_outputs(SparseMatrix const& weights) {
  constexpr std::size_t most_words = 2048; // compared for one choice; more candidates gain little
  constexpr std::size_t fewest_candidates = 8;
  BankSteps const steps(weights);
  auto const window = static_cast<std::ptrdiff_t>(
      std::max(fewest_candidates, most_words / std::max<std::size_t>(1, steps.num_words()) / kNumBanks));
  std::vector<NeuronIndex> open(weights.num_rows);
  std::iota(open.begin(), open.end(), NeuronIndex(0));
  std::ranges::stable_sort(open, std::greater(), [&](NeuronIndex output) { return weights.row_size(output); });
  std::vector<NeuronIndex> order;
  order.reserve(open.size());
  std::vector<std::uint64_t> taken;
  for (auto next = open.begin(); next != open.end(); ++next) { // those before `next` are in the order
    auto best = next;
    if (order.size() % kOutputsAtATime == 0) {
      taken.assign(kNumBanks * steps.num_words(), 0);
    } else {
      int fewest = std::numeric_limits<int>::max();
      auto const end = next + std::min(window, open.end() - next);
      for (auto candidate = next; candidate != end && fewest > 0; ++candidate) {
        int const common = num_common(steps.of(*candidate), taken);
        if (common >= fewest) continue;
        fewest = common;
        best = candidate;
      }
    }
    std::rotate(next, best, best + 1);
    auto const words = steps.of(*next);
    std::ranges::transform(taken, words, taken.begin(), std::bit_or());
    order.push_back(*next);
  }
  return order;
}

} // namespace varve
