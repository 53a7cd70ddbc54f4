#include "passes/output_order.hpp"

#include "network/analysis.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>

namespace varve {
namespace {

/// Groups the outputs by input list, in order of first appearance.
std::vector<std::vector<NeuronIndex>> group(SparseMatrix const& weights) {
  auto const firsts = firsts_of_equal_lists(weights);
  std::vector<std::vector<NeuronIndex>> groups;
  std::vector<std::size_t> group_of(firsts.size());
  for (NeuronIndex output = 0; output < firsts.size(); ++output) {
    bool const is_first = firsts[output] == output;
    group_of[output] = is_first ? groups.size() : group_of[firsts[output]];
    if (is_first) groups.emplace_back();
    groups[group_of[output]].push_back(output);
  }
  return groups;
}

/// Builds stages from pieces; a piece is at most `unit` outputs with equal input lists.
class StageBuilder {
public:
  StageBuilder(SparseMatrix const& weights, std::size_t unit, std::size_t max_inputs, std::size_t max_outputs)
      : weights_(weights),
        unit_(unit),
        max_inputs_(max_inputs),
        max_outputs_(max_outputs),
        stage_of_input_(weights.num_columns, 0) {
    for (auto const& outputs : group(weights)) {
      for (std::size_t first = 0; first < outputs.size(); first += unit) {
        auto const last = std::min(first + unit, outputs.size());
        pieces_.emplace_back(outputs.begin() + static_cast<std::ptrdiff_t>(first),
                             outputs.begin() + static_cast<std::ptrdiff_t>(last));
      }
    }
    is_taken_.assign(pieces_.size(), false);
    num_shared_.assign(pieces_.size(), 0);
    is_nearer_.assign(pieces_.size(), false);
    pieces_of_input_.resize(weights.num_columns);
    for (std::size_t piece = 0; piece < pieces_.size(); ++piece)
      for (NeuronIndex const input : list_of(piece)) pieces_of_input_[input].push_back(piece);
  }

  std::optional<OutputStages> build(double min_uses) {
    constexpr std::size_t stages_to_judge_by = 4;
    for (std::size_t num_taken = 0; num_taken < pieces_.size(); ++num_taken) {
      std::size_t piece = next_piece();
      if (stage_outputs_.size() >= std::max(max_outputs_, unit_) || num_inputs_ + num_new(piece) > max_inputs_) {
        if (!close_stage()) return std::nullopt;
        if (stages_.pointers.size() > stages_to_judge_by && !pays_off(min_uses)) return std::nullopt;
        piece = next_piece();
        if (num_inputs_ + num_new(piece) > max_inputs_) return std::nullopt;
      }
      take(piece);
    }
    if (!stage_outputs_.empty()) {
      unit_ = 1; // the last stage may end anywhere
      close_stage();
    }
    if (!pays_off(min_uses)) return std::nullopt;
    return std::move(stages_);
  }

private:
  std::span<NeuronIndex const> list_of(std::size_t piece) const { return weights_.row_columns(pieces_[piece].front()); }
  std::size_t num_new(std::size_t piece) const { return list_of(piece).size() - num_shared_[piece]; }
  /// Orders pieces by their new inputs, then by their number.
  std::uint64_t distance(std::size_t piece) const { return static_cast<std::uint64_t>(num_new(piece)) << 32U | piece; }
  bool pays_off(double min_uses) const {
    return static_cast<double>(num_edges_) >= min_uses * static_cast<double>(num_inputs_of_stages_);
  }

  /// The piece with the fewest new inputs among those that share inputs with the stage, first of equals; if none shares
  /// any, the next piece.
  std::size_t next_piece() {
    while (!nearest_.empty()) {
      auto const piece = static_cast<std::uint32_t>(nearest_.front());
      if (!is_taken_[piece]) return piece;
      std::ranges::pop_heap(nearest_, std::greater());
      nearest_.pop_back();
    }
    while (next_ < pieces_.size() && is_taken_[next_]) ++next_;
    return next_;
  }

  void take(std::size_t piece) {
    is_taken_[piece] = true;
    stage_outputs_.insert(stage_outputs_.end(), pieces_[piece].begin(), pieces_[piece].end());
    add_inputs(list_of(piece));
  }

  void add_inputs(std::span<NeuronIndex const> list) {
    for (NeuronIndex const input : list) {
      if (stage_of_input_[input] == stage_) continue;
      stage_of_input_[input] = stage_;
      ++num_inputs_;
      for (std::size_t const piece : pieces_of_input_[input]) {
        if (is_taken_[piece]) continue;
        if (num_shared_[piece]++ == 0) neighbours_.push_back(piece);
        if (!is_nearer_[piece]) nearer_.push_back(piece);
        is_nearer_[piece] = true;
      }
    }
    for (std::size_t const piece : nearer_) {
      nearest_.push_back(distance(piece));
      std::ranges::push_heap(nearest_, std::greater());
      is_nearer_[piece] = false;
    }
    nearer_.clear();
  }

  /// Ends the stage after its last whole unit and moves the remaining outputs to the next stage. False if there is no
  /// whole unit.
  bool close_stage() {
    std::size_t const whole = stage_outputs_.size() / unit_ * unit_;
    if (whole == 0) return false;
    auto const end = stage_outputs_.begin() + static_cast<std::ptrdiff_t>(whole);
    for (auto output = stage_outputs_.begin(); output != end; ++output) {
      stages_.order.push_back(*output);
      num_edges_ += weights_.row_columns(*output).size();
    }
    stages_.pointers.push_back(stages_.order.size());
    stage_outputs_.erase(stage_outputs_.begin(), end);
    num_inputs_of_stages_ += num_inputs_;
    ++stage_;
    num_inputs_ = 0;
    for (std::size_t const piece : neighbours_) num_shared_[piece] = 0;
    neighbours_.clear();
    nearest_.clear();
    for (NeuronIndex const output : stage_outputs_) add_inputs(weights_.row_columns(output));
    return true;
  }

