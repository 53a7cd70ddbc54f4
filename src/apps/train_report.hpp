#pragma once

#include "apps/report.hpp"
#include "apps/train_inputs.hpp"
#include "apps/train_options.hpp"
#include "core/stopwatch.hpp"
#include "distribute/ranks.hpp"
#include "network/network.hpp"
#include "training/trainer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace varve {

/// What `varve train` has done, for its report.
struct TrainSummary {
  std::vector<RankDevice> devices;  ///< of the ranks
  std::vector<TrainingTimes> times; ///< of the ranks
  std::vector<double>
      processor_waits;          ///< of the ranks: seconds without a free processor (longest_wait_for_processor())
  std::string exchange_way;     ///< Training::exchange_way()
  std::string recipe;           ///< as JSON
  AnswerFiles files;            ///< of the samples that are trained with
  AnswerFiles validation_files; ///< empty names if there is no validation
  TrainingPlan plan;
  std::uint64_t num_steps = 0;
  std::vector<EpochResult> epochs;    ///< finished by this run, without those before a resumed checkpoint
  std::vector<PatternRecord> changes; ///< of the pattern, carried out by this run
  std::size_t num_samples = 0;        ///< trained with in this run, repetitions included
  double seconds = 0.0;
  std::uint64_t weights_hash = 0;
  std::uint64_t best_epoch = 0; ///< the epoch (from 1) with the least validation loss; 0: none
  std::string stopped_by;       ///< "epochs" or "patience"

  /// Whether accuracies have a meaning.
  bool has_labels() const { return !files.labels.empty(); }
  bool has_validation_labels() const { return !validation_files.labels.empty(); }
};

/// The lines that say what will be trained, with what and where.
void print_head(TrainOptions const& options, Recipe const& recipe, TrainSummary const& summary, Network const& network,
                std::size_t num_samples);

/// With several ranks: the line that says how leaves and time were shared.
void print_ranks(TrainSummary const& summary);

/// The JSON report.
Json train_report(TrainOptions const& options, TrainSummary const& summary);

/// A line on a terminal (standard error) that says how far the present epoch is, how fast samples are trained with, and
/// how long all epochs will take; nothing if standard error is no terminal. It is removed before other lines are
/// printed.
class TrainProgress {
public:
  /// Training goes on after `num_taken` samples, repetitions in epochs included.
  TrainProgress(std::size_t samples_per_epoch, std::uint64_t num_epochs, double num_taken);
  ~TrainProgress() { clear(); }
  TrainProgress(TrainProgress const&) = delete;
  TrainProgress& operator=(TrainProgress const&) = delete;

  /// To be called after a step: `epoch` (from 0) has taken so many of its samples. Shows a line five times a second at
  /// most.
  void show(std::uint64_t epoch, std::size_t num_taken);

  /// Removes the line.
  void clear();

private:
  std::size_t samples_per_epoch_;
  double num_samples_; ///< of all epochs
  double num_before_;  ///< samples taken before this run
  Stopwatch time_;
  double last_seconds_ = 0.0; ///< when a line was shown last
  bool is_terminal_;
  bool is_shown_ = false;
};

} // namespace varve
