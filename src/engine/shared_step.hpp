#pragma once

#include "core/device_memory.hpp"
#include "core/machine_memory.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "engine/rank_exchange.hpp"
#include "engine/step_shares.hpp"
#include "engine/trained_weights.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
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
        copy(from, on_device, peer_sums(shares_->rank(), subtree), own[subtree], whole.first_sum(), whole.num_sums());
      sums_mark(shares_->rank(), bundle).set(from);
      return;
    }
    computed_->set(from);
    computed_->make_wait(stream);
    sums_h_.resize(own.size());
    for (std::size_t subtree = 0; subtree < own.size(); ++subtree) {
      if (memory_.is_host() || sums_h_[subtree].size() != own[subtree].size()) sums_h_[subtree] = on_host(own[subtree]);
      copy(stream, to_host, sums_h_[subtree], own[subtree], whole.first_sum(), whole.num_sums());
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
          copy(stream, to_device, received_, received_h_, place, part.num_sums());
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
      copy(stream, on_device, peer_weights(rank), weights_->weights(), part.first_edge, part.num_edges());
      copy(stream, on_device, peer_bias(rank), weights_->bias(), part.first_output, part.num_outputs());
      weights_mark(rank, bundle).set(stream);
      return;
    }
    copy(stream, to_host, weights_h_, weights_->weights(), part.first_edge, part.num_edges());
    copy(stream, to_host, bias_h_, weights_->bias(), part.first_output, part.num_outputs());
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
    copy(stream, to_device, weights_->weights(), weights_h_, part.first_edge, part.num_edges());
    copy(stream, to_device, weights_->bias(), bias_h_, part.first_output, part.num_outputs());
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

  static constexpr auto on_device = &Stream::copy_on_device;
  static constexpr auto to_host = &Stream::copy_to_host;
  static constexpr auto to_device = &Stream::copy_to_device;

  /// Copies numbers to the same places of another array, which may be the same one (on_host()). Does not fence.
  template <class Copy, class Number>
  static void copy(Stream const& stream, Copy copy, DeviceNumbers<Number> const& to, DeviceNumbers<Number> const& from,
                   std::size_t first, std::size_t count) {
    if (count > 0 && to.data() != from.data())
      (stream.*copy)(to.data() + first, from.data() + first, count * sizeof(Number));
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

/// The part of a training step that several ranks share. The owner of a part of a bundle (engine/step_shares.hpp) gets
/// the sums of all ranks' subtrees for it, adds them by the tree over leaves, steps its weights and gives the new
/// weights to all ranks (StepTransport), while earlier layers are computed. A device runs this work on a separate
/// instance, whose kernels have priority over those of the passes.
template <class Scalar>
class SharedStep {
public:
  using Sums = DeviceNumbers<Scalar>;
  using Weights = TrainedWeights<Scalar>;

  /// All must outlive this object, whose destructor is collective. `kernels`: the kernels of the weights' memory.
  /// reads_peers: read the memory of other ranks if possible.
  SharedStep(TrainingKernels<Scalar> const& kernels, RankExchange& exchange, Weights& weights, bool reads_peers)
      : kernels_(kernels),
        exchange_(&exchange),
        weights_(&weights),
        shares_(weights.parts(), exchange.rank()),
        transport_(kernels.memory(), exchange, shares_, weights, reads_peers) {}

  /// Uses the present arrays of the weights, which have been replaced by others of the same sizes.
  void rebind_arrays() { transport_.rebind_arrays(); }

  /// Begins a step in which rank r computes the leaves [cuts[r], cuts[r + 1]). Collective if the cuts have changed.
  void begin(std::vector<std::size_t> const& cuts) {
    phases_.assign(shares_.num_bundles(), Phase::computed);
    seconds_before_ = seconds_;
    if (cuts == shares_.cuts()) return;
    shares_.set_cuts(cuts);
    merges_ = new_copy(memory(), "varve::merges", std::vector<int>(shares_.merges().begin(), shares_.merges().end()));
    if (total_.size() == 0) total_ = new_numbers<Scalar>(memory(), "varve::sums_of_part", shares_.max_own_sums());
    transport_.take_subtrees();
  }

  /// Gives other ranks this rank's sums of a bundle, one array for each of its subtrees, and processes messages that
  /// have arrived. The arrays must not change until finish(). `from`: the stream of the kernels that compute the sums;
  /// it is not waited for.
  void send(Stream const& from, std::size_t bundle, std::vector<Sums> const& sums) {
    Stopwatch const time;
    own_sums_.assign(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(shares_.num_subtrees(shares_.rank())));
    transport_.publish_sums(from, *stream_, bundle, own_sums_);
    phases_[bundle] = Phase::sums_left;
    poll();
    seconds_ += time.seconds();
  }

  /// Waits until the passes of this rank are done and all weights are stepped; on a GPU, until the work for that has
  /// been enqueued, and work enqueued on `next` afterwards waits for it. All bundles must have been sent. Returns the
  /// duration of the passes, in seconds since the step began.
  template <class AreDone>
  double finish(Stream const& next, Stopwatch const& since_begin, AreDone const& passes_are_done) {
    std::optional<double> passes;
    bool is_over = false;
    while (!passes || !is_over) {
      Stopwatch const turn;
      if (!passes && passes_are_done())
        passes = since_begin.seconds() - (memory().is_host() ? seconds_ - seconds_before_ : 0.0);
      bool const has_news = poll();
      is_over = std::ranges::all_of(phases_, [](Phase phase) { return phase == Phase::computed; });
      if (has_news) {
        seconds_ += turn.seconds();
      } else {
        std::this_thread::yield();
        if (passes) wait_seconds_ += turn.seconds();
      }
    }
    end_of_step_->set(*stream_);
    end_of_step_->make_wait(next);
    return *passes;
  }

  /// Host seconds for messages, sums and steps of own parts.
  double seconds() const { return seconds_; }
  /// Seconds after the passes in which nothing arrived from other ranks.
  double wait_seconds() const { return wait_seconds_; }
  /// Bytes that other ranks received.
  double bytes() const { return bytes_; }
  /// See Training::exchange_way().
  std::string way() const { return shares_.cuts().empty() ? std::string() : transport_.way(); }

private:
  /// State of a bundle in this step: computed, before and after the exchange; its sums are being copied for other
  /// ranks; messages about them are in flight; the same two states for the new weights.
  enum class Phase { computed, sums_left, sums_travel, weights_left, weights_travel };

  DeviceMemory const& memory() const { return kernels_.memory(); }

  static int sums_of(std::size_t bundle) { return static_cast<int>(2 * bundle); }        ///< number of a transfer
  static int weights_of(std::size_t bundle) { return static_cast<int>(2 * bundle + 1); } ///< number of a transfer

  /// Advances bundles whose copies or messages are complete. Returns true if there were any. Does not fence.
  bool poll() {
    bool has_news = false;
    for (std::size_t bundle = phases_.size(); bundle-- > 0;)
      while (advance(bundle)) has_news = true;
    return has_news;
  }

  /// Moves a bundle to its next phase if the present one is complete.
  bool advance(std::size_t bundle) {
    auto& phase = phases_[bundle];
    switch (phase) {
    case Phase::sums_left:
      if (!transport_.is_published(bundle)) return false;
      start(sums_of(bundle), transport_.sums_messages(bundle));
      phase = Phase::sums_travel;
      return true;
    case Phase::sums_travel:
      if (!exchange_->is_over(sums_of(bundle))) return false;
      step(bundle);
      phase = Phase::weights_left;
      return true;
    case Phase::weights_left:
      if (!transport_.is_published(bundle)) return false;
      start(weights_of(bundle), transport_.weights_messages(bundle));
      phase = Phase::weights_travel;
      return true;
    case Phase::weights_travel:
      if (!exchange_->is_over(weights_of(bundle))) return false;
      for (std::size_t other = 0; other < shares_.num_ranks(); ++other)
        if (other != shares_.rank()) transport_.take_weights(*stream_, bundle, other);
      phase = Phase::computed;
      return true;
    case Phase::computed:
      break;
    }
    return false;
  }

  /// Adds the sums of all ranks for the own part of a bundle, steps its weights and makes them ready for other ranks.
  void step(std::size_t bundle) {
    auto const sums = total_.part(0, shares_.own_part(bundle).num_sums());
    kernels_.add_subtrees(*stream_, transport_.sums(*stream_, bundle, own_sums_), merges_, sums);
    weights_->step_part(*stream_, bundle, sums);
    transport_.publish_weights(*stream_, bundle);
  }

  void start(int number, RankMessages const& messages) {
    bytes_ += messages.bytes_read;
    for (auto const& piece : messages.sent) bytes_ += static_cast<double>(piece.size);
    exchange_->start(number, messages.sent, messages.received);
  }

  TrainingKernels<Scalar> const& kernels_;
  RankExchange* exchange_;
  Weights* weights_;
  StepShares shares_;
  std::unique_ptr<Stream> stream_ =
      memory().independent_stream(StreamPriority::urgent); ///< runs the work that ranks share
  StepTransport<Scalar> transport_;
  std::unique_ptr<StreamMark> end_of_step_ = memory().new_mark();
  DeviceNumbers<int> merges_;
  Sums total_;                 ///< sums over all subtrees for the own part of a bundle
  std::vector<Sums> own_sums_; ///< sums of own subtrees
  std::vector<Phase> phases_;  ///< phases of the bundles
  double seconds_ = 0.0, seconds_before_ = 0.0, wait_seconds_ = 0.0, bytes_ = 0.0;
};

} // namespace varve
