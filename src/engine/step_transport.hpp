#pragma once

#include "core/device_memory.hpp"
#include "core/machine_memory.hpp"
#include "core/runtime.hpp"
#include "engine/rank_exchange.hpp"
#include "engine/step_shares.hpp"
#include "engine/trained_weights.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace varve {

/// Transports the sums of subtrees and the new weights of a step to other ranks.
///
/// Ranks of one machine read them directly from each other's memory (MachineMemory), unless ranks share a GPU: it
/// time-slices their processes, so work that waits for another rank would use up that rank's time slice. A message of
/// one byte says that the work that fills an array has been enqueued on a device; the reader's device then waits for
/// this work. Nothing is overwritten too early. An owner writes its new weights after it got the messages about all
/// sums of the step, and each rank enqueues those sums after its reads of the previous step. The passes of a rank write
/// new sums after all new weights, which their owners enqueue after their reads of the old sums.
///
/// Otherwise they are sent as messages: on CPUs directly from the arrays, on GPUs through pinned host memory. A mark
/// shows that the copies to this memory are complete.
template <class Scalar>
class StepTransport {
public:
  using Sums = DeviceNumbers<Scalar>;
  using Weights = TrainedWeights<Scalar>;

  /// All must outlive this object, whose destructor is collective unless an exception is in flight. `memory`: the
  /// memory of the weights. reads_peers: read the memory of other ranks if possible.
  StepTransport(DeviceMemory const& memory, RankExchange& exchange, StepShares const& shares, Weights& weights,
                bool reads_peers)
      : memory_(memory),
        exchange_(&exchange),
        shares_(&shares),
        weights_(&weights),
        reads_peers_(reads_peers),
        computed_(memory.new_mark()) {}
  ~StepTransport() { close_peers(); }
  StepTransport(StepTransport const&) = delete;
  StepTransport& operator=(StepTransport const&) = delete;

  /// Bytes of the memory that other ranks read: biases, weights, and the sums of each subtree.
  static std::size_t peer_bytes(std::size_t num_outputs, std::size_t num_edges, std::size_t num_sums,
                                std::size_t num_subtrees) {
    return num_outputs * sizeof(double) + (num_edges + num_subtrees * num_sums) * sizeof(Scalar);
  }

  /// Uses the present arrays of the weights, which have been replaced by others of the same sizes.
  void rebind_arrays() {
    if (peers_ || marks_.empty()) return;
    weights_h_ = on_host(weights_->weights());
    bias_h_ = on_host(weights_->bias());
  }

  /// Call when the subtrees of ranks have changed. Collective.
  void take_subtrees() {
    if (reads_peers_ && (!peers_ || peer_subtrees_ < shares_->max_subtrees())) open_peers();
    if (!peers_) make_room_for_messages();
    std::vector<Scalar const*> places;
    for (std::size_t bundle = 0; bundle < shares_->num_bundles(); ++bundle)
      for (std::size_t rank = 0; rank < shares_->num_ranks(); ++rank)
        for (std::size_t subtree = 0; subtree < shares_->num_subtrees(rank); ++subtree)
          places.push_back(peers_ ? peer_sums(rank, subtree).data() + shares_->own_part(bundle).first_sum
                                  : received_.data() + received_place(bundle, rank, subtree));
    places_ = new_copy(memory_, "varve::places_of_sums", places);
  }

  /// Makes own sums of a bundle ready for other ranks, after the work enqueued on `from`.
  void publish_sums(Stream const& from, Stream const& stream, std::size_t bundle, std::vector<Sums> const& own) {
    auto const& whole = shares_->bundle(bundle);
    if (peers_) {
      for (std::size_t subtree = 0; subtree < own.size(); ++subtree)
        copy_part(from, peer_sums(shares_->rank(), subtree), own[subtree], whole.first_sum(), whole.num_sums());
      sums_mark(shares_->rank(), bundle).set(from);
      return;
    }
    computed_->set(from);
    computed_->make_wait(stream);
    sums_h_.resize(own.size());
    for (std::size_t subtree = 0; subtree < own.size(); ++subtree) {
      if (memory_.is_host() || sums_h_[subtree].size() != own[subtree].size()) sums_h_[subtree] = on_host(own[subtree]);
      to_host(stream, sums_h_[subtree], own[subtree], whole.first_sum(), whole.num_sums());
    }
    marks_[bundle]->set(stream);
  }

