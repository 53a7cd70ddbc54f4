#include "apps/audit.hpp"
#include "apps/train_inputs.hpp"
#include "apps/train_options.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "training/checkpoint.hpp"
#include "training/recipe.hpp"
#include "training/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <random>
#include <utility>

namespace varve {
namespace {

/// The recorded state at the end of the steps that are computed again: the first one that is not before --step.
std::size_t state_to_audit(AuditOptions const& options, TrainingReceipt const& receipt) {
  auto const num_steps = receipt.num_steps();
  std::uint64_t step = 0;
  if (options.step.empty() || options.step == "random") {
    std::mt19937_64 random(options.seed ? *options.seed : std::random_device()());
    step = std::uniform_int_distribution<std::uint64_t>(1, num_steps)(random);
  } else {
    auto const* const end = options.step.data() + options.step.size();
    auto const parsed = std::from_chars(options.step.data(), end, step);
    if (parsed.ec != std::errc() || parsed.ptr != end || step == 0 || step > num_steps)
      throw UsageError(fmt::format("--step is '{}', expected random or a step from 1 to {}", options.step, num_steps));
  }
  auto const found = std::ranges::lower_bound(receipt.states, step, {}, &TrainingState::step);
  return static_cast<std::size_t>(found - receipt.states.begin());
}

/// The last of the first `count` states of which there is a checkpoint; nullopt if there is none.
std::optional<std::size_t> state_to_begin_with(AuditOptions const& options, TrainingReceipt const& receipt,
                                               std::size_t count) {
  if (options.checkpoints.empty()) return std::nullopt;
  while (count-- > 0)
    if (std::filesystem::exists(checkpoint_of_step(options.checkpoints, receipt.states[count].step))) return count;
  return std::nullopt;
}

/// True if network, samples and answers are those of the receipt; else prints what is not.
bool data_agree(AuditOptions const& options, TrainingReceipt const& receipt, Network const& network,
                AnsweredSamples const& data) {
  auto const begun =
      begin_receipt(network_digest(network), data.samples, data.answers, json_text(receipt.recipe), receipt.every);
  auto const answers = data.files.labels.empty() ? data.files.targets : data.files.labels;
  return print_difference(options.files.network,
                          begun.network == receipt.network ? "" : "it is not the network of the receipt") &&
         print_difference(options.files.input,
                          begun.inputs == receipt.inputs ? "" : "its samples are not those of the receipt") &&
         print_difference(answers,
                          begun.answers == receipt.answers ? "" : "its labels or targets are not those of the receipt");
}

/// Computes the states from `next` to `last` again, and compares each.
bool states_agree(AuditOptions const& options, TrainingReceipt const& receipt, Training& engine, Trainer& trainer,
                  std::size_t next, std::size_t last) {
  TrainingReceipt again;
  if (next > 0) again.order = receipt.states[next - 1].order;
  while (next <= last) {
    trainer.advance();
    again.add_step(trainer.last_rows());
    auto const& state = receipt.states[next];
    if (trainer.progress().num_steps < state.step) continue;
    again.add_state(state.step, engine.network(), engine.state());
    auto const differs = difference(again.states.back(), state);
    if (!differs.empty()) {
      auto const first = next == 0 ? 1 : receipt.states[next - 1].step + 1;
      return print_difference(options.receipt, fmt::format("it has other {} after step {} than the steps {} to {} give",
                                                           differs, state.step, first, state.step));
    }
    ++next;
  }
  return true;
}

} // namespace

int audit_training(AuditOptions const& options, TrainingReceipt const& receipt) {
  require_own_numerics(options.receipt, receipt.numerics);
  if (options.files.named.engine != "varve")
    throw UsageError("--engine is for receipts of inference; a training is computed by the engine varve");
  if (receipt.states.empty()) throw InputError(options.receipt + " is of a training without steps");
  auto const num_steps = receipt.num_steps();
  auto const recipe = recipe_from(receipt.recipe, options.receipt);
  auto network = load(*open_network(options.files.network, options.files.challenge));
  auto const data = read_answered_samples({options.files.input, options.labels, options.targets}, network, recipe.loss);
  if (!data_agree(options, receipt, network, data)) return 1;
  auto const num_samples = data.samples.num_samples();
  if (receipt.recipe != parse_json(to_json(recipe, num_samples), "recipe") ||
      num_steps > num_steps_of(recipe, num_samples)) {
    print_difference(options.receipt, "its recipe is of another number of samples or steps");
    return 1;
  }
  fmt::print("data      {} and {}: as in the receipt\n", printable(options.files.network),
             printable(options.files.input));

  auto const last = state_to_audit(options, receipt);
  auto const begin = state_to_begin_with(options, receipt, last);
  std::optional<OptimizerState> moments;
  if (begin) {
    auto const& state = receipt.states[*begin];
    auto const file = checkpoint_of_step(options.checkpoints, state.step);
    auto checkpoint = read_checkpoint(file, [](std::string const&) {});
    require_same_shape(*checkpoint, network, file.string(), recipe.pattern.kind != PatternKind::keep);
    TrainingReceipt found;
    found.order = state.order;
    found.add_state(state.step, checkpoint->network, checkpoint->record.optimizer);
    auto const differs = difference(found.states.back(), state);
    if (!differs.empty()) {
      print_difference(file.string(),
                       fmt::format("it has other {} than the receipt after step {}", differs, state.step));
      return 1;
    }
    fmt::print("from      {}: as in the receipt after step {}\n", printable(file.string()), state.step);
    network = std::move(checkpoint->network);
    moments = std::move(checkpoint->record.optimizer);
    moments->num_steps = state.step;
  } else if (last > 0) {
    fmt::print("from      the first step: there is no --checkpoints FOLDER with {} or an earlier state, as varve train "
               "--receipt-checkpoints keeps them\n",
               checkpoint_of_step("", receipt.states[last - 1].step).string());
  }

  TrainOptions computing;
  computing.backend = options.files.backend;
  auto engine_options = varve::engine_options(computing, recipe);
  engine_options.batch = std::min(engine_options.batch, num_samples);
  auto const engine = prepare_training(network, engine_options);
  Trainer trainer(*engine, recipe, engine->add_samples(data.samples, data.answers, options.files.input), num_samples,
                  std::nullopt);
  if (begin) {
    engine->restore(*moments);
    TrainingProgress progress;
    progress.num_steps = receipt.states[*begin].step;
    trainer.resume(progress);
  }
  auto const next = begin ? *begin + 1 : 0;
  if (!states_agree(options, receipt, *engine, trainer, next, last)) return 1;
  require_unchanged_inputs();
  fmt::print("audited   steps {} to {} of {} on {}: order of samples, weights and moments as in the receipt\n",
             begin ? receipt.states[*begin].step + 1 : 1, receipt.states[last].step, num_steps, options.files.backend);
  return 0;
}

} // namespace varve
