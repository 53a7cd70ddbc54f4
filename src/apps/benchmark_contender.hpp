#pragma once

#include "engine/inference.hpp"
#include "engine/launch_times.hpp"
#include "network/network.hpp"
#include "network/sample_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// One way to run a network: what is timed against others.
struct Setup {
  Backend backend = Backend::serial;
  std::string reductions = "auto"; ///< as --reductions takes it
  InferenceOptions options;        ///< all options, those above included; with memory limits
};

/// The times of one run of all samples.
struct RunTimes {
  double loop_seconds = 0.0; ///< in the layer loop, from fence to fence
  double call_seconds = 0.0; ///< from handing over the samples until the results were on the host
};

/// How an answer was judged before anything was timed.
struct ContenderVerdict {
  bool is_right = false;
  std::string way;             ///< a sentence: what it was compared with, and what was equal
  std::size_t num_samples = 0; ///< samples that were compared
};

/// A traced run: all launches of the first batch, each fenced.
struct TracedRun {
  Plan plan;
  std::vector<TracedSpan> spans;
  std::vector<std::size_t> step_samples; ///< samples before each step that ran
};

/// A network prepared in one way, with its measurements.
class BenchmarkContender {
public:
  /// Prepares the network. Both references must outlive the object. Throws what prepare() and plan() throw.
  BenchmarkContender(NetworkSource const& network, SampleBatch const& samples, Setup setup);

  Setup const& setup() const { return setup_; }
  Plan const& first_plan() const { return first_plan_; }
  Plan const& plan() { return inference().plan(); }
  double prepare_seconds() const { return prepare_seconds_; }
  std::size_t device_bytes() const;
  std::size_t num_samples() const { return samples_.num_samples(); }
  Inference& inference();

  /// Frees the memory after each run from now on, and prepares anew before the next one.
  void prepare_each_time();
  bool is_prepared_each_time() const { return !stays_; }

  /// Results of the first `count` samples by the plan that is timed.
  BatchResult first_results(std::size_t count);

  /// Runs all samples. Throws ResourceError if the answer differs from that of an earlier run.
  RunTimes run();
  /// Runs all samples and keeps the times.
  void measure();
  TracedRun trace();

  std::vector<RunTimes> const& times() const { return times_; }
  std::uint64_t activation_hash() const { return *activation_hash_; } ///< after run() only
  std::size_t num_live() const { return num_live_; }
  double live_edges() const { return live_edges_; } ///< fma of a run: edges after reductions times samples

private:
  void prepare_it();

  NetworkSource const& network_;
  SampleBatch const& samples_;
  Setup setup_;
  std::unique_ptr<Inference> inference_;
  Plan first_plan_;
  double prepare_seconds_ = 0.0;
  bool stays_ = true;
  std::vector<RunTimes> times_;
  std::optional<std::uint64_t> activation_hash_;
  std::size_t num_live_ = 0;
  double live_edges_ = 0.0;
};

/// Compares the contender's answer over the first samples, at most `most` of them, with that of the reference's plain
/// loops, bit for bit. Where reductions merge neurons, which may change last bits, an answer of other bits must have
/// the bits of another format and kernel on the Serial backend with the same reductions, and the reference's live
/// samples.
ContenderVerdict judge(BenchmarkContender& contender, NetworkSource const& network, SampleBatch const& samples,
                       std::size_t most);

} // namespace varve
