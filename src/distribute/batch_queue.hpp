#pragma once

#include "distribute/communicator.hpp"
#include "io/sample_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// Words on rank 0 that all ranks of a job read and change atomically, without a serving rank: MPI_Fetch_and_op on
/// memory of rank 0; plain numbers if there is one rank. They start at 0.
///
/// Rank 0 need not be inside MPI while others change a word. On one host the memory is shared and the others
/// change it themselves (tests/distribute checks this). Between hosts the network card does it if it has remote atomics
/// (InfiniBand, Slingshot); otherwise an operation waits until that rank is inside MPI again, at the latest when it
/// takes its own next work or waits for the others.
class SharedWords {
public:
  /// Collective, as is the destructor.
  SharedWords(Communicator const& communicator, std::size_t num_words);
  ~SharedWords();
  SharedWords(SharedWords const&) = delete;
  SharedWords& operator=(SharedWords const&) = delete;

  /// Adds to a word and returns its previous value. Addition is modulo 2^64, so adding 2^64 - k subtracts k.
  std::uint64_t add(std::size_t word, std::uint64_t number);
  std::uint64_t read(std::size_t word) { return add(word, 0); }

private:
  struct Window;
  std::unique_ptr<Window> window_;
};

/// How the samples are divided among the ranks.
enum class Schedule {
  fixed,   ///< every rank has a fixed part from the start; the option value is "static"
  dynamic, ///< every rank takes its next batch from a shared queue when it is ready for one
  together ///< all ranks compute every batch together; each rank computes some neurons of all its samples
};

/// The name of a schedule: "static", "dynamic" or "together".
std::string to_string(Schedule schedule);

/// The schedule named "static" or "dynamic". Throws UsageError, which lists both, for other names.
Schedule parse_schedule(std::string const& name);

/// The *grain*, in samples: batches begin and end at multiples of the grain (or at the last sample). It is about a
/// thousandth of the samples, in larger inputs a multiple of every tile width. It depends on the number of samples
/// only, so that a journal fits any number and kind of ranks.
SampleIndex grain_of(SampleIndex num_samples);

/// The samples of [0, num_samples) outside all finished ranges, as ascending ranges. Throws InputError if two finished
/// ranges overlap or one lies outside.
std::vector<SampleRange> left_over(SampleIndex num_samples, std::vector<SampleRange> finished);

/// Limits for the batches of one rank.
struct BatchRules {
  Schedule schedule = Schedule::dynamic;
  SampleIndex grain = 1;
  bool one_grain = false; ///< true if the user chose the grain: then every batch is one grain
  SampleIndex most = 1;   ///< most samples that this rank may take at a time
  /// Longest time for a batch, in seconds, estimated from the speed of earlier batches; the first batch is one grain.
  std::optional<double> max_seconds;
  /// Samples below which the device of this rank is no longer busy; 0 on processors, which any batch keeps busy.
  SampleIndex least = 0;
  /// True if all ranks have devices of one kind: then their first batches need no trial of their speeds.
  bool are_alike = false;
};

/// What a rank knows when it takes a batch from the shared queue. Speeds are in samples per second.
struct QueueState {
  SampleIndex remaining = 0;
  SampleIndex taken = 0; ///< samples that ranks took before
  std::size_t num_ranks = 1;
  double own_speed = 0.0;     ///< speed of this rank; 0 before its first batch
  double known_speeds = 0.0;  ///< sum of the speeds of all ranks that have finished a batch
  std::size_t num_known = 0;  ///< number of ranks that have finished a batch
  SampleIndex last_batch = 0; ///< number of samples in this rank's last batch
};

/// The number of samples this rank should take: half of its share, by speed, of the remaining samples (weighted
/// factoring: Hummel, Schmidt, Uma and Wein, "Load-sharing in heterogeneous systems via weighted factoring", 1996), so
/// that batches shrink towards the end and all ranks finish together, whatever their speeds. At least one grain and a
/// few hundredths of a second, so that computing outweighs launching; at most four times the last batch, because the
/// speed of a small batch says little about that of a large one. A multiple of the grain.
///
/// Ranks that are alike need no such trial. They take the queue in rounds of half of what the beginning of the round
/// leaves, each its share of a round, so that all batches of a round are equal. The last round is all that is left: the
/// one after which a share would be less than `least`.
SampleIndex next_batch_size(QueueState const& state, BatchRules const& rules);

/// True if the other ranks would finish everything that remains before this rank could finish one grain, so that this
/// rank should leave.
bool is_too_slow(QueueState const& state, BatchRules const& rules);

/// The samples still to be run, shared by all ranks. No rank serves the others (see SharedWords).
class BatchQueue {
public:
  /// Collective, as is the destructor. All ranks must pass the same ranges, from left_over().
  BatchQueue(Communicator const& communicator, std::vector<SampleRange> ranges, BatchRules rules);

  /// This rank's next batch: consecutive samples that no other rank gets. Returns nullopt if no samples are left, the
  /// queue was stopped, or the other ranks will finish sooner without this rank. With Schedule::together the call is
  /// collective, and all ranks get the batch that rank 0 takes.
  std::optional<SampleRange> next();

  /// Reports the time this rank took for a batch; the sizes of later batches depend on it.
  void finished(SampleIndex num_samples, double seconds);
  /// The same if batches overlap: the samples per second that this rank has computed so far.
  void set_speed(double speed);

  /// True if this rank should take another batch before it has finished those it took. Up to three batches are in
  /// progress: one runs, the next is uploaded, and the one after that is read. If other ranks could take the third
  /// batch, it is left to them; if the size of the next batch depends on the time of the first, the rank waits for that
  /// time.
  bool may_look_ahead() const { return num_unfinished_ < max_unfinished(); }

  /// Stops the queue: no rank gets another batch.
  void stop();

  /// Samples taken by all ranks, as this rank last saw it; in a static schedule, those taken by this rank.
  SampleIndex num_taken() const { return num_taken_; }

private:
  std::size_t max_unfinished() const;
  std::optional<SampleRange> take_together();
  std::optional<SampleRange> take();
  std::optional<SampleRange> take_from_part();
  std::optional<SampleRange> take_from_queue();
  std::optional<SampleRange> keep_rest(SampleIndex first, SampleIndex last);
  bool leaves();
  QueueState state();

  Communicator communicator_;
  std::vector<SampleRange> ranges_;
  /// Position in the queue of the first sample of each range, followed by the end of the queue.
  std::vector<SampleIndex> places_;
  BatchRules rules_;
  SharedWords counters_;
  SampleRange part_; ///< queue positions left for this rank; the dynamic schedule does not use it
  /// Ranges taken but not yet handed out, last first: the rest of a batch that spans several ranges.
  std::vector<SampleRange> rest_;
  SampleIndex num_taken_ = 0;
  std::size_t num_unfinished_ = 0; ///< number of batches taken but not finished
  SampleIndex last_batch_ = 0;
  double speed_ = 0.0;              ///< speed of the last batch, in samples per second
  std::uint64_t counted_speed_ = 0; ///< the same speed as counted in speed_sum, in units of speed_unit
};

} // namespace varve