  /// True if the copies of publish_sums() or publish_weights() for messages are complete.
  bool is_published(std::size_t bundle) const { return peers_ || marks_[bundle]->is_reached(); }

  /// The memory to send, and to receive into.
  RankMessages sums_messages(std::size_t bundle) {
    RankMessages messages;
    for (std::size_t other = 0; other < shares_->num_ranks(); ++other) {
      if (other == shares_->rank()) continue;
      auto const part = shares_->part(bundle, other);
      if (peers_) {
        auto const read = shares_->num_subtrees(shares_->rank()) * part.num_sums() * sizeof(Scalar);
        add_hints(messages, other, 2 * bundle, read);
        continue;
      }
      for (auto const& sums : sums_h_) append(messages.sent, other, sums, part.first_sum, part.num_sums());
      for (std::size_t subtree = 0; subtree < shares_->num_subtrees(other); ++subtree)
        append(messages.received, other, received_h_, received_place(bundle, other, subtree),
               shares_->own_part(bundle).num_sums());
    }
    return messages;
  }

  /// Addresses of the sums of all subtrees for the own part of a bundle, valid for work enqueued on `stream`
  /// afterwards. The messages about them must have arrived.
  DeviceNumbers<Scalar const*> sums(Stream const& stream, std::size_t bundle, std::vector<Sums> const& own) {
    auto const part = shares_->own_part(bundle);
    for (std::size_t rank = 0; rank < shares_->num_ranks(); ++rank) {
      if (peers_) sums_mark(rank, bundle).make_wait(stream);
      for (std::size_t subtree = 0; subtree < shares_->num_subtrees(rank) && !peers_; ++subtree) {
        auto const place = received_place(bundle, rank, subtree);
        if (rank != shares_->rank()) {
          to_device(stream, received_, received_h_, place, part.num_sums());
        } else if (part.num_sums() > 0) {
          stream.copy_on_device(received_.data() + place, own[subtree].data() + part.first_sum,
                                part.num_sums() * sizeof(Scalar));
        }
      }
    }
    auto const first = bundle * shares_->num_subtrees();
    return places_.part(first, first + shares_->num_subtrees());
  }

  /// Makes the new weights and biases of the own part ready for other ranks.
  void publish_weights(Stream const& stream, std::size_t bundle) {
    auto const part = shares_->own_part(bundle);
    if (peers_) {
      auto const rank = shares_->rank();
      copy_part(stream, peer_weights(rank), weights_->weights(), part.first_edge, part.num_edges());
      copy_part(stream, peer_bias(rank), weights_->bias(), part.first_output, part.num_outputs());
      weights_mark(rank, bundle).set(stream);
      return;
    }
    to_host(stream, weights_h_, weights_->weights(), part.first_edge, part.num_edges());
    to_host(stream, bias_h_, weights_->bias(), part.first_output, part.num_outputs());
    marks_[bundle]->set(stream);
  }

  RankMessages weights_messages(std::size_t bundle) {
    RankMessages messages;
    auto const own = shares_->own_part(bundle);
    for (std::size_t other = 0; other < shares_->num_ranks(); ++other) {
      if (other == shares_->rank()) continue;
      if (peers_) {
        add_hints(messages, other, 2 * bundle + 1,
                  own.num_edges() * sizeof(Scalar) + own.num_outputs() * sizeof(double));
        continue;
      }
      append(messages.sent, other, weights_h_, own.first_edge, own.num_edges());
      append(messages.sent, other, bias_h_, own.first_output, own.num_outputs());
      auto const part = shares_->part(bundle, other);
      append(messages.received, other, weights_h_, part.first_edge, part.num_edges());
      append(messages.received, other, bias_h_, part.first_output, part.num_outputs());
    }
    return messages;
  }

