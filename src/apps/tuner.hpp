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

/// Options of `varve infer` that change its speed but no bit of its results. The plan chooses those that are not set.
struct Alternative {
  std::optional<std::string> formats;
  std::optional<std::string> kernel;
  std::optional<std::size_t> batch;

  bool operator==(Alternative const&) const = default;
};

/// The options by name, as in a tuning file.
nlohmann::ordered_json as_json(Alternative const& alternative);

/// The options as on the command line.
std::string as_text(Alternative const& alternative);

/// Measurements of each alternative without which none is recommended: the spread of fewer says nothing.
inline constexpr std::size_t least_repeats = 5;

/// The measurements of an alternative.
struct Trial {
  Alternative alternative;
  Timings loop;                      ///< time of the layer loop over all samples
  std::uint64_t activation_hash = 0; ///< hash of the activations of the last run
  std::string refusal;               ///< the reason why it cannot run or was not measured further; else empty
};

/// Times of whole runs, in which samples are read and results kept during computation, as in `varve infer`.
struct WholeRun {
  Timings loop; ///< time of the layer loop
  Timings all;  ///< time from taking the first batch until the last result was known
};

/// Whole runs of the defaults and of the recommended alternative, measured alternately.
struct Confirmation {
  WholeRun defaults, best;
};

/// The network, the samples and the options that are tuned.
struct TuningInput {
  NetworkSource const& network;
  SampleBatch const& samples;
  InferenceOptions options; ///< must have memory limits, so that an alternative plans as if it were alone in memory
  std::size_t repeat = 1;   ///< measurements of each alternative
};

/// Tries alternatives on one network and input.
class Tuner {
public:
  using Report = std::function<void(Trial const&)>;

  /// Measures the defaults, which the plan chooses. Throws what preparing or running them throws.
  Tuner(TuningInput const& input, Report report);

  /// Changes one option after the other and keeps a value if it is clearly the fastest. This takes far fewer trials
  /// than all combinations and comes near the best of them. Recommends the kept values if they win in whole runs as
  /// well. Keeps none with fewer measurements than least_repeats.
  void search();

  Trial const& defaults() const { return trials_.front(); }
  /// The recommendation; it has no option if nothing is clearly faster than the defaults.
  Alternative const& best() const { return best_; }
  std::vector<Trial> const& trials() const { return trials_; }
  /// The whole runs that confirmed the recommendation; nullopt if it has no option.
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
  std::vector<Alternative> kept_; ///< the winners so far; each has all options of those before it
  Alternative best_;
  std::optional<Confirmation> confirmation_;
};

} // namespace varve
