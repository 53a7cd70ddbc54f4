#include "passes/edge_order.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <ranges>
#include <span>
#include <vector>

namespace varve {
namespace {

/// A measure of imbalance: 0 if all banks are read equally often.
int unevenness(BankCounts const& counts) {
  int sum = 0;
  int squares = 0;
  for (int const count : counts) {
    sum += count;
    squares += count * count;
  }
  return static_cast<int>(kNumBanks) * squares - sum * sum;
}

/// Groups outputs into fours for balance_outputs().
class OutputBalancer {
public:
  using Four = std::vector<NeuronIndex>;

  explicit OutputBalancer(SparseMatrix const& weights) : weights_(weights) {
    for (std::size_t output = 0; output < weights.num_rows; ++output) {
      counts_.push_back(count_banks(weights.row_columns(output)));
      open_[bank_of(static_cast<NeuronIndex>(output))].push_back(static_cast<NeuronIndex>(output));
    }
    auto const all = std::views::iota(NeuronIndex{0}, static_cast<NeuronIndex>(weights.num_rows));
    bool const has_one_degree = std::ranges::all_of(all, [&](auto output) { return degree(output) == degree(0); });
    // measured: a wider window gains little and puts outputs of different degrees together
    window_ = has_one_degree ? 16 : 8;
    for (auto& outputs : open_) std::ranges::stable_sort(outputs, std::greater(), [&](auto o) { return degree(o); });
  }

  std::vector<NeuronIndex> order() {
    std::vector<Four> fours;
    while (std::ranges::any_of(open_, [](auto const& outputs) { return !outputs.empty(); })) fours.push_back(next());
    auto const last = fours.empty() || fours.back().size() == kOutputsAtATime ? fours.end() : std::prev(fours.end());
    std::ranges::stable_sort(fours.begin(), last, std::greater(), [&](Four const& four) { return longest(four); });
    reverse_every_other_run(std::span(fours.begin(), last));
    std::vector<NeuronIndex> order;
    for (auto const& four : fours) order.insert(order.end(), four.begin(), four.end());
    return order;
  }

private:
  EdgeOffset degree(NeuronIndex output) const { return weights_.row_size(output); }
  EdgeOffset longest(Four const& four) const {
    return degree(std::ranges::max(four, {}, [&](auto output) { return degree(output); }));
  }

  static void reverse_every_other_run(std::span<Four> fours) {
    constexpr std::size_t run = 64; // fours per team of the fused kernel: 512 threads, two per output
    for (std::size_t first = run; first < fours.size(); first += 2 * run)
      std::ranges::reverse(fours.subspan(first, std::min(run, fours.size() - first)));
  }

  /// The outputs of a bank that may be taken next.
  std::span<NeuronIndex const> window(std::size_t bank) const {
    return std::span(open_[bank]).first(std::min(window_, open_[bank].size()));
  }

  /// Takes the most uneven output and the best matching output of each other bank.
  Four next() {
    std::size_t worst_bank = 0;
    std::size_t worst = 0;
    int most = -1;
    for (std::size_t bank = 0; bank < kNumBanks; ++bank) {
      for (std::size_t i = 0; i < window(bank).size(); ++i) {
        int const found = unevenness(counts_[open_[bank][i]]);
        if (found <= most) continue;
        most = found;
        worst_bank = bank;
        worst = i;
      }
    }
    Four four;
    BankCounts sum{};
    take(worst_bank, worst, four, sum);
    for (std::size_t bank = 0; bank < kNumBanks; ++bank) {
      if (bank != worst_bank && !open_[bank].empty()) take(bank, best_for(sum, bank), four, sum);
    }
    return four;
  }

  std::size_t best_for(BankCounts const& sum, std::size_t bank) const {
    auto const outputs = window(bank);
    auto const best = std::ranges::min_element(
        outputs, {}, [&](NeuronIndex output) { return unevenness(sum_of(sum, counts_[output])); });
    return static_cast<std::size_t>(best - outputs.begin());
  }

  void take(std::size_t bank, std::size_t place, Four& four, BankCounts& sum) {
    NeuronIndex const output = open_[bank][place];
    four.push_back(output);
    sum = sum_of(sum, counts_[output]);
    open_[bank].erase(open_[bank].begin() + static_cast<std::ptrdiff_t>(place));
  }

  SparseMatrix const& weights_;
  std::vector<BankCounts> counts_; ///< reads per bank of each output
  std::size_t window_ = 0;
  /// Outputs not taken yet, by the bank of their own line, most edges first.
  std::array<std::vector<NeuronIndex>, kNumBanks> open_;
};

} // namespace

std::vector<NeuronIndex> balance_outputs(SparseMatrix const& weights) { return OutputBalancer(weights).order(); }

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
  constexpr std::size_t max_words = 2048; // compared for one choice; more candidates gain little
  constexpr std::size_t fewest_candidates = 8;
  BankSteps const steps(weights);
  auto const window = static_cast<std::ptrdiff_t>(
      std::max(fewest_candidates, max_words / std::max<std::size_t>(1, steps.num_words()) / kNumBanks));
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