  /// Copies the new weights and biases of another rank's part to the arrays.
  void take_weights(Stream const& stream, std::size_t bundle, std::size_t other) {
    auto const part = shares_->part(bundle, other);
    if (peers_) {
      weights_mark(other, bundle).make_wait(stream);
      weights_->take_part(stream, part, peer_weights(other), peer_bias(other));
      return;
    }
    to_device(stream, weights_->weights(), weights_h_, part.first_edge, part.num_edges());
    to_device(stream, weights_->bias(), bias_h_, part.first_output, part.num_outputs());
    weights_->take_part(stream, part, weights_->weights(), weights_->bias());
  }

  /// See Training::exchange_way(); after take_subtrees().
  std::string way() const {
    return peers_ ? "memory" : obstacle_.empty() ? "messages" : "messages (" + obstacle_ + ")";
  }

private:
  /// Allocates memory for the present subtrees if all ranks can read each other's; else sets obstacle_ to the reason.
  void open_peers() {
    close_peers(); // memory is freed before more is allocated
    peer_subtrees_ = shares_->max_subtrees();
    auto const bytes = peer_bytes(weights_->num_outputs(), weights_->num_edges(), num_sums(), peer_subtrees_);
    peers_ = std::make_unique<MachineMemory>(
        memory_, exchange_->rank(), [&](std::string const& text) { return exchange_->gather(text); },
        MachineMemory::Sizes{.bytes = bytes, .num_marks = 2 * shares_->num_bundles()},
        memory_.is_host() ? "host" : "GPU");
    obstacle_.clear();
    for (auto const& text : exchange_->gather(first_obstacle()))
      if (obstacle_.empty()) obstacle_ = text;
    if (!obstacle_.empty()) close_peers(); // on all ranks
    reads_peers_ = peers_ != nullptr;
  }

  /// Why this rank cannot read the memory of all others; empty if it can.
  std::string first_obstacle() const {
    auto const& ranks = peers_->ranks();
    std::vector<std::string> devices;
    for (auto const& rank : ranks) devices.push_back(rank.device);
    if (auto const pair = first_repeated(devices))
      return "ranks " + std::to_string(pair->first) + " and " + std::to_string(pair->second) + " share a GPU";
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      if (!ranks[rank].obstacle.empty()) return "rank " + std::to_string(rank) + ": " + ranks[rank].obstacle;
    return {};
  }

  /// Frees the memory after all other ranks have detached from it. No kernel may use it any more.
  void close_peers() {
    if (!peers_) return;
    peers_->leave();
    if (std::uncaught_exceptions() == num_exceptions_) exchange_->gather(std::string());
    peers_.reset();
  }

  void make_room_for_messages() {
    if (marks_.empty()) {
      for (std::size_t bundle = 0; bundle < shares_->num_bundles(); ++bundle) marks_.push_back(memory_.new_mark());
      rebind_arrays();
    }
    if (received_.size() >= shares_->num_received()) return;
    received_ = {}; // memory is freed before more is allocated
    received_h_ = {};
    received_ = new_numbers<Scalar>(memory_, "varve::received_sums", shares_->num_received());
    received_h_ = on_host(received_);
  }

  std::size_t num_sums() const {
    auto const& last = weights_->parts().bundles().back();
    return last.first_sum() + last.num_sums();
  }
  std::size_t received_place(std::size_t bundle, std::size_t rank, std::size_t subtree) const {
    return shares_->place_of(bundle, shares_->first_subtree(rank) + subtree);
  }

