#include "passes/edge_order.hpp"

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "passes/output_order.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <ranges>
#include <utility>

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

std::size_t degree_at(SparseMatrix const& weights, std::vector<NeuronIndex> const& order, std::size_t position) {
  return static_cast<std::size_t>(weights.row_size(output_at(order, position)));
}

/// Wavefronts for inputs read at the same time; equal inputs are read once.
std::uint64_t num_wavefronts(std::span<NeuronIndex const> inputs) {
  BankCounts counts{};
  for (auto input = inputs.begin(); input != inputs.end(); ++input) {
    if (std::find(inputs.begin(), input, *input) == input) ++counts[bank_of(*input)];
  }
  return static_cast<std::uint64_t>(std::ranges::max(counts));
}

/// The banks that the outputs of a group read in one step.
struct Assignment {
  std::array<std::size_t, kOutputsAtATime> banks;
  int num_wavefronts;
};

/// All possible assignments, fewest wavefronts first.
std::vector<Assignment> all_assignments() {
  std::vector<Assignment> all;
  for (std::size_t code = 0; code < kNumBanks * kNumBanks * kNumBanks * kNumBanks; ++code) {
    Assignment assignment{};
    BankCounts counts{};
    std::size_t rest = code;
    for (auto& bank : assignment.banks) {
      bank = rest % kNumBanks;
      rest /= kNumBanks;
      ++counts[bank];
    }
    assignment.num_wavefronts = std::ranges::max(counts);
    all.push_back(assignment);
  }
  std::ranges::stable_sort(all, {}, &Assignment::num_wavefronts);
  return all;
}

/// Reorders the edges of outputs, one group of four at a time.
class EdgeBalancer {
public:
  explicit EdgeBalancer(SparseMatrix& weights) : weights_(weights), assignments_(all_assignments()) {}

  void balance(std::span<NeuronIndex const> four) {
    num_left_ = {};
    for (std::size_t i = 0; i < four.size(); ++i) open(i, four[i]);
    while (std::ranges::max(num_left_) > 0) take(cheapest());
    for (std::size_t i = 0; i < four.size(); ++i) apply(i, four[i]);
  }

private:
  /// Sorts the edges of an output into banks, ascending by input.
  void open(std::size_t i, NeuronIndex output) {
    entries_.resize(static_cast<std::size_t>(weights_.row_size(output)));
    std::iota(entries_.begin(), entries_.end(), static_cast<std::size_t>(weights_.row_pointers[output]));
    auto const input = [&](std::size_t entry) { return weights_.column_indices[entry]; };
    if (!std::ranges::is_sorted(weights_.row_columns(output))) std::ranges::sort(entries_, {}, input);
    for (auto& of_bank : open_[i]) of_bank.clear();
    for (std::size_t const entry : entries_) open_[i][bank_of(input(entry))].push_back(entry);
    for (std::size_t bank = 0; bank < kNumBanks; ++bank) counts_[i][bank] = static_cast<int>(open_[i][bank].size());
    num_left_[i] = static_cast<int>(entries_.size());
    chosen_[i].clear();
  }

  bool is_done(std::size_t i) const { return num_left_[i] == 0; }

  /// The best possible assignment: fewest wavefronts, then largest weight_of, then first. Where conflicts cannot be
  /// avoided, the weight prefers the banks with most edges over all outputs. An output without edges left matches any
  /// bank.
  Assignment const& cheapest() const {
    BankCounts totals{};
    for (std::size_t i = 0; i < kOutputsAtATime; ++i) {
      if (!is_done(i)) totals = sum_of(totals, counts_[i]);
    }
    Assignment const* best = nullptr;
    int most = -1;
    for (auto const& assignment : assignments_) {
      if (best != nullptr && assignment.num_wavefronts > best->num_wavefronts) break;
      int const weight = weight_of(assignment, totals);
      if (weight <= most) continue;
      most = weight;
      best = &assignment;
    }
    return *best;
  }

