#include "passes/bank_counts.hpp"
#include "passes/edge_order.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <limits>
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
    bool const has_one_degree = degree_range() == 0;
    // measured: a wider window gains little and puts outputs of different degrees together
    window_ = has_one_degree ? 16 : 8;
    for (auto& outputs : open_) std::ranges::stable_sort(outputs, std::greater(), [&](auto o) { return degree(o); });
  }

  std::vector<NeuronIndex> order() {
    std::vector<Four> fours;
    while (std::ranges::any_of(open_, [](auto const& outputs) { return !outputs.empty(); })) fours.push_back(next());
    auto const last = fours.empty() || fours.back().size() == kOutputsAtATime ? fours.end() : std::prev(fours.end());
    std::ranges::stable_sort(fours.begin(), last, std::greater(), [&](Four const& four) { return longest(four); });
    turn_every_other_run(std::span(fours.begin(), last));
    std::vector<NeuronIndex> order;
    for (auto const& four : fours) order.insert(order.end(), four.begin(), four.end());
    return order;
  }

private:
  EdgeOffset degree(NeuronIndex output) const { return weights_.row_size(output); }
  EdgeOffset longest(Four const& four) const {
    return degree(std::ranges::max(four, {}, [&](auto output) { return degree(output); }));
  }

  static void turn_every_other_run(std::span<Four> fours) {
    constexpr std::size_t run = 64; // fours per team of the fused kernel: 512 threads, two per output
    for (std::size_t first = run; first < fours.size(); first += 2 * run)
      std::ranges::reverse(fours.subspan(first, std::min(run, fours.size() - first)));
  }

  EdgeOffset degree_range() const {
    EdgeOffset least = std::numeric_limits<EdgeOffset>::max();
    EdgeOffset most = 0;
    for (std::size_t output = 0; output < weights_.num_rows; ++output) {
      least = std::min(least, weights_.row_size(output));
      most = std::max(most, weights_.row_size(output));
    }
    return most - std::min(least, most);
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

} // namespace varve
