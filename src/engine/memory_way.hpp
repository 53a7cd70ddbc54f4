#pragma once

#include "engine/gradient_exchange.hpp"
#include "engine/peer_arrays.hpp"
#include "engine/step_shares.hpp"
#include "engine/trained_weights.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace varve {

/// Ranks of one machine read sums and weights where they lie in the memory of the others (PeerArrays). A message of one
/// byte says that the work that fills an array has been given to a device; the reader's device waits for that work
/// itself. MessageWay has the same functions.
///
/// What is read is never written too early: an owner writes its new weights after it has heard of all sums of the step,
/// which each rank gives to its device behind its reading in the step before; and a rank's passes write sums anew
/// behind all new weights, which their owners give to their devices behind their reading of the old sums.
template <class Scalar>
class MemoryWay {
public:
  using Sums = DeviceNumbers<Scalar>;
  using Weights = TrainedWeights<Scalar>;

  /// Collective. Returns null, on all ranks, if memory cannot be read; `obstacle` says why then.
  static std::unique_ptr<MemoryWay> open(DeviceMemory const& memory, GradientExchange& exchange,
                                         StepShares const& shares, Weights& weights, std::string& obstacle) {
    auto const& last = weights.parts().bundles().back();
    auto peers = Peers::open(memory, exchange,
                             {last.first_sum() + last.num_sums(), weights.num_edges(), weights.num_outputs(),
                              shares.num_bundles(), shares.most_subtrees()},
                             obstacle);
    return peers ? std::unique_ptr<MemoryWay>(new MemoryWay(memory, shares, weights, std::move(peers))) : nullptr;
  }

  /// True if there is room for all subtrees of each rank.
  bool has_room() const { return peers_->sizes().num_subtrees >= shares_->most_subtrees(); }

  /// To be called when ranks have other subtrees.
  void take_subtrees() {
    places_ = place_table<Scalar>(memory_, *shares_, [&](std::size_t bundle, std::size_t rank, std::size_t subtree) {
      return peers_->sums(rank, subtree).data() + shares_->own_part(bundle).first_sum;
    });
  }

  void leave_sums(Lane const& from, Lane const& /*lane*/, std::size_t bundle, std::vector<Sums> const& own) {
    auto const& whole = shares_->bundle(bundle);
    for (std::size_t subtree = 0; subtree < own.size(); ++subtree)
      copy_part(from, peers_->sums(shares_->rank(), subtree), own[subtree], whole.first_sum(), whole.num_sums());
    peers_->sums_mark(shares_->rank(), bundle).set(from);
  }

  bool is_left(std::size_t /*bundle*/) const { return true; }

  RankMessages sums_messages(std::size_t bundle) {
    double bytes = 0.0;
    for (std::size_t other = 0; other < shares_->num_ranks(); ++other)
      if (other != shares_->rank()) bytes += static_cast<double>(shares_->part(bundle, other).num_sums());
    return hints(2 * bundle, bytes * static_cast<double>(shares_->num_subtrees(shares_->rank()) * sizeof(Scalar)));
  }

  /// Where the sums of all subtrees for the own part of a bundle are, for what `lane` is given from now on.
  PlaceTable<Scalar> sums(Lane const& lane, std::size_t bundle, std::vector<Sums> const& /*own*/) {
    for (std::size_t rank = 0; rank < shares_->num_ranks(); ++rank) peers_->sums_mark(rank, bundle).hold_back(lane);
    return places_of(places_, *shares_, bundle);
  }

  void leave_weights(Lane const& lane, std::size_t bundle) {
    auto const part = shares_->own_part(bundle);
    std::size_t const rank = shares_->rank();
    copy_part(lane, peers_->weights(rank), weights_->weights(), part.first_edge, part.num_edges());
    copy_part(lane, peers_->bias(rank), weights_->bias(), part.first_output, part.num_outputs());
    peers_->weights_mark(rank, bundle).set(lane);
  }

  RankMessages weights_messages(std::size_t bundle) {
    auto const own = shares_->own_part(bundle);
    auto const bytes = own.num_edges() * sizeof(Scalar) + own.num_outputs() * sizeof(double);
    return hints(2 * bundle + 1, static_cast<double>(bytes * (shares_->num_ranks() - 1)));
  }

  void take_weights(Lane const& lane, std::size_t bundle, std::size_t other) {
    auto const part = shares_->part(bundle, other);
    peers_->weights_mark(other, bundle).hold_back(lane);
    weights_->take_part(lane, part, peers_->weights(other), peers_->bias(other));
  }

private:
  using Peers = PeerArrays<Scalar>;

  MemoryWay(DeviceMemory const& memory, StepShares const& shares, Weights& weights, std::unique_ptr<Peers> peers)
      : memory_(memory), shares_(&shares), weights_(&weights), peers_(std::move(peers)) {}

  /// Copies numbers to the same places of another array on the device. Does not fence.
  template <class Number>
  static void copy_part(Lane const& lane, DeviceNumbers<Number> const& to, DeviceNumbers<Number> const& from,
                        std::size_t first, std::size_t count) {
    if (count > 0) lane.copy_on_device(to.data() + first, from.data() + first, count * sizeof(Number));
  }

  /// Messages of a byte to and from every other rank, also about arrays without numbers: what a rank writes next may
  /// depend on all others' having read.
  RankMessages hints(std::size_t number, double bytes_read) {
    std::size_t const num_ranks = shares_->num_ranks();
    bytes_.resize(4 * shares_->num_bundles() * num_ranks);
    std::byte* const first = bytes_.data() + 2 * number * num_ranks;
    RankMessages messages;
    messages.bytes_read = bytes_read;
    for (std::size_t other = 0; other < num_ranks; ++other) {
      if (other == shares_->rank()) continue;
      messages.sent.push_back({other, first + other, 1});
      messages.received.push_back({other, first + num_ranks + other, 1});
    }
    return messages;
  }

  DeviceMemory const& memory_;
  StepShares const* shares_;
  Weights* weights_;
  std::unique_ptr<Peers> peers_;
  PlaceTable<Scalar> places_;    ///< of sums: [bundle][subtree]
  std::vector<std::byte> bytes_; ///< of hints: [number][sent, received][rank]
};

} // namespace varve
