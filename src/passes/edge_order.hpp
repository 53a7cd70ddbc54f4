#pragma once

#include "network/network.hpp"
#include "network/sparse_matrix.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
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

/// An order of the outputs (position -> output) in groups of four that read different banks (passes/edge_order.hpp) in
/// as many steps as possible, although no edge moves, so that sums keep their bits: of random inputs in ascending order
/// it leaves 1.5 wavefronts a step of 2.1. Numbers of edges descend from group to group. Greedy: completes the output
/// with most edges by those of the next ones that meet it least. Depends on the order of edges. Time is linear in the
/// outputs, and in the edges of an output up to some thousand.
std::vector<NeuronIndex> group_outputs(SparseMatrix const& weights);

/// The order in which the products of an output are added up.
enum class EdgeOrder {
  ascending, ///< by input
  balanced,  ///< balanced in layers of at most 4096 neurons that gain from it by fewer bank conflicts; else ascending
  forced     ///< balanced in all layers of at most 1024 neurons, whether they gain or not: no option, for tests
};

/// The option value of an edge order: "ascending" or "balanced".
std::string to_string(EdgeOrder order);

/// The edge order with this name. Throws UsageError, which lists the valid names, if there is none.
EdgeOrder parse_edge_order(std::string const& name);

/// The gain from reordering edges, summed over all reordered layers.
struct EdgeOrderReport {
  std::size_t num_layers = 0; ///< number of reordered layers
  BankUse ascending;          ///< cost of these layers in ascending order
  BankUse chosen;
  double seconds = 0.0; ///< time for reordering, summed over all threads
};

/// A network that reorders the edges of its layers. The order depends on the layer alone, so that every backend, format
/// and number of ranks computes the same bits. The column indices of a reordered row do not ascend; everything else
/// equals the source. A layer is reordered whenever it is read, in time about linear in its edges.
class OrderedNetwork final : public NetworkSource {
public:
  OrderedNetwork(std::shared_ptr<NetworkSource const> source, EdgeOrder order);

  std::string name() const override { return source_->name(); }
  std::size_t num_layers() const override { return source_->num_layers(); }
  Layer layer(std::size_t number) const override;

  /// The report on the layers read so far.
  EdgeOrderReport report() const;

private:
  bool changes(Layer const& layer) const;

  std::shared_ptr<NetworkSource const> source_;
  EdgeOrder order_;
  mutable std::mutex guard_;
  mutable std::vector<std::optional<EdgeOrderReport>> reports_; ///< one per layer
};

} // namespace varve
