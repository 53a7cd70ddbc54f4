#pragma once

#include "core/execution.hpp"
#include "core/work_mark.hpp"
#include "engine/gradient_exchange.hpp"
#include "engine/step_shares.hpp"
#include "engine/trained_weights.hpp"

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

namespace varve {

/// Sums and weights travel between ranks as messages: on CPUs from the arrays where they are, on GPUs through pinned
/// host memory, to which a mark says that they have been copied. MemoryWay has the same functions.
template <class ExecutionSpace, class Scalar>
class MessageWay {
public:
  using Sums = DeviceArray<ExecutionSpace, Scalar>;
  using Weights = TrainedWeights<ExecutionSpace, Scalar>;

  MessageWay(StepShares const& shares, Weights& weights) : shares_(&shares), weights_(&weights) {
    take_arrays();
    marks_.resize(shares.num_bundles());
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
      received_ = Sums(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("varve::received_sums")),
                       shares_->num_received());
      received_h_ = on_host(received_);
    }
    places_ =
        place_table<ExecutionSpace, Scalar>(*shares_, [&](std::size_t bundle, std::size_t rank, std::size_t subtree) {
          return received_.data() + shares_->place_of(bundle, shares_->first_subtree(rank) + subtree);
        });
  }

  /// Makes own sums of a bundle ready to be sent, after what `space` has been given.
  void leave_sums(ExecutionSpace const& space, ExecutionSpace const& lane, std::size_t bundle,
                  std::vector<Sums> const& own) {
    auto const& whole = shares_->bundle(bundle);
    computed_.set(space);
    computed_.hold_back(lane);
    sums_h_.resize(own.size());
    for (std::size_t subtree = 0; subtree < own.size(); ++subtree) {
      if (kOnHost<ExecutionSpace> || sums_h_[subtree].size() != own[subtree].size())
        sums_h_[subtree] = on_host(own[subtree]);
      mirror(lane, sums_h_[subtree], own[subtree], whole.first_sum(), whole.num_sums());
    }
    marks_[bundle].set(lane);
  }

  /// True if what leave_sums() or leave_weights() left for the others is where messages take it from.
  bool is_left(std::size_t bundle) const { return marks_[bundle].is_reached(); }

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
  PlaceTable<ExecutionSpace, Scalar> sums(ExecutionSpace const& lane, std::size_t bundle,
                                          std::vector<Sums> const& own) {
    auto const part = shares_->own_part(bundle);
    std::size_t const count = part.num_sums();
    for (std::size_t rank = 0; rank < shares_->num_ranks(); ++rank) {
      for (std::size_t subtree = 0; subtree < shares_->num_subtrees(rank); ++subtree) {
        std::size_t const place = shares_->place_of(bundle, shares_->first_subtree(rank) + subtree);
        if (rank != shares_->rank()) {
          mirror(lane, received_, received_h_, place, count);
        } else if (count > 0) {
          Kokkos::deep_copy(lane, span_of(received_, place, count), span_of(own[subtree], part.first_sum, count));
        }
      }
    }
    return places_of(places_, *shares_, bundle);
  }

  /// Makes the new weights and biases of the own part ready to be sent.
  void leave_weights(ExecutionSpace const& lane, std::size_t bundle) {
    auto const part = shares_->own_part(bundle);
    mirror(lane, weights_h_, weights_->weights(), part.first_edge, part.num_edges());
    mirror(lane, bias_h_, weights_->bias(), part.first_output, part.num_outputs());
    marks_[bundle].set(lane);
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
  void take_weights(ExecutionSpace const& lane, std::size_t bundle, std::size_t other) {
    auto const part = shares_->part(bundle, other);
    mirror(lane, weights_->weights(), weights_h_, part.first_edge, part.num_edges());
    mirror(lane, weights_->bias(), bias_h_, part.first_output, part.num_outputs());
    weights_->take_part(lane, part, weights_->weights(), weights_->bias());
  }

private:
  template <class T>
  using HostArray = Kokkos::View<T*, std::conditional_t<kOnHost<ExecutionSpace>, typename ExecutionSpace::memory_space,
                                                        Kokkos::SharedHostPinnedSpace>>;

  /// Host memory for an array: on CPUs the array itself, else pinned memory of the same size.
  template <class T>
  static HostArray<T> on_host(DeviceArray<ExecutionSpace, T> const& array) {
    if constexpr (kOnHost<ExecutionSpace>) {
      return array;
    } else {
      return HostArray<T>(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("varve::pinned")), array.size());
    }
  }

  /// Copies numbers between an array and its memory on the host; nothing to do on CPUs. Does not fence.
  template <class To, class From>
  static void mirror(ExecutionSpace const& lane, To const& to, From const& from, std::size_t first, std::size_t count) {
    if constexpr (!kOnHost<ExecutionSpace>) copy_span(lane, to, from, first, count);
  }

  template <class Array>
  static void append(std::vector<RankBytes>& pieces, std::size_t rank, Array const& array, std::size_t first,
                     std::size_t count) {
    using Number = typename Array::value_type;
    if (count > 0) pieces.push_back({rank, reinterpret_cast<std::byte*>(array.data() + first), count * sizeof(Number)});
  }

  StepShares const* shares_;
  Weights* weights_;
  HostArray<Scalar> weights_h_;
  HostArray<double> bias_h_;
  Sums received_; ///< sums for the own parts: [bundle][subtree][sum]
  HostArray<Scalar> received_h_;
  PlaceTable<ExecutionSpace, Scalar> places_;   ///< of sums: [bundle][subtree]
  std::vector<HostArray<Scalar>> sums_h_;       ///< by own subtree
  std::vector<WorkMark<ExecutionSpace>> marks_; ///< by bundle: behind the last copies to the host
  WorkMark<ExecutionSpace> computed_;
};

} // namespace varve