  /// The number of edges left in the banks of an assignment; -1 if it is not possible.
  int weight_of(Assignment const& assignment, BankCounts const& totals) const {
    int weight = 0;
    for (std::size_t i = 0; i < kOutputsAtATime; ++i) {
      if (is_done(i)) continue;
      std::size_t const bank = assignment.banks[i];
      if (counts_[i][bank] == 0) return -1;
      weight += assignment.num_wavefronts == 1 ? counts_[i][bank] : totals[bank];
    }
    return weight;
  }

  /// Applies an assignment for one step, or, if it has no conflict, for half of the edges that its scarcest bank has
  /// left.
  void take(Assignment const& assignment) {
    int least = std::numeric_limits<int>::max();
    for (std::size_t i = 0; i < kOutputsAtATime; ++i) {
      if (!is_done(i)) least = std::min(least, counts_[i][assignment.banks[i]]);
    }
    int const num_steps = assignment.num_wavefronts == 1 ? std::max(1, least / 2) : 1;
    for (std::size_t i = 0; i < kOutputsAtATime; ++i) {
      if (is_done(i)) continue;
      std::size_t const bank = assignment.banks[i];
      auto const first = open_[i][bank].end() - counts_[i][bank];
      chosen_[i].insert(chosen_[i].end(), first, first + num_steps);
      counts_[i][bank] -= num_steps;
      num_left_[i] -= num_steps;
    }
  }

  /// Writes the new edge order of an output into its row.
  void apply(std::size_t i, NeuronIndex output) {
    auto const first = static_cast<std::ptrdiff_t>(weights_.row_pointers[output]);
    inputs_.clear();
    values_.clear();
    for (std::size_t const entry : chosen_[i]) {
      inputs_.push_back(weights_.column_indices[entry]);
      values_.push_back(weights_.value(entry));
    }
    std::ranges::copy(inputs_, weights_.column_indices.begin() + first);
    if (weights_.values.size() > 1) std::ranges::copy(values_, weights_.values.begin() + first);
  }

  using Entries = std::vector<std::size_t>;

  SparseMatrix& weights_;
  std::vector<Assignment> assignments_;
  std::array<std::array<Entries, kNumBanks>, kOutputsAtATime> open_; ///< entries of each output of the group, by bank
  std::array<BankCounts, kOutputsAtATime>
      counts_{}; ///< number of entries not chosen yet; they are the last ones of open_
  std::array<int, kOutputsAtATime> num_left_{};
  std::array<Entries, kOutputsAtATime> chosen_;
  Entries entries_;
  std::vector<NeuronIndex> inputs_;
  std::vector<double> values_;
};

/// Stored weights per edge if blocks of outputs share one list of inputs.
double weights_in_blocks(SparseMatrix const& weights, std::size_t block_outputs) {
  auto const order = order_by_input_list(weights, block_outputs);
  std::vector<std::size_t> block_of_input(weights.num_columns, weights.num_rows);
  std::size_t stored = 0;
  for (std::size_t position = 0; position < weights.num_rows; ++position) {
    std::size_t const block = position / block_outputs;
    for (NeuronIndex const input : weights.row_columns(output_at(order, position))) {
      if (std::exchange(block_of_input[input], block) != block) stored += block_outputs;
    }
  }
  return static_cast<double>(stored) / static_cast<double>(weights.num_entries());
}

} // namespace

std::vector<NeuronIndex> balance_outputs(SparseMatrix const& weights) { return OutputBalancer(weights).order(); }

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

BankUse bank_use(SparseMatrix const& weights, std::vector<NeuronIndex> const& order) {
  BankUse use;
  for (std::size_t first = 0; first < weights.num_rows; first += kOutputsAtATime) {
    std::size_t const last = std::min(first + kOutputsAtATime, weights.num_rows);
    std::size_t longest = 0;
    for (std::size_t position = first; position < last; ++position)
      longest = std::max(longest, degree_at(weights, order, position));
    for (std::size_t step = 0; step < longest; ++step) {
      std::array<NeuronIndex, kOutputsAtATime> inputs{};
      std::size_t count = 0;
      for (std::size_t position = first; position < last; ++position) {
        if (step < degree_at(weights, order, position))
          inputs[count++] = weights.row_columns(output_at(order, position))[step];
      }
      use.num_wavefronts += num_wavefronts(std::span(inputs).first(count));
    }
    use.num_steps += longest;
  }
  return use;
}