  SparseMatrix const& weights_;
  std::size_t unit_, max_inputs_, max_outputs_;
  std::vector<std::vector<NeuronIndex>> pieces_;
  std::vector<bool> is_taken_;
  std::vector<std::vector<std::size_t>> pieces_of_input_;
  std::vector<std::size_t> neighbours_; ///< pieces that share inputs with the stage
  std::vector<std::size_t> num_shared_; ///< for each piece the number of inputs it shares with the stage
  std::vector<std::size_t> nearer_;     ///< pieces that share inputs that are being added
  std::vector<bool> is_nearer_;         ///< for each piece whether it is one of them
  std::vector<std::uint64_t> nearest_;  ///< heap of the distances that pieces have, or had before they came nearer
  std::vector<NeuronIndex> stage_outputs_;
  std::vector<std::uint32_t> stage_of_input_; ///< for each input the last stage that reads it
  std::uint32_t stage_ = 1;
  std::size_t num_inputs_ = 0; ///< number of distinct inputs of the stage
  std::size_t next_ = 0;       ///< all pieces before this one are taken
  EdgeOffset num_edges_ = 0, num_inputs_of_stages_ = 0;
  OutputStages stages_{{}, {0}};
};

} // namespace

std::vector<NeuronIndex> order_by_input_list(SparseMatrix const& weights, std::size_t block_outputs) {
  auto const groups = group(weights);
  if (groups.size() == weights.num_rows) return {};
  std::vector<NeuronIndex> order;
  order.reserve(weights.num_rows);
  auto const whole = [&](auto const& outputs) { return outputs.size() / block_outputs * block_outputs; };
  for (auto const& outputs : groups) {
    order.insert(order.end(), outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(whole(outputs)));
  }
  for (auto const& outputs : groups) {
    order.insert(order.end(), outputs.begin() + static_cast<std::ptrdiff_t>(whole(outputs)), outputs.end());
  }
  if (std::ranges::is_sorted(order)) return {};
  return order;
}

std::vector<NeuronIndex> chain_blocks(SparseMatrix const& weights, std::vector<NeuronIndex> const& order,
                                      std::size_t block_outputs, std::size_t blocks_per_chain) {
  std::size_t const num_whole = weights.num_rows / block_outputs; // an incomplete block stays at the end
  SparseMatrix inputs_of_blocks{num_whole, weights.num_columns, {0}, {}, {1.0}};
  std::vector<NeuronIndex> list;
  for (std::size_t block = 0; block < num_whole; ++block) {
    list_inputs(weights, order, block_outputs, block, list);
    std::ranges::sort(list);
    list.erase(std::ranges::unique(list).begin(), list.end());
    inputs_of_blocks.column_indices.insert(inputs_of_blocks.column_indices.end(), list.begin(), list.end());
    inputs_of_blocks.row_pointers.push_back(inputs_of_blocks.column_indices.size());
  }
  auto const chains = find_stages(inputs_of_blocks, 1, weights.num_columns, blocks_per_chain, 0.0);
  std::vector<NeuronIndex> chained;
  chained.reserve(weights.num_rows);
  for (NeuronIndex const block : chains->order) {
    for (std::size_t i = 0; i < block_outputs; ++i)
      chained.push_back(static_cast<NeuronIndex>(output_at(order, block * block_outputs + i)));
  }
  for (std::size_t position = num_whole * block_outputs; position < weights.num_rows; ++position)
    chained.push_back(static_cast<NeuronIndex>(output_at(order, position)));
  return chained;
}

std::optional<OutputStages> find_stages(SparseMatrix const& weights, std::size_t unit, std::size_t max_inputs,
                                        std::size_t max_outputs, double min_uses) {
  return StageBuilder(weights, unit, max_inputs, max_outputs).build(min_uses);
}

void list_inputs(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order, std::size_t block_outputs,
                 std::size_t block, std::vector<NeuronIndex>& inputs) {
  std::size_t const last = std::min((block + 1) * block_outputs, matrix.num_rows);
  auto const first_list = matrix.row_columns(output_at(order, block * block_outputs));
  inputs.assign(first_list.begin(), first_list.end());
  for (std::size_t position = block * block_outputs + 1; position < last; ++position) {
    auto const list = matrix.row_columns(output_at(order, position));
    if (std::ranges::equal(list, inputs)) continue;
    if (!std::ranges::is_sorted(list) || !std::ranges::is_sorted(inputs)) {
      inputs.insert(inputs.end(), list.begin(), list.end());
      continue;
    }
    std::vector<NeuronIndex> merged;
    std::ranges::set_union(inputs, list, std::back_inserter(merged));
    inputs.swap(merged);
  }
}

std::size_t longest_list(SparseMatrix const& matrix, std::vector<NeuronIndex> const& order, std::size_t block_outputs,
                         std::size_t first_block, std::size_t num_blocks, std::vector<NeuronIndex>& inputs) {
  std::size_t longest = 0;
  std::size_t const last = std::min(first_block + num_blocks, count_blocks(matrix, block_outputs));
  for (std::size_t block = first_block; block < last; ++block) {
    list_inputs(matrix, order, block_outputs, block, inputs);
    longest = std::max(longest, inputs.size());
  }
  return longest;
}

} // namespace varve
