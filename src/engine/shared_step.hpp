#pragma once

#include "core/stopwatch.hpp"
#include "engine/gradient_exchange.hpp"
#include "engine/trained_weights.hpp"
#include "network/subtrees.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// The part of a training step that several ranks share: the owner of a part of a bundle (engine/gradient_parts.hpp)
/// gets the sums of all ranks' subtrees for it, adds them by the tree over leaves, takes its step and sends the new
/// weights to all. Messages travel while layers below are computed. On GPUs they pass through pinned host memory.
template <class ExecutionSpace, class Scalar>
class SharedStep {
public:
  using Sums = DeviceArray<ExecutionSpace, Scalar>;
  using Weights = TrainedWeights<ExecutionSpace, Scalar>;

  /// Both must outlive this object.
  SharedStep(GradientExchange& exchange, Weights& weights)
      : exchange_(&exchange),
        weights_(&weights),
        weights_h_(on_host(weights.weights())),
        bias_h_(on_host(weights.bias())) {}

  /// Takes the present arrays of the weights, which have been replaced by others of the same sizes.
  void take_arrays() {
    weights_h_ = on_host(weights_->weights());
    bias_h_ = on_host(weights_->bias());
  }

  /// Begins a step in which rank r computes the leaves [cuts[r], cuts[r + 1]).
  void begin(std::vector<std::size_t> const& cuts) {
    phases_.assign(weights_->parts().bundles().size(), Phase::computed);
    if (cuts == cuts_) return;
    cuts_ = cuts;
    std::vector<Subtree> all;
    first_subtree_.assign(1, 0);
    for (std::size_t rank = 0; rank + 1 < cuts.size(); ++rank) {
      auto const own = subtrees_of(cuts[rank], cuts[rank + 1], cuts.back());
      all.insert(all.end(), own.begin(), own.end());
      first_subtree_.push_back(all.size());
    }
    auto const merges = merges_of(all, cuts.back());
    merges_ = upload<ExecutionSpace>("varve::merges", std::vector<int>(merges.begin(), merges.end()));
    place_of_bundle_.clear();
    std::size_t size = 0;
    for (std::size_t bundle = 0; bundle < phases_.size(); ++bundle) {
      place_of_bundle_.push_back(size);
      size += all.size() * own_part(bundle).num_sums();
    }
    if (received_.size() >= size) return;
    received_ = Sums(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("varve::received_sums")), size);
    received_h_ = on_host(received_);
  }

  /// Sends this rank's sums of a bundle, one array for each of its subtrees, and takes up what has come meanwhile. The
  /// arrays must not change until finish(). Waits for kernels that were launched before.
  void send(ExecutionSpace const& space, std::size_t bundle, std::vector<Sums> const& sums) {
    Stopwatch const time;
    poll(space);
    auto const& whole = weights_->parts().bundles()[bundle];
    for (std::size_t own = 0; own < num_subtrees(rank()); ++own) {
      while (sums_h_.size() <= own) sums_h_.emplace_back();
      if (kOnHost<ExecutionSpace> || sums_h_[own].size() != sums[own].size()) sums_h_[own] = on_host(sums[own]);
      copy(space, sums_h_[own], sums[own], whole.first_sum(), whole.num_sums());
      auto const part = own_part(bundle);
      Kokkos::deep_copy(space, span(received_, place_of(bundle, first_subtree_[rank()] + own), part.num_sums()),
                        span(sums[own], part.first_sum, part.num_sums()));
    }
    phases_[bundle] = Phase::packed;
    flush(space);
    seconds_ += time.seconds();
  }

  /// Waits until all weights are those after the step. All bundles must have been sent.
  void finish(ExecutionSpace const& space) {
    Stopwatch const time;
    double idle = 0.0;
    while (std::ranges::any_of(phases_, [](Phase phase) { return phase != Phase::computed; })) {
      Stopwatch const turn;
      if (poll(space)) {
        flush(space);
      } else {
        std::this_thread::yield();
        idle += turn.seconds();
      }
    }
    wait_seconds_ += idle;
    seconds_ += time.seconds() - idle;
  }

  double seconds() const { return seconds_; }           ///< time for messages, sums and steps of own parts
  double wait_seconds() const { return wait_seconds_; } ///< time in finish() in which nothing came from other ranks
  double bytes() const { return bytes_; }               ///< bytes sent

