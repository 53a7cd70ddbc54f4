#pragma once

#include "held_network.hpp"
#include "process.hpp"

#include "engine/inference.hpp"
#include "network/sample_set.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve::python {

/// Takes the nonzero activations [samples, outputs] of a batch, whose first sample is row `first` of the call.
using ActivationSink = std::function<void(std::size_t first, SampleSet const& activations)>;

/// What one call asks for.
struct Wanted {
  bool activations = false;
  bool predictions = false;
  ActivationSink sink = {}; ///< if given, it gets the activations, batch by batch, and the outcome has none
};

/// The results of all samples of a call.
struct Outcome {
  std::vector<std::int64_t> live_samples; ///< numbers from 0, ascending
  std::uint64_t activation_hash = 0;
  SampleSet activations;                 ///< if wanted: the nonzero activations [samples, outputs]
  std::vector<std::int64_t> predictions; ///< if wanted: per sample the output of the largest activation
  double loop_seconds = 0.0;             ///< time in the layer loop
};

/// Called after each batch with the number of samples done and of all samples.
using Progress = std::function<void(std::size_t done, std::size_t total)>;

/// A network prepared for one backend, kept warm between calls. Prepared on first use.
class Engine final : public HoldsViews {
public:
  Engine(HeldNetwork const& network, InferenceOptions options);
  ~Engine() override { close_in_turn(); }

  /// Runs samples in batches that take about a second at most, so that Ctrl-C and progress need not wait longer. Call
  /// it without the GIL. Throws InputError if the samples do not fit the network, and what prepare() and Turn() throw.
  Outcome run(SampleSet samples, Wanted const& wanted, Progress const& progress);

  /// Runs dense samples [samples, inputs] and writes all last activations [samples, outputs], both in memory that the
  /// device of the backend reads and writes, without a copy. They must not overlap, and hold numbers of the precision.
  /// The outcome has neither activations nor predictions. Call it without the GIL. Throws as run() does, UsageError if
  /// the engine is one that cannot do so.
  Outcome run_in_place(DeviceInput const& samples, DeviceOutput const& activations, Progress const& progress);

  /// The lines of the plan for such an input. Call it without the GIL.
  std::vector<std::string> plan_lines(InputShape const& input);

  void close() override { inference_.reset(); }

  Precision precision() const { return options_.precision; }
  Backend backend() const { return options_.backend; }
  std::size_t num_outputs() const { return num_outputs_; }

private:
  void lose() override { static_cast<void>(inference_.release()); }

  Inference& prepared();
  /// Throws InputError unless samples of this width fit the network.
  void require_width(std::size_t num_neurons) const;
  /// Calls plan(first, end) and run(first, last) for parts of samples; plan says how far the next batch goes, and end
  /// is where it goes at most. Between batches runs signal handlers.
  template <class Plan, class Run>
  void in_batches(std::size_t num_samples, Progress const& progress, Plan const& plan, Run const& run);
  /// Plans for an input unless the present plan is for one at least as large and of the same kind.
  void plan_for(InputShape const& input);

  std::shared_ptr<InterruptibleNetwork> network_;
  std::size_t num_inputs_, num_outputs_;
  InferenceOptions options_;
  std::unique_ptr<Inference> inference_;
  std::optional<InputShape> planned_;
};

} // namespace varve::python
