#pragma once

#include "apps/train_options.hpp"
#include "apps/train_samples.hpp"
#include "distribute/ranks.hpp"
#include "network/network.hpp"
#include "training/trainer.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace varve {

/// What `varve train` has done, for its report.
struct TrainSummary {
  std::vector<RankDevice> devices;  ///< of the ranks
  std::vector<TrainingTimes> times; ///< of the ranks
  std::string exchange_way;         ///< Training::exchange_way()
  std::string recipe;               ///< as JSON
  AnswerFiles files;                ///< of the samples that are trained with
  AnswerFiles validation_files;     ///< empty names if there is no validation
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
nlohmann::ordered_json train_report(TrainOptions const& options, TrainSummary const& summary);

} // namespace varve
