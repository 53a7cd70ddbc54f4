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
  /// Takes the array for sums that come, which has been replaced.
  void take_received(Sums const& received) {
    if (kOnHost<ExecutionSpace> || received_h_.size() != received.size()) received_h_ = on_host(received);
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

  /// Brings the sums of another rank's subtree to their place among those received.
  void take_sums(ExecutionSpace const& lane, std::size_t bundle, std::size_t other, std::size_t subtree,
                 Sums const& received) {
    mirror(lane, received, received_h_, shares_->place_of(bundle, shares_->first_subtree(other) + subtree),
           shares_->own_part(bundle).num_sums());
  }
  void await_sums(ExecutionSpace const& /*lane*/, std::size_t /*bundle*/) {} ///< their message has been awaited

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
  HostArray<Scalar> received_h_;
  std::vector<HostArray<Scalar>> sums_h_;       ///< by own subtree
  std::vector<WorkMark<ExecutionSpace>> marks_; ///< by bundle: behind the last copies to the host
  WorkMark<ExecutionSpace> computed_;
};

} // namespace varve
