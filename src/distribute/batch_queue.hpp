#pragma once

#include "distribute/communicator.hpp"
#include "distribute/shared_counters.hpp"
#include "io/sample_range.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// How samples are shared by the ranks.
enum class Schedule {
  fixed,   ///< every rank has its part from the start ("static")
  dynamic, ///< every rank takes its next batch from the queue when it is ready for it
  together ///< all ranks take each batch together: of their samples each computes some neurons
};

/// "static", "dynamic" or "together".
std::string to_string(Schedule schedule);

/// The schedule "static" or "dynamic". Throws UsageError naming both.
Schedule parse_schedule(std::string const& name);

/// The *grain*: batches begin and end at multiples of so many samples (or at the last sample). It depends on nothing
/// but the number of samples, so a journal fits any number and kind of ranks. A thousandth of the samples, and in
/// larger inputs whole tiles.
SampleIndex grain_of(SampleIndex num_samples);

/// The samples of [0, num_samples) that lie in no finished range, in order. Throws InputError if two ranges overlap or
/// one lies outside.
std::vector<SampleRange> left_over(SampleIndex num_samples, std::vector<SampleRange> finished);

/// How large the batches of one rank may be.
struct BatchRules {
  Schedule schedule = Schedule::dynamic;
  SampleIndex grain = 1;
  bool one_grain = false; ///< every batch is one grain: the user has chosen it
  SampleIndex most = 1;   ///< that this rank takes at a time
  std::optional<double>
      most_seconds; ///< that a batch may take, by the speed of the batches before; the first is one grain
};

/// What a rank knows when it takes a batch from the shared queue; speeds in samples per second.
struct QueueState {
  SampleIndex remaining = 0;
  std::size_t num_ranks = 1;
  double own_speed = 0.0;     ///< 0 before the first batch
  double known_speeds = 0.0;  ///< of all ranks that have finished a batch, together
  std::size_t num_known = 0;  ///< how many those are
  SampleIndex last_batch = 0; ///< size of this rank's last one
};

/// How many samples this rank should take: half of its share, by speed, of what remains (weighted factoring: Hummel,
/// Schmidt, Uma and Wein, "Load-sharing in heterogeneous systems via weighted factoring", 1996), so batches shrink
/// towards the end and all ranks finish together, whatever their speeds. Not less than one grain and, so that
/// launching does not cost more than computing, a few hundredths of a second; not more than four times the last batch,
/// for a small one says little of the speed of a large one. A multiple of the grain.
SampleIndex next_batch_size(QueueState const& state, BatchRules const& rules);

/// True if the other ranks finish all that remains before this rank could finish one grain: it does best to leave.
bool is_too_slow(QueueState const& state, BatchRules const& rules);

/// The samples still to be run, shared by all ranks. No rank serves the others (see SharedCounters).
class BatchQueue {
public:
  /// Collective, as the destructor. All ranks give the same ranges, from left_over.
  BatchQueue(Communicator const& communicator, std::vector<SampleRange> ranges, BatchRules rules);

  /// This rank's next batch: neighbouring samples that no other rank gets; nothing if none are left, the queue was
  /// stopped, or the others are done sooner without this rank. Where all work together it is collective, and all get
  /// the batch that rank 0 takes.
  std::optional<SampleRange> next();

  /// Says how long this rank took for a batch: later ones are sized by it.
  void finished(SampleIndex num_samples, double seconds);

  /// True if this rank does well to take another batch although it has not finished those it took. One runs, the next
  /// is brought to the device, and the one behind it is read; but where other ranks may take that one, it is left to
  /// them, and where the first one's time decides how large the next is, it is waited for.
  bool may_look_ahead() const { return num_unfinished_ < most_unfinished(); }

  /// Nobody gets a batch any more.
  void stop();

  /// Samples that ranks have taken, as this rank saw it last (its own alone in a static schedule).
  SampleIndex num_taken() const { return num_taken_; }

private:
  std::size_t most_unfinished() const;
  std::optional<SampleRange> take_together();
  std::optional<SampleRange> take();
  std::optional<SampleRange> take_from_part();
  std::optional<SampleRange> take_from_queue();
  std::optional<SampleRange> keep_rest(SampleIndex first, SampleIndex last);
  bool leaves();
  QueueState state();

  Communicator communicator_;
  std::vector<SampleRange> ranges_;
  std::vector<SampleIndex> places_; ///< of the first sample of each range in the queue, and of its end
  BatchRules rules_;
  SharedCounters counters_;
  SampleRange part_;              ///< static: places of this rank that are left
  std::vector<SampleRange> rest_; ///< taken, not handed out yet: what lay behind a gap, last first
  SampleIndex num_taken_ = 0;
  std::size_t num_unfinished_ = 0; ///< batches that were taken
  SampleIndex last_batch_ = 0;
  double speed_ = 0.0;              ///< of the last batch, in samples per second
  std::uint64_t counted_speed_ = 0; ///< the same as it went into the common sum
};

} // namespace varve