bool is_ascending(SparseMatrix const& weights) {
  for (std::size_t row = 0; row < weights.num_rows; ++row) {
    if (!std::ranges::is_sorted(weights.row_columns(row))) return false;
  }
  return true;
}

std::vector<NeuronIndex> balance_edges(SparseMatrix& weights) {
  auto order = balance_outputs(weights);
  EdgeBalancer balancer(weights);
  for (std::size_t first = 0; first < order.size(); first += kOutputsAtATime)
    balancer.balance(std::span(order).subspan(first, std::min(kOutputsAtATime, order.size() - first)));
  return order;
}

bool suits_balanced_edges(SparseMatrix const& weights) {
  constexpr std::size_t narrowest = 257; // tiles of narrower layers have lines of 128 bytes and no conflicts
  constexpr EdgeOffset fewest_edges = 8; // per output; sliced ELL would pad fewer edges to this number
  constexpr double densest = 0.35;       // denser layers may be computed as dense ones, which have no bank conflicts
  std::size_t const width = std::max(weights.num_rows, weights.num_columns);
  if (width < narrowest || width > kWidestInLargeScratch) return false;
  double const possible_edges = static_cast<double>(weights.num_rows) * static_cast<double>(weights.num_columns);
  if (static_cast<double>(weights.num_entries()) > densest * possible_edges) return false;
  if (weights.num_entries() < fewest_edges * weights.num_rows) return false;
  // Blocks are at least as fast as single outputs if they store no more weights per edge than this: measured on CPUs
  // for blocks of four, on GPUs for blocks of eight (see tuning.hpp).
  constexpr EdgeOffset many_edges = 64;
  bool const has_many_edges = weights.num_entries() >= many_edges * weights.num_rows;
  return weights_in_blocks(weights, 4) > 2.0 && weights_in_blocks(weights, 8) > (has_many_edges ? 2.25 : 2.0);
}

std::string to_string(EdgeOrder order) { return order == EdgeOrder::ascending ? "ascending" : "balanced"; }

EdgeOrder parse_edge_order(std::string const& name) {
  for (EdgeOrder const order : {EdgeOrder::ascending, EdgeOrder::balanced})
    if (name == to_string(order)) return order;
  throw UsageError("there is no edge order '" + name + "'; there are: ascending, balanced");
}

OrderedNetwork::OrderedNetwork(std::shared_ptr<NetworkSource const> source, EdgeOrder order)
    : source_(std::move(source)), order_(order), reports_(source_->num_layers()) {}

bool OrderedNetwork::changes(Layer const& layer) const {
  if (order_ == EdgeOrder::forced) return std::max(layer.num_inputs(), layer.num_outputs()) <= kWidestInScratch;
  return order_ == EdgeOrder::balanced && suits_balanced_edges(layer.weights);
}

Layer OrderedNetwork::layer(std::size_t number) const {
  constexpr double min_gain = 1.1; // in wavefronts; a smaller gain does not justify another order of summation
  Layer layer = source_->layer(number);
  Stopwatch const stopwatch;
  if (!changes(layer)) return layer;
  Layer ordered = layer;
  EdgeOrderReport report{1, bank_use(layer.weights, {}), {}, 0.0};
  auto const order = balance_edges(ordered.weights);
  report.chosen = bank_use(ordered.weights, order);
  report.seconds = stopwatch.seconds();
  auto const gain =
      static_cast<double>(report.ascending.num_wavefronts) / static_cast<double>(report.chosen.num_wavefronts);
  if (order_ != EdgeOrder::forced && gain < min_gain) return layer;
  std::lock_guard const lock(guard_);
  reports_[number] = report;
  return ordered;
}

EdgeOrderReport OrderedNetwork::report() const {
  std::lock_guard const lock(guard_);
  EdgeOrderReport all;
  for (auto const& report : reports_) {
    if (!report) continue;
    all.num_layers += report->num_layers;
    all.ascending += report->ascending;
    all.chosen += report->chosen;
    all.seconds += report->seconds;
  }
  return all;
}

} // namespace varve
