#pragma once

#include "engine/gradient_exchange.hpp"
#include "engine/step_shares.hpp"
#include "engine/trained_weights.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace varve {

/// Sums and weights travel between ranks as messages: on CPUs from the arrays where they are, on GPUs through pinned
/// host memory, to which a mark says that they have been copied. MemoryWay has the same functions.
template <class Scalar>
class MessageWay {
public:
  using Sums = DeviceNumbers<Scalar>;
  using Weights = TrainedWeights<Scalar>;

  /// All must outlive this object. `memory`: that of the weights.
  MessageWay(DeviceMemory const& memory, StepShares const& shares, Weights& weights)
      : memory_(memory), shares_(&shares), weights_(&weights), computed_(memory.new_mark()) {
    take_arrays();
    for (std::size_t bundle = 0; bundle < shares.num_bundles(); ++bundle) marks_.push_back(memory.new_mark());
  }

  /// Takes the present arrays of the weights, which have been replaced by others of the same sizes.
  void take_arrays() {
    weights_h_ = on_host(weights_->weights());
    bias_h_ = on_host(weights_->bias());
  }
  /// To be called when ranks have other subtrees.
  void take_subtrees() {
    if (received_.size() < shares_->num_received()) {
      received_ = {}; // memory is freed before more is taken
      received_h_ = {};
      received_ = new_numbers<Scalar>(memory_, "varve::received_sums", shares_->num_received());
      received_h_ = on_host(received_);
    }
    places_ = place_table<Scalar>(memory_, *shares_, [&](std::size_t bundle, std::size_t rank, std::size_t subtree) {
      return received_.data() + shares_->place_of(bundle, shares_->first_subtree(rank) + subtree);
    });
  }

  /// Makes own sums of a bundle ready to be sent, after what `from` has been given.
  void leave_sums(Lane const& from, Lane const& lane, std::size_t bundle, std::vector<Sums> const& own) {
    auto const& whole = shares_->bundle(bundle);
    computed_->set(from);
    computed_->hold_back(lane);
    sums_h_.resize(own.size());
    for (std::size_t subtree = 0; subtree < own.size(); ++subtree) {
      if (memory_.is_host() || sums_h_[subtree].size() != own[subtree].size()) sums_h_[subtree] = on_host(own[subtree]);
      to_host(lane, sums_h_[subtree], own[subtree], whole.first_sum(), whole.num_sums());
    }
    marks_[bundle]->set(lane);
  }

  /// True if what leave_sums() or leave_weights() left for the others is where messages take it from.
  bool is_left(std::size_t bundle) const { return marks_[bundle]->is_reached(); }

  /// What is sent, and where what comes is put.
  RankMessages sums_messages(std::size_t bundle) {
    RankMessages messages;
    for (std::size_t other = 0; other < shares_->num_ranks(); ++other) {
      if (other == shares_->rank()) continue;
      auto const part = shares_->part(bundle, other);
      for (auto const& sums : sums_h_) append(messages.sent, other, sums, part.first_sum, part.num_sums());
      for (std::size_t subtree = 0; subtree < shares_->num_subtrees(other); ++subtree)
        append(messages.received, other, received_h_,
               shares_->place_of(bundle, shares_->first_subtree(other) + subtree),
               shares_->own_part(bundle).num_sums());
    }
    return messages;
  }

  /// Where the sums of all subtrees for the own part of a bundle are, for what `lane` is given from now on. The
  /// messages about them must be over.
  PlaceTable<Scalar> sums(Lane const& lane, std::size_t bundle, std::vector<Sums> const& own) {
    auto const part = shares_->own_part(bundle);
    std::size_t const count = part.num_sums();
    for (std::size_t rank = 0; rank < shares_->num_ranks(); ++rank) {
      for (std::size_t subtree = 0; subtree < shares_->num_subtrees(rank); ++subtree) {
        std::size_t const place = shares_->place_of(bundle, shares_->first_subtree(rank) + subtree);
        if (rank != shares_->rank()) {
          to_device(lane, received_, received_h_, place, count);
        } else if (count > 0) {
          lane.copy_on_device(received_.data() + place, own[subtree].data() + part.first_sum, count * sizeof(Scalar));
        }
      }
    }
    return places_of(places_, *shares_, bundle);
  }

