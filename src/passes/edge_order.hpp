#pragma once

#include "network/sparse_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varve {

/// Model of banked scratch memory, as on a GPU. In a tile of activations, the line of neuron n is in bank n % kNumBanks
/// (32 banks of 4 bytes hold four lines of 8 float or 4 double samples), and four outputs read their inputs at the same
/// time. Lines in different banks are read together; each further line in the same bank costs one more wavefront.
inline constexpr std::size_t kNumBanks = 4;
inline constexpr std::size_t kOutputsAtATime = 4;

/// The cost of reading the inputs of a layer. In each step, four neighbouring outputs read their next input.
struct BankUse {
  std::uint64_t num_steps = 0;
  std::uint64_t num_wavefronts = 0; ///< at least one per step

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

/// Counts the wavefronts if each row is read from its first to its last entry and the outputs are taken in this order
/// (position -> output; an empty order means 0, 1, 2, ...).
BankUse bank_use(SparseMatrix const& weights, std::vector<NeuronIndex> const& order);

/// True if the column indices of every row ascend, as require_valid() demands.
bool is_ascending(SparseMatrix const& weights);

/// An order of the outputs (position -> output) in groups of four. The four outputs of a group together read each bank
/// about equally often, and their own numbers lie in different banks. Numbers of edges are similar within a group and
/// in neighbouring groups; runs of as many groups as a team computes at a time alternate between descending and
/// ascending, so that the threads of a team get about equal work. Greedy: takes the most uneven output and the outputs
/// that even it out best. Depends only on the sets of inputs, not on the order of edges. Time is linear in edges and
/// outputs.
std::vector<NeuronIndex> balance_outputs(SparseMatrix const& weights);

/// Reorders the edges of each output so that the outputs of each group of balance_outputs() read different banks in as
/// many steps as possible; returns the order of the outputs. Depends only on the sets of inputs, so it leaves a matrix
/// that it has ordered unchanged. If the four outputs together read each bank equally often, no step has a conflict:
/// the multigraph of outputs and banks is a sum of perfect matchings (Birkhoff 1946, "Tres observaciones sobre el
/// algebra lineal"), which are removed one by one, the heaviest first. Otherwise the remaining edges have conflicts.
std::vector<NeuronIndex> balance_edges(SparseMatrix& weights);

/// Largest number of inputs or outputs of a layer whose tile fits in scratch.
inline constexpr std::size_t kWidestInScratch = 1024;

/// The same for tiles that take most of the large scratch of a GPU (core/large_scratch.hpp).
inline constexpr std::size_t kWidestInLargeScratch = 4096;

/// Tells from the pattern alone whether a layer may gain from balance_edges() and no backend loses. This requires that
/// the layer is not so dense that a dense product is faster, that it is wide enough to have tiles with lines of 32
/// bytes but has at most kWidestInLargeScratch neurons, that its outputs have edges for several steps, and
/// that outputs do not share so many inputs that blocks of outputs, which read each input once, are faster anyway.
bool suits_balanced_edges(SparseMatrix const& weights);

/// Density up to which edges are reordered. Denser layers keep ascending edges, so that they may be computed as dense
/// ones (formats/dense_blocks.hpp), which have no bank conflicts.
inline constexpr double kDensestBalanced = 0.35;

} // namespace varve