private:
  template <class T>
  using HostArray = Kokkos::View<T*, std::conditional_t<kOnHost<ExecutionSpace>, typename ExecutionSpace::memory_space,
                                                        Kokkos::SharedHostPinnedSpace>>;
  /// What has happened to a bundle in this step: nothing or everything; its sums are on the host; they travel; its own
  /// part is stepped and on the host; weights travel.
  enum class Phase { computed, packed, sums_travel, stepped, weights_travel };

  /// Host memory for an array: on CPUs the array itself, else pinned memory of the same size.
  template <class T>
  static HostArray<T> on_host(DeviceArray<ExecutionSpace, T> const& array) {
    if constexpr (kOnHost<ExecutionSpace>) {
      return array;
    } else {
      return HostArray<T>(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("varve::pinned")), array.size());
    }
  }

  template <class Array>
  static auto span(Array const& array, std::size_t first, std::size_t count) {
    return Kokkos::subview(array, std::make_pair(first, first + count));
  }

  /// Copies numbers between an array and its memory on the host; nothing to do on CPUs. Does not fence.
  template <class To, class From>
  static void copy(ExecutionSpace const& space, To const& to, From const& from, std::size_t first, std::size_t count) {
    if constexpr (!kOnHost<ExecutionSpace>) {
      if (count > 0) Kokkos::deep_copy(space, span(to, first, count), span(from, first, count));
    }
  }

  std::size_t rank() const { return exchange_->rank(); }
  std::size_t num_subtrees(std::size_t rank) const { return first_subtree_[rank + 1] - first_subtree_[rank]; }
  GradientPart own_part(std::size_t bundle) const { return weights_->parts().part(bundle, rank()); }
  /// Where the sums of a subtree, of the own part of a bundle, stand in received_.
  std::size_t place_of(std::size_t bundle, std::size_t subtree) const {
    return place_of_bundle_[bundle] + subtree * own_part(bundle).num_sums();
  }
  static int sums_of(std::size_t bundle) { return static_cast<int>(2 * bundle); }        ///< number of a transfer
  static int weights_of(std::size_t bundle) { return static_cast<int>(2 * bundle + 1); } ///< number of a transfer

  /// Takes up transfers that are over. Returns true if there were any. Does not fence.
  bool poll(ExecutionSpace const& space) {
    bool has_news = false;
    for (std::size_t bundle = phases_.size(); bundle-- > 0;) {
      if (phases_[bundle] == Phase::sums_travel && exchange_->is_over(sums_of(bundle))) {
        step(space, bundle);
        phases_[bundle] = Phase::stepped;
        has_news = true;
      } else if (phases_[bundle] == Phase::weights_travel && exchange_->is_over(weights_of(bundle))) {
        auto const& whole = weights_->parts().bundles()[bundle];
        copy(space, weights_->weights(), weights_h_, whole.first_edge, whole.num_edges);
        copy(space, weights_->bias(), bias_h_, whole.first_output, whole.num_outputs);
        weights_->take_others(space, bundle);
        phases_[bundle] = Phase::computed;
        has_news = true;
      }
    }
    return has_news;
  }

  /// Adds the sums that have come for the own part of a bundle, takes its step and fetches the new weights.
  void step(ExecutionSpace const& space, std::size_t bundle) {
    auto const part = own_part(bundle);
    std::size_t const num_sums = part.num_sums();
    std::size_t const first_own = place_of(bundle, first_subtree_[rank()]);
    std::size_t const last_own = place_of(bundle, first_subtree_[rank() + 1]);
    std::size_t const begin = place_of(bundle, 0);
    copy(space, received_, received_h_, begin, first_own - begin);
    copy(space, received_, received_h_, last_own, place_of(bundle, first_subtree_.back()) - last_own);
    auto const sums = span(received_, begin, first_subtree_.back() * num_sums);
    add_subtrees(space,
                 AddSubtrees<ExecutionSpace, Scalar>{sums, merges_, static_cast<int>(first_subtree_.back()), num_sums});
    weights_->step_part(space, bundle, sums);
    copy(space, weights_h_, weights_->weights(), part.first_edge, part.num_edges());
    copy(space, bias_h_, weights_->bias(), part.first_output, part.num_outputs());
  }

  /// Starts the transfers whose numbers are on the host after a fence.
  void flush(ExecutionSpace const& space) {
    space.fence("varve: numbers for other ranks are on the host");
    for (std::size_t bundle = phases_.size(); bundle-- > 0;) {
      if (phases_[bundle] == Phase::packed) {
        start_sums(bundle);
        phases_[bundle] = Phase::sums_travel;
      } else if (phases_[bundle] == Phase::stepped) {
        start_weights(bundle);
        phases_[bundle] = Phase::weights_travel;
      }
    }
  }

  void start_sums(std::size_t bundle) {
    std::vector<RankBytes> sent;
    std::vector<RankBytes> received;
    for (std::size_t other = 0; other < exchange_->num_ranks(); ++other) {
      if (other == rank()) continue;
      auto const part = weights_->parts().part(bundle, other);
      for (std::size_t own = 0; own < num_subtrees(rank()); ++own)
        append(sent, other, sums_h_[own], part.first_sum, part.num_sums());
      for (std::size_t subtree = first_subtree_[other]; subtree < first_subtree_[other + 1]; ++subtree)
        append(received, other, received_h_, place_of(bundle, subtree), own_part(bundle).num_sums());
    }
    start(sums_of(bundle), sent, received);
  }

  void start_weights(std::size_t bundle) {
    std::vector<RankBytes> sent;
    std::vector<RankBytes> received;
    auto const own = own_part(bundle);
    for (std::size_t other = 0; other < exchange_->num_ranks(); ++other) {
      if (other == rank()) continue;
      append(sent, other, weights_h_, own.first_edge, own.num_edges());
      append(sent, other, bias_h_, own.first_output, own.num_outputs());
      auto const part = weights_->parts().part(bundle, other);
      append(received, other, weights_h_, part.first_edge, part.num_edges());
      append(received, other, bias_h_, part.first_output, part.num_outputs());
    }
    start(weights_of(bundle), sent, received);
  }

  template <class Array>
  static void append(std::vector<RankBytes>& pieces, std::size_t rank, Array const& array, std::size_t first,
                     std::size_t count) {
    using Number = typename Array::value_type;
    if (count > 0) pieces.push_back({rank, reinterpret_cast<std::byte*>(array.data() + first), count * sizeof(Number)});
  }

  void start(int number, std::vector<RankBytes> const& sent, std::vector<RankBytes> const& received) {
    for (auto const& piece : sent) bytes_ += static_cast<double>(piece.size);
    exchange_->start(number, sent, received);
  }

  GradientExchange* exchange_;
  Weights* weights_;
  HostArray<Scalar> weights_h_;
  HostArray<double> bias_h_;
  std::vector<std::size_t> cuts_;
  std::vector<std::size_t> first_subtree_; ///< of each rank among all subtrees; then the number of subtrees
  DeviceArray<ExecutionSpace, int> merges_;
  Sums received_; ///< sums for the own parts: [bundle][subtree][sum]
  HostArray<Scalar> received_h_;
  std::vector<std::size_t> place_of_bundle_; ///< in received_
  std::vector<HostArray<Scalar>> sums_h_;    ///< by place in the stack of sums
  std::vector<Phase> phases_;                ///< of the bundles
  double seconds_ = 0.0, wait_seconds_ = 0.0, bytes_ = 0.0;
};

} // namespace varve
