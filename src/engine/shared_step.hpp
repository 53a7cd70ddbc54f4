#pragma once

#include "core/stopwatch.hpp"
#include "core/urgent_space.hpp"
#include "core/work_mark.hpp"
#include "engine/gradient_exchange.hpp"
#include "engine/peer_arrays.hpp"
#include "engine/trained_weights.hpp"
#include "network/subtrees.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace varve {

/// The part of a training step that several ranks share: the owner of a part of a bundle (engine/gradient_parts.hpp)
/// gets the sums of all ranks' subtrees for it, adds them by the tree over leaves, takes its step and sends the new
/// weights to all, while layers below are computed. Ranks of one machine read each other's arrays (PeerArrays), and a
/// message of a byte says that the work that fills an array has been given to its device. Else arrays travel as
/// messages, on GPUs through pinned host memory. A device does this work on an instance of its own, beside the passes.
template <class ExecutionSpace, class Scalar>
class SharedStep {
public:
  using Sums = DeviceArray<ExecutionSpace, Scalar>;
  using Weights = TrainedWeights<ExecutionSpace, Scalar>;

  /// Both must outlive this object, whose destructor is collective. reads_peers: read arrays of other ranks if
  /// possible.
  SharedStep(GradientExchange& exchange, Weights& weights, bool reads_peers)
      : exchange_(&exchange), weights_(&weights), reads_peers_(reads_peers) {}

  /// Takes the present arrays of the weights, which have been replaced by others of the same sizes.
  void take_arrays() {
    if (reads_peers_) return;
    weights_h_ = on_host(weights_->weights());
    bias_h_ = on_host(weights_->bias());
  }

  /// Begins a step in which rank r computes the leaves [cuts[r], cuts[r + 1]). Collective if the cuts have changed.
  void begin(std::vector<std::size_t> const& cuts) {
    phases_.assign(weights_->parts().bundles().size(), Phase::computed);
    seconds_before_ = seconds_;
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
    open_ways(size);
  }

  /// Sends this rank's sums of a bundle, one array for each of its subtrees, and takes up what has come meanwhile. The
  /// arrays must not change until finish(). `space` has been given the kernels that compute them; it is not waited for.
  void send(ExecutionSpace const& space, std::size_t bundle, std::vector<Sums> const& sums) {
    Stopwatch const time;
    auto const& whole = weights_->parts().bundles()[bundle];
    own_sums_.assign(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(num_subtrees(rank())));
    if (peers_) {
      for (std::size_t own = 0; own < own_sums_.size(); ++own)
        copy_span(space, peers_->sums(rank(), own), sums[own], whole.first_sum(), whole.num_sums());
      peers_->sums_mark(rank(), bundle).set(space);
    } else {
      computed_.set(space);
      computed_.hold_back(lane_);
      for (std::size_t own = 0; own < own_sums_.size(); ++own) {
        while (sums_h_.size() <= own) sums_h_.emplace_back();
        if (kOnHost<ExecutionSpace> || sums_h_[own].size() != sums[own].size()) sums_h_[own] = on_host(sums[own]);
        mirror(sums_h_[own], sums[own], whole.first_sum(), whole.num_sums());
      }
      marks_[bundle].set(lane_);
    }
    phases_[bundle] = Phase::packed;
    poll();
    seconds_ += time.seconds();
  }

  /// Waits until the passes of this rank are done and all weights are those after the step, on a GPU until the work for
  /// that has been given to it: what `space` is given from now on begins after it. All bundles must have been sent.
  /// Returns how long the passes took, in seconds since the step began.
  template <class AreDone>
  double finish(ExecutionSpace const& space, Stopwatch const& since_begin, AreDone const& passes_are_done) {
    std::optional<double> passes;
    bool is_over = false;
    while (!passes || !is_over) {
      Stopwatch const turn;
      if (!passes && passes_are_done())
        passes = since_begin.seconds() - (kOnHost<ExecutionSpace> ? seconds_ - seconds_before_ : 0.0);
      bool const has_news = poll();
      is_over = std::ranges::all_of(phases_, [](Phase phase) { return phase == Phase::computed; });
      if (has_news) {
        seconds_ += turn.seconds();
      } else {
        std::this_thread::yield();
        if (passes) wait_seconds_ += turn.seconds();
      }
    }
    end_of_step_.set(lane_);
    end_of_step_.hold_back(space);
    return *passes;
  }

  double seconds() const { return seconds_; } ///< the host's time for messages, sums and steps of own parts
  double wait_seconds() const {
    return wait_seconds_;
  }                                       ///< time after the passes in which nothing came from other ranks
  double bytes() const { return bytes_; } ///< bytes for other ranks
  /// See Training::exchange_way().
  std::string way() const {
    if (cuts_.empty()) return {};
    return peers_ ? "memory" : obstacle_.empty() ? "messages" : "messages (" + obstacle_ + ")";
  }

private:
  template <class T>
  using HostArray = Kokkos::View<T*, std::conditional_t<kOnHost<ExecutionSpace>, typename ExecutionSpace::memory_space,
                                                        Kokkos::SharedHostPinnedSpace>>;
  using Peers = PeerArrays<ExecutionSpace, Scalar>;
  /// What has happened to a bundle in this step: nothing or everything; its sums are on their way to where others get
  /// them; their messages travel; its own part is stepped, on the way to where others get it; messages travel.
  enum class Phase { computed, packed, sums_travel, stepped, weights_travel };

