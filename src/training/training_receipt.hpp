#pragma once

#include "core/version.hpp"
#include "network/loss.hpp"
#include "network/network.hpp"
#include "network/optimizer.hpp"
#include "network/sample_set.hpp"
#include "receipts/digests.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace varve {

/// What the file of such a receipt calls itself.
inline constexpr char const* kTrainingReceipt = "varve training receipt";

/// The digests of a training after some steps. Where two runs differ, those of all later steps differ too.
struct TrainingState {
  std::uint64_t step = 0;      ///< number of steps taken
  Digest order{};              ///< of the rows of the mini-batches of all steps
  std::vector<Digest> weights; ///< by layer: edges, weights and biases
  std::vector<Digest> moments; ///< by layer: moments of the optimizer
};

/// What binds a training to its network, data and recipe: anybody who has them and the state after some recorded step
/// can compute the steps up to the next one again, anywhere, and compare (docs/audit.md). Runs that give the same bits
/// give the same bound part.
struct TrainingReceipt {
  /// The bound part.
  int numerics = kNumerics;
  Digest network{};              ///< before the first step
  Digest inputs{};               ///< root over all samples
  Digest answers{};              ///< answers_digest()
  nlohmann::ordered_json recipe; ///< to_json(Recipe, number of samples)
  std::uint64_t every = 0;       ///< a state is recorded after every so many steps, and after the last one
  Digest root{};                 ///< over all states
  Digest result{};               ///< digest of the network after the last step

  /// Not bound, or bound by the root.
  std::vector<TrainingState> states;
  Digest order{};                 ///< after the steps so far
  nlohmann::ordered_json made_by; ///< program, version, date, backend; for readers alone
  Digest digest{};                ///< of the bound part, as a file states it

  /// Adds a step with a mini-batch of these rows.
  void add_step(std::span<std::uint64_t const> rows) { order = order_digest(order, rows); }
  /// Adds the state after so many steps, unless it is recorded already.
  void add_state(std::uint64_t step, Network const& present, OptimizerState const& moments);
  std::uint64_t num_steps() const { return states.empty() ? 0 : states.back().step; }
};

/// The receipt of a training before its first step. network: the digest of the network that it begins with.
TrainingReceipt begin_receipt(Digest const& network, SampleSet const& samples, Answers const& answers,
                              std::string const& recipe, std::uint64_t every);

/// The bound part as JSON: keys in a fixed order.
nlohmann::ordered_json bound_part(TrainingReceipt const& receipt);

/// The content of a file of the receipt, whose root, result and digest are computed from its states. Checkpoints hold
/// that of the steps so far.
std::string to_json(TrainingReceipt receipt);

/// Parses the JSON of such a file. Throws InputError "PLACE: ..." if it is something else.
TrainingReceipt training_receipt_of(nlohmann::ordered_json const& json, std::string const& place);

/// Lets a receipt that has just begun go on with the states in a checkpoint of this name, whose receipt is `text`.
/// Throws InputError if the checkpoint holds none, or that of another training or of other recorded steps.
void resume(TrainingReceipt& receipt, std::string const& text, std::string const& checkpoint);

/// What contradicts itself in a receipt, so that somebody must have altered it: one sentence each.
std::vector<std::string> contradictions(TrainingReceipt const& receipt);

/// What differs between two states after the same step, as "weights of layer 7"; empty if nothing does.
std::string difference(TrainingState const& left, TrainingState const& right);

/// What differs between two receipts, one sentence each: the first recorded step and the first layer that differ, found
/// by bisection, included. None if they are of the same training.
std::vector<std::string> differences(TrainingReceipt const& left, TrainingReceipt const& right);

/// Where a folder keeps the checkpoint after a step.
std::filesystem::path checkpoint_of_step(std::filesystem::path const& folder, std::uint64_t step);

} // namespace varve
