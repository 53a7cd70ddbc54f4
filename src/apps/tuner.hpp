#pragma once

#include "apps/timings.hpp"
#include "engine/inference.hpp"
#include "network/network.hpp"
#include "network/sample_batch.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {

/// Options of varve infer that change its speed and not a bit of its answer; what is not set is left to the plan.
struct Alternative {
  std::optional<std::string> formats;
  std::optional<std::string> kernel;
  std::optional<std::size_t> batch;

  bool operator==(Alternative const&) const = default;
};

/// By name, as a tuning file holds them.
nlohmann::ordered_json as_json(Alternative const& alternative);

/// As on the command line.
std::string as_text(Alternative const& alternative);

/// What an alternative gave.
struct Trial {
  Alternative alternative;
  Timings loop;                      ///< the layer loop over all samples
  std::uint64_t activation_hash = 0; ///< of the last run
  std::string refusal;               ///< why it cannot run, or was not measured further; empty if it was
};

/// The same in runs as varve infer makes them, reading samples and keeping results while others are computed.
struct WholeRun {
  Timings loop;
  Timings all; ///< from taking the first batch until the last result was known
};

/// Both in turn, all left to the plan and the recommended alternative.
struct Confirmation {
  WholeRun defaults, best;
};

/// What to tune with.
struct TuningInput {
  NetworkSource const& network;
  SampleBatch const& samples;
  InferenceOptions options; ///< with memory limits: an alternative plans as if no other were in memory
  std::size_t repeat = 1;   ///< measurements of each
};

/// Tries alternatives on one network and input.
class Tuner {
public:
  using Report = std::function<void(Trial const&)>;

  /// Measures what the plan chooses. Throws what keeps that from running.
  Tuner(TuningInput const& input, Report report);

  /// Changes one option after the other, keeping a value that is clearly the fastest: far fewer trials than all
  /// combinations, and near the best of them. What was kept is recommended if it wins in whole runs as well.
  void search();

  Trial const& defaults() const { return trials_.front(); }
  /// The recommendation: all left to the plan, unless something is clearly faster.
  Alternative const& best() const { return best_; }
  std::vector<Trial> const& trials() const { return trials_; }
  /// How the recommendation won; nothing if all is left to the plan.
  std::optional<Confirmation> const& confirmation() const { return confirmation_; }
  /// The first trial whose activations differ from the first one's, if there is any.
  Trial const* contradiction() const;

private:
  class Contender;
  using Field = std::vector<std::unique_ptr<Contender>>;

  void compare(std::vector<Alternative> const& changed);
  std::unique_ptr<Contender> enter(Alternative const& alternative, double fastest, std::size_t& memory_left);
  void measure_in_turn(Field& field) const;
  void confirm();
  Confirmation run_whole(Alternative const& alternative) const;

  TuningInput input_;
  Report report_;
  std::vector<Trial> trials_;
  std::vector<Alternative> kept_; ///< the values that won so far, the last one on top of those before
  Alternative best_;
  std::optional<Confirmation> confirmation_;
};

} // namespace varve
