#pragma once

#include "core/stopwatch.hpp"
#include "engine/rank_exchange.hpp"
#include "engine/step_shares.hpp"
#include "engine/step_transport.hpp"
#include "engine/trained_weights.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace varve {

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
