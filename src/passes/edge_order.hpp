#pragma once

#include "network/sparse_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve {

/// Where a tile of activations lies in banked scratch memory, as on a GPU, the line of a neuron is in bank `neuron %
/// kNumBanks` (32 banks of 4 bytes hold four lines of 8 float or 4 double samples), and four outputs read their inputs
/// at a time. Lines of different banks come together; each further line of the same bank costs one more wavefront.
inline constexpr std::size_t kNumBanks = 4;
inline constexpr std::size_t kOutputsAtATime = 4;

/// What reading the inputs of a layer costs: in each step, four neighbouring outputs read the next input of theirs.
struct BankUse {
  std::uint64_t num_steps = 0;
  std::uint64_t num_wavefronts = 0; ///< at least one a step

  double wavefronts_per_step() const {
    return num_steps == 0 ? 0.0 : static_cast<double>(num_wavefronts) / static_cast<double>(num_steps);
  }
  BankUse& operator+=(BankUse const& other) {
    num_steps += other.num_steps;
    num_wavefronts += other.num_wavefronts;
    return *this;
  }
  bool operator==(BankUse const&) const = default;
};

/// Reads each row from its first entry to its last, the outputs being in this order (position -> output; empty: "as
/// they are").
BankUse bank_use(SparseMatrix const& weights, std::vector<NeuronIndex> const& order);

/// True if every row is in ascending order, as require_valid() wants it.
bool is_ascending(SparseMatrix const& weights);

/// An order of the outputs (position -> output) in fours that read each bank about equally often and whose own numbers
/// lie in different banks; in each four the numbers of edges differ little, and so they do in neighbouring fours: first
/// descending, then ascending, in turn for as many as a team computes at a time, so that its threads get about equally
/// much. A greedy choice: the output that is most uneven, with those that even it out best. Depends on the sets of
/// inputs only, not on the order of edges. Takes time proportional to edges and outputs.
std::vector<NeuronIndex> balance_outputs(SparseMatrix const& weights);

/// Reorders the edges of each output so that the four outputs of each four of balance_outputs() read different banks in
/// as many steps as possible. Depends on the sets of inputs only; so what has this order keeps it.
/// Where all four read each bank equally often, no step has a conflict: the multigraph of outputs and banks is a sum of
/// perfect matchings (Birkhoff 1946, "Tres observaciones sobre el algebra lineal"), which are taken off one by one, the
/// heaviest first. Elsewhere what is left over has conflicts. Gives the order of the outputs.
std::vector<NeuronIndex> balance_edges(SparseMatrix& weights);

/// True if a layer may gain from balance_edges() and nothing loses, by its pattern alone: it is as wide as layers are
/// whose tiles lie in scratch in lines of 32 bytes, an output has edges for several steps, and outputs do not share
/// inputs so well that blocks of them, which read each input once, are better anyway.
bool suits_balanced_edges(SparseMatrix const& weights);

/// The widest layer (of inputs and outputs) whose tile lies in scratch.
inline constexpr std::size_t kWidestBalanced = 1024;

} // namespace varve