  /// Memory for what travels, and for `size` sums that come.
  void open_ways(std::size_t size) {
    if (received_.size() < size)
      received_ = Sums(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("varve::received_sums")), size);
    if (reads_peers_) open_peers();
    if (reads_peers_) return;
    marks_.resize(phases_.size());
    if (received_h_.size() != received_.size() || kOnHost<ExecutionSpace>) received_h_ = on_host(received_);
    if (weights_h_.size() == 0) take_arrays();
  }

  /// Opens the arrays of the other ranks, with room for the subtrees of each rank, unless they are open.
  void open_peers() {
    std::size_t most = 1;
    for (std::size_t rank = 0; rank < exchange_->num_ranks(); ++rank) most = std::max(most, num_subtrees(rank));
    if (peers_ && peers_->sizes().num_subtrees >= most) return;
    peers_.reset(); // memory is freed before more is taken
    auto const& last = weights_->parts().bundles().back();
    peers_ = Peers::open(
        *exchange_,
        {last.first_sum() + last.num_sums(), weights_->num_edges(), weights_->num_outputs(), phases_.size(), most},
        obstacle_);
    reads_peers_ = peers_ != nullptr;
  }

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

  template <class To, class From>
  static void copy_span(ExecutionSpace const& space, To const& to, From const& from, std::size_t first,
                        std::size_t count) {
    if (count > 0) Kokkos::deep_copy(space, span(to, first, count), span(from, first, count));
  }

  /// Copies numbers between an array and its memory on the host; nothing to do on CPUs. Does not fence.
  template <class To, class From>
  void mirror(To const& to, From const& from, std::size_t first, std::size_t count) const {
    if constexpr (!kOnHost<ExecutionSpace>) copy_span(lane_, to, from, first, count);
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

  /// Takes up what is over. Returns true if anything was. Does not fence.
  bool poll() {
    bool has_news = false;
    for (std::size_t bundle = phases_.size(); bundle-- > 0;)
      while (advance(bundle)) has_news = true;
    return has_news;
  }

  /// Brings a bundle to its next phase if what it waits for is over.
  bool advance(std::size_t bundle) {
    auto& phase = phases_[bundle];
    switch (phase) {
    case Phase::packed:
      if (!is_sent(bundle)) return false;
      start_sums(bundle);
      phase = Phase::sums_travel;
      return true;
    case Phase::sums_travel:
      if (!exchange_->is_over(sums_of(bundle))) return false;
      step(bundle);
      phase = Phase::stepped;
      return true;
    case Phase::stepped:
      if (!is_sent(bundle)) return false;
      start_weights(bundle);
      phase = Phase::weights_travel;
      return true;
    case Phase::weights_travel:
      if (!exchange_->is_over(weights_of(bundle))) return false;
      take_weights(bundle);
      phase = Phase::computed;
      return true;
    case Phase::computed:
      break;
    }
    return false;
  }

  /// True if messages about what the bundle's phase copies may be sent: others wait for marks of peers themselves.
  bool is_sent(std::size_t bundle) const { return peers_ || marks_[bundle].is_reached(); }

  /// Adds the sums of all ranks for the own part of a bundle, takes its step and copies the new weights for the others.
  void step(std::size_t bundle) {
    auto const part = own_part(bundle);
    std::size_t const num_sums = part.num_sums();
    std::size_t const begin = place_of(bundle, 0);
    for (std::size_t other = 0; other < exchange_->num_ranks(); ++other) {
      if (peers_) peers_->sums_mark(other, bundle).hold_back(lane_);
      for (std::size_t subtree = first_subtree_[other]; subtree < first_subtree_[other + 1]; ++subtree) {
        std::size_t const place = place_of(bundle, subtree);
        std::size_t const of_rank = subtree - first_subtree_[other];
        auto const take = [&](auto const& sums) {
          if (num_sums > 0)
            Kokkos::deep_copy(lane_, span(received_, place, num_sums), span(sums, part.first_sum, num_sums));
        };
        if (other == rank()) {
          take(own_sums_[of_rank]);
        } else if (peers_) {
          take(peers_->sums(other, of_rank));
        } else {
          mirror(received_, received_h_, place, num_sums);
        }
      }
    }
    auto const sums = span(received_, begin, first_subtree_.back() * num_sums);
    add_subtrees(lane_,
                 AddSubtrees<ExecutionSpace, Scalar>{sums, merges_, static_cast<int>(first_subtree_.back()), num_sums});
    weights_->step_part(lane_, bundle, sums);
    if (peers_) {
      copy_span(lane_, peers_->weights(rank()), weights_->weights(), part.first_edge, part.num_edges());
      copy_span(lane_, peers_->bias(rank()), weights_->bias(), part.first_output, part.num_outputs());
      peers_->weights_mark(rank(), bundle).set(lane_);
    } else {
      mirror(weights_h_, weights_->weights(), part.first_edge, part.num_edges());
      mirror(bias_h_, weights_->bias(), part.first_output, part.num_outputs());
      marks_[bundle].set(lane_);
    }
  }

  /// Takes the new weights of the other ranks' parts of a bundle.
  void take_weights(std::size_t bundle) {
    for (std::size_t other = 0; other < exchange_->num_ranks(); ++other) {
      if (other == rank()) continue;
      auto const part = weights_->parts().part(bundle, other);
      if (peers_) {
        peers_->weights_mark(other, bundle).hold_back(lane_);
        copy_span(lane_, weights_->weights(), peers_->weights(other), part.first_edge, part.num_edges());
        copy_span(lane_, weights_->bias(), peers_->bias(other), part.first_output, part.num_outputs());
      } else {
        mirror(weights_->weights(), weights_h_, part.first_edge, part.num_edges());
        mirror(weights_->bias(), bias_h_, part.first_output, part.num_outputs());
      }
    }
    weights_->take_others(lane_, bundle);
  }

  void start_sums(std::size_t bundle) {
    std::vector<RankBytes> sent;
    std::vector<RankBytes> received;
    for (std::size_t other = 0; other < exchange_->num_ranks(); ++other) {
      if (other == rank()) continue;
      auto const part = weights_->parts().part(bundle, other);
      for (std::size_t own = 0; own < num_subtrees(rank()); ++own) {
        if (peers_) {
          append(sent, other, peers_->sums(rank(), own), part.first_sum, part.num_sums());
        } else {
          append(sent, other, sums_h_[own], part.first_sum, part.num_sums());
        }
      }
      for (std::size_t subtree = first_subtree_[other]; !peers_ && subtree < first_subtree_[other + 1]; ++subtree)
        append(received, other, received_h_, place_of(bundle, subtree), own_part(bundle).num_sums());
    }
    start(sums_of(bundle), sent, received);
  }

  void start_weights(std::size_t bundle) {
    std::vector<RankBytes> sent;
    std::vector<RankBytes> received;
    auto const own = own_part(bundle);
    auto const append_from = [&](auto const& weights, auto const& bias, std::size_t other) {
      append(sent, other, weights, own.first_edge, own.num_edges());
      append(sent, other, bias, own.first_output, own.num_outputs());
    };
    for (std::size_t other = 0; other < exchange_->num_ranks(); ++other) {
      if (other == rank()) continue;
      if (peers_) {
        append_from(peers_->weights(rank()), peers_->bias(rank()), other);
        continue;
      }
      append_from(weights_h_, bias_h_, other);
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

  void start(int number, std::vector<RankBytes> sent, std::vector<RankBytes> received) {
    for (auto const& piece : sent) bytes_ += static_cast<double>(piece.size);
    if (peers_) { // every rank hears of every mark, also of those behind nothing: marks keep a step after the one
                  // before
      sent.clear();
      received.clear();
      std::size_t const num_ranks = exchange_->num_ranks();
      bytes_of_messages_.resize(4 * phases_.size() * num_ranks);
      std::byte* const of_number = bytes_of_messages_.data() + 2 * static_cast<std::size_t>(number) * num_ranks;
      for (std::size_t other = 0; other < num_ranks; ++other) {
        if (other == rank()) continue;
        sent.push_back({other, of_number + other, 1});
        received.push_back({other, of_number + num_ranks + other, 1});
      }
    }
    exchange_->start(number, sent, received);
  }

  GradientExchange* exchange_;
  Weights* weights_;
  bool reads_peers_;
  std::string obstacle_;
  UrgentSpace<ExecutionSpace> urgent_;
  ExecutionSpace const& lane_ = urgent_.get(); ///< runs what ranks share
  std::unique_ptr<Peers> peers_;
  std::vector<std::byte> bytes_of_messages_;    ///< with peers: [number][sent, received][rank]
  std::vector<WorkMark<ExecutionSpace>> marks_; ///< without peers: by bundle, behind copies to the host
  WorkMark<ExecutionSpace> computed_, end_of_step_;
  HostArray<Scalar> weights_h_;
  HostArray<double> bias_h_;
  std::vector<std::size_t> cuts_;
  std::vector<std::size_t> first_subtree_; ///< of each rank among all subtrees; then the number of subtrees
  DeviceArray<ExecutionSpace, int> merges_;
  Sums received_; ///< sums for the own parts: [bundle][subtree][sum]
  HostArray<Scalar> received_h_;
  std::vector<std::size_t> place_of_bundle_; ///< in received_
  std::vector<Sums> own_sums_;               ///< of own subtrees
  std::vector<HostArray<Scalar>> sums_h_;    ///< by place in the stack of sums
  std::vector<Phase> phases_;                ///< of the bundles
  double seconds_ = 0.0, seconds_before_ = 0.0, wait_seconds_ = 0.0, bytes_ = 0.0;
};

} // namespace varve
