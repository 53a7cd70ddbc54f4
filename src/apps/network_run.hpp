#pragma once

#include "apps/report.hpp"
#include "engine/inference.hpp"
#include "network/network.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace varve {

/// Summary of repeated measurements of one time, in seconds.
struct Timings {
  double median = 0.0;
  double spread = 0.0; ///< interquartile range divided by the median
};

/// The value below which this part (0 to 1) of the measurements lies, by linear interpolation. `sorted` is ascending
/// and not empty.
double quantile(std::vector<double> const& sorted, double part);

/// Summarizes at least one measurement.
Timings summarize(std::vector<double> seconds);

/// How an answer was judged before anything was timed.
struct AnswerCheck {
  bool is_right = false;
  std::string way;             ///< a sentence: what it was compared with, and what was equal
  std::size_t num_checked = 0; ///< samples that were compared
};

/// Timed runs of all samples through a network that is prepared in one way.
class NetworkRun {
public:
  /// Prepares the network. `options`: all that is computed with, with memory limits. Both references must outlive the
  /// object. Throws what prepare() and plan() throw.
  NetworkRun(NetworkSource const& network, SampleBatch const& samples, InferenceOptions options);

  /// Takes the device memory of what is prepared from `memory_left`, in bytes. If that is too little, the network is
  /// prepared anew for each run from now on.
  void stay_within(std::size_t& memory_left);

  /// Runs all samples and returns the seconds in the layer loop, which are kept. Throws ResourceError if the answer
  /// differs from that of an earlier run.
  double run();

  /// Compares the answer with that of plain loops, and warms up; no time of these runs is kept. `most`: samples to
  /// compare at most; 0: as many as plain loops compute in a few seconds.
  AnswerCheck check(std::size_t most);

  /// Forgets the times so far.
  void begin_timing();

  /// Of all runs since: seconds in the layer loop, from fence to fence, and from handing over the samples until the
  /// results were on the host.
  std::vector<double> const& loop_seconds() const { return loop_seconds_; }
  std::vector<double> const& call_seconds() const { return call_seconds_; }

  Backend backend() const { return options_.backend; }
  std::uint64_t activation_hash() const { return *activation_hash_; } ///< after run() only

  /// True if both compute the same, but for orders of sums.
  bool has_terms_of(NetworkRun const& other) const;

  /// Adds what was run to a record, with the steps of the plan in one more run, in which each launch is traced.
  void describe(Json& record);

private:
  void prepare_it();
  Inference& inference();
  AnswerCheck judge(std::size_t most);
  Json steps();

  NetworkSource const& network_;
  SampleBatch const& samples_;
  InferenceOptions options_;
  std::unique_ptr<Inference> inference_;
  std::size_t device_bytes_ = 0;
  double prepare_seconds_ = 0.0;
  bool stays_ = true;
  std::optional<std::uint64_t> activation_hash_;
  std::size_t num_live_ = 0;
  double live_edges_ = 0.0; ///< fma of a run: edges after reductions times samples
  std::vector<double> loop_seconds_, call_seconds_;
};

/// The options with the memory limits that they lack, for a network that is alone in memory: call it before the first
/// network is prepared, so that each is planned as if it were alone.
InferenceOptions with_memory_limits(InferenceOptions engine);

/// The most device memory that several prepared networks may take together, in bytes.
std::size_t memory_of_field(Backend backend);

/// Times every network in rounds, one run of each: `repeats` rounds at least, and until `seconds` have passed for each,
/// up to 1000 rounds. So other load on the machine slows all of them alike.
void measure_in_turn(std::vector<NetworkRun*> const& field, std::size_t repeats, double seconds);

} // namespace varve