  MachineMemory::OfRank const& peer(std::size_t rank) const { return peers_->ranks()[rank]; }
  DeviceNumbers<double> peer_bias(std::size_t rank) const {
    return {nullptr, reinterpret_cast<double*>(peer(rank).bytes->data()), weights_->num_outputs()};
  }
  Sums peer_weights(std::size_t rank) const {
    auto* const behind_bias = peer_bias(rank).data() + weights_->num_outputs();
    return {nullptr, reinterpret_cast<Scalar*>(behind_bias), weights_->num_edges()};
  }
  Sums peer_sums(std::size_t rank, std::size_t subtree) const {
    return {nullptr, peer_weights(rank).data() + weights_->num_edges() + subtree * num_sums(), num_sums()};
  }
  PeerMark& sums_mark(std::size_t rank, std::size_t bundle) const { return *peer(rank).marks[2 * bundle]; }
  PeerMark& weights_mark(std::size_t rank, std::size_t bundle) const { return *peer(rank).marks[2 * bundle + 1]; }

  /// One-byte messages to and from another rank, also about empty arrays: what a rank writes next may depend on the
  /// reads of all others. `read`: bytes that the other rank reads.
  void add_hints(RankMessages& messages, std::size_t other, std::size_t number, std::size_t read) {
    hints_.resize(4 * shares_->num_bundles() * shares_->num_ranks());
    auto* const first = hints_.data() + 2 * number * shares_->num_ranks();
    messages.sent.push_back({other, first + other, 1});
    messages.received.push_back({other, first + shares_->num_ranks() + other, 1});
    messages.bytes_read += static_cast<double>(read);
  }

  template <class Number>
  static void append(std::vector<RankBytes>& pieces, std::size_t rank, DeviceNumbers<Number> const& array,
                     std::size_t first, std::size_t count) {
    if (count > 0) pieces.push_back({rank, reinterpret_cast<std::byte*>(array.data() + first), count * sizeof(Number)});
  }

  /// Host memory for an array: on CPUs the array itself, else pinned memory of the same size.
  template <class Number>
  DeviceNumbers<Number> on_host(DeviceNumbers<Number> const& array) const {
    return memory_.is_host() ? array : numbers_in<Number>(memory_.allocate_on_host("varve::pinned", array.num_bytes()));
  }

  /// Copy numbers to the same places of another array: on the device, or between an array and its host memory, which is
  /// a no-op on CPUs. They do not fence.
  template <class Number>
  static void copy_part(Stream const& stream, DeviceNumbers<Number> const& to, DeviceNumbers<Number> const& from,
                        std::size_t first, std::size_t count) {
    if (count > 0) stream.copy_on_device(to.data() + first, from.data() + first, count * sizeof(Number));
  }
  template <class Number>
  void to_host(Stream const& stream, DeviceNumbers<Number> const& to, DeviceNumbers<Number> const& from,
               std::size_t first, std::size_t count) const {
    if (count > 0 && !memory_.is_host())
      stream.copy_to_host(to.data() + first, from.data() + first, count * sizeof(Number));
  }
  template <class Number>
  void to_device(Stream const& stream, DeviceNumbers<Number> const& to, DeviceNumbers<Number> const& from,
                 std::size_t first, std::size_t count) const {
    if (count > 0 && !memory_.is_host())
      stream.copy_to_device(to.data() + first, from.data() + first, count * sizeof(Number));
  }

  DeviceMemory const& memory_;
  RankExchange* exchange_;
  StepShares const* shares_;
  Weights* weights_;
  bool reads_peers_;
  std::string obstacle_;
  int num_exceptions_ = std::uncaught_exceptions();
  DeviceNumbers<Scalar const*> places_; ///< addresses of sums: [bundle][subtree]
  // for ranks that read each other's memory
  std::unique_ptr<MachineMemory> peers_; ///< with marks for the sums and weights of each bundle; null: messages
  std::size_t peer_subtrees_ = 0;        ///< most subtrees for whose sums there is room
  std::vector<std::byte> hints_;         ///< [bundle][sums, weights][sent, received][rank]
  // for messages
  Sums weights_h_;
  DeviceNumbers<double> bias_h_;
  Sums received_, received_h_;                     ///< sums for the own parts: [bundle][subtree][sum]
  std::vector<Sums> sums_h_;                       ///< [own subtree]
  std::vector<std::unique_ptr<StreamMark>> marks_; ///< [bundle]: set after the last copies to the host
  std::unique_ptr<StreamMark> computed_;
};

} // namespace varve