  /// Makes the new weights and biases of the own part ready to be sent.
  void leave_weights(Lane const& lane, std::size_t bundle) {
    auto const part = shares_->own_part(bundle);
    to_host(lane, weights_h_, weights_->weights(), part.first_edge, part.num_edges());
    to_host(lane, bias_h_, weights_->bias(), part.first_output, part.num_outputs());
    marks_[bundle]->set(lane);
  }

  RankMessages weights_messages(std::size_t bundle) {
    RankMessages messages;
    auto const own = shares_->own_part(bundle);
    for (std::size_t other = 0; other < shares_->num_ranks(); ++other) {
      if (other == shares_->rank()) continue;
      append(messages.sent, other, weights_h_, own.first_edge, own.num_edges());
      append(messages.sent, other, bias_h_, own.first_output, own.num_outputs());
      auto const part = shares_->part(bundle, other);
      append(messages.received, other, weights_h_, part.first_edge, part.num_edges());
      append(messages.received, other, bias_h_, part.first_output, part.num_outputs());
    }
    return messages;
  }

  /// Brings the new weights and biases of another rank's part to the arrays.
  void take_weights(Lane const& lane, std::size_t bundle, std::size_t other) {
    auto const part = shares_->part(bundle, other);
    to_device(lane, weights_->weights(), weights_h_, part.first_edge, part.num_edges());
    to_device(lane, weights_->bias(), bias_h_, part.first_output, part.num_outputs());
    weights_->take_part(lane, part, weights_->weights(), weights_->bias());
  }

private:
  template <class Number>
  using HostArray = DeviceNumbers<Number>;

  /// Host memory for an array: on CPUs the array itself, else pinned memory of the same size.
  template <class Number>
  HostArray<Number> on_host(DeviceNumbers<Number> const& array) const {
    return memory_.is_host() ? array : numbers_in<Number>(memory_.allocate_on_host("varve::pinned", array.num_bytes()));
  }

  /// Copy numbers between an array and its memory on the host; nothing to do on CPUs. They do not fence.
  template <class Number>
  void to_host(Lane const& lane, HostArray<Number> const& to, DeviceNumbers<Number> const& from, std::size_t first,
               std::size_t count) const {
    if (count > 0 && !memory_.is_host())
      lane.copy_to_host(to.data() + first, from.data() + first, count * sizeof(Number));
  }
  template <class Number>
  void to_device(Lane const& lane, DeviceNumbers<Number> const& to, HostArray<Number> const& from, std::size_t first,
                 std::size_t count) const {
    if (count > 0 && !memory_.is_host())
      lane.copy_to_device(to.data() + first, from.data() + first, count * sizeof(Number));
  }

  template <class Number>
  static void append(std::vector<RankBytes>& pieces, std::size_t rank, HostArray<Number> const& array,
                     std::size_t first, std::size_t count) {
    if (count > 0) pieces.push_back({rank, reinterpret_cast<std::byte*>(array.data() + first), count * sizeof(Number)});
  }

  DeviceMemory const& memory_;
  StepShares const* shares_;
  Weights* weights_;
  HostArray<Scalar> weights_h_;
  HostArray<double> bias_h_;
  Sums received_; ///< sums for the own parts: [bundle][subtree][sum]
  HostArray<Scalar> received_h_;
  PlaceTable<Scalar> places_;                    ///< of sums: [bundle][subtree]
  std::vector<HostArray<Scalar>> sums_h_;        ///< by own subtree
  std::vector<std::unique_ptr<LaneMark>> marks_; ///< by bundle: behind the last copies to the host
  std::unique_ptr<LaneMark> computed_;
};

} // namespace varve
