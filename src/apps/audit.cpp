#include "apps/command.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/text_file.hpp"
#include "network/layer_memory.hpp"
#include "receipts/inference_receipt.hpp"
#include "receipts/receipt_members.hpp"
#include "training/checkpoint.hpp"
#include "training/recipe.hpp"
#include "training/trainer.hpp"
#include "training/training_receipt.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <random>

namespace varve {
namespace {

/// The options of `varve audit` as given by the user.
struct AuditOptions {
  InferOptions run; ///< only network, input, challenge and backend are used
  std::string receipt, against, output;
  std::string labels, targets, checkpoints, step; ///< of a training; step: "random" or a number from 1 on
  std::size_t num_samples = 10;
  std::optional<std::uint64_t> seed, prove;
};

/// Thrown when a file is not as in the receipt: ends the audit with these sentences about it.
struct Mismatch {
  std::string file;
  std::vector<std::string> sentences;
};

void require_none(std::string const& file, std::vector<std::string> const& differences) {
  if (!differences.empty()) throw Mismatch{file, differences};
}

/// `sentence` says what differs.
void require_same(bool is_same, std::string const& file, std::string const& sentence) {
  if (!is_same) throw Mismatch{file, {sentence}};
}

/// Throws InputError unless this program computes by the numerics of a receipt.
void require_own_numerics(std::string const& receipt, int numerics) {
  if (numerics == kNumerics) return;
  fail<InputError>("{} is of numerics {}, and this program computes by numerics {}", receipt, numerics, kNumerics);
}

/// The recorded state at the end of the steps that are computed again: the first one that is not before the drawn step.
std::size_t state_to_audit(AuditOptions const& options, TrainingReceipt const& receipt) {
  auto const num_steps = receipt.num_steps();
  std::uint64_t step = 0;
  if (options.step.empty() || options.step == "random") {
    std::mt19937_64 random(options.seed ? *options.seed : std::random_device()());
    step = std::uniform_int_distribution<std::uint64_t>(1, num_steps)(random);
  } else {
    step = whole_number(options.step).value_or(0);
    if (step == 0 || step > num_steps)
      fail<UsageError>("--draw step is '{}', expected random or a step from 1 to {}", options.step, num_steps);
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

/// Throws Mismatch unless network, samples and answers are those of the receipt.
void require_data(AuditOptions const& options, TrainingReceipt const& receipt, Network const& network,
                  AnsweredSamples const& data) {
  auto const begun =
      begin_receipt(network_digest(network), data.samples, data.answers, json_text(receipt.recipe), receipt.every);
  auto const answers = data.files.labels.empty() ? data.files.targets : data.files.labels;
  require_same(begun.network == receipt.network, options.run.network, "it is not the network of the receipt");
  require_same(begun.inputs == receipt.inputs, options.run.input, "its samples are not those of the receipt");
  require_same(begun.answers == receipt.answers, answers, "its labels or targets are not those of the receipt");
}

/// Computes the states from `next` to `last` again. Throws Mismatch if one differs.
void require_states(AuditOptions const& options, TrainingReceipt const& receipt, Training& engine, Trainer& trainer,
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
    auto const first = next == 0 ? 1 : receipt.states[next - 1].step + 1;
    require_same(differs.empty(), options.receipt,
                 fmt::format("it has other {} after step {} than the steps {} to {} give", differs, state.step, first,
                             state.step));
    ++next;
  }
}

/// Audits a training: computes some of its steps again. Returns the exit code.
int audit_training(AuditOptions const& options, TrainingReceipt const& receipt) {
  require_own_numerics(options.receipt, receipt.numerics);
  if (options.run.named.engine != "varve")
    throw UsageError("--backend reference is for receipts of inference; a training is computed by the engine");
  if (receipt.states.empty()) throw InputError(options.receipt + " is of a training without steps");
  auto const num_steps = receipt.num_steps();
  auto const recipe = recipe_from(receipt.recipe, options.receipt);
  auto network = load(*open_network(options.run.network, options.run.challenge));
  auto const data = read_answered_samples({options.run.input, options.labels, options.targets}, network, recipe.loss);
  require_data(options, receipt, network, data);
  auto const num_samples = data.samples.num_samples();
  require_same(receipt.recipe == parse_json(to_json(recipe, num_samples), "recipe") &&
                   num_steps <= num_steps_of(recipe, num_samples),
               options.receipt, "its recipe is of another number of samples or steps");
  fmt::print("data      {} and {}: as in the receipt\n", printable(options.run.network), printable(options.run.input));

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
    require_same(differs.empty(), file.string(),
                 fmt::format("it has other {} than the receipt after step {}", differs, state.step));
    fmt::print("from      {}: as in the receipt after step {}\n", printable(file.string()), state.step);
    network = std::move(checkpoint->network);
    moments = std::move(checkpoint->record.optimizer);
    moments->num_steps = state.step;
  } else if (last > 0) {
    fmt::print("from      the first step: there is no --checkpoints FOLDER with {} or an earlier state, as varve train "
               "--receipt-states checkpoints=FOLDER keeps them\n",
               checkpoint_of_step("", receipt.states[last - 1].step).string());
  }

  auto engine_options = training_options(recipe);
  engine_options.backend = parse_backend(options.run.backend);
  engine_options.batch = std::min(engine_options.batch, num_samples);
  auto const engine = prepare_training(network, engine_options);
  Trainer trainer(*engine, recipe, engine->add_samples(data.samples, data.answers, options.run.input), num_samples,
                  std::nullopt);
  if (begin) {
    engine->restore(*moments);
    TrainingProgress progress;
    progress.num_steps = receipt.states[*begin].step;
    trainer.resume(progress);
  }
  auto const next = begin ? *begin + 1 : 0;
  require_states(options, receipt, *engine, trainer, next, last);
  require_unchanged_inputs();
  fmt::print("audited   steps {} to {} of {} on {}: order of samples, weights and moments as in the receipt\n",
             begin ? receipt.states[*begin].step + 1 : 1, receipt.states[last].step, num_steps, options.run.backend);
  return 0;
}

constexpr char const* audit_footer = R"(
Of an inference, audit computes the digests of the network and of all samples again, draws some samples, runs them
through the network on any backend, and compares the digests of their last activations with the receipt. Of a training it
draws a step and computes the steps between the two recorded states around it again. Equal bits come from every backend,
batch size and number of ranks, so the run may have been made elsewhere. With --against, two receipts are compared with
each other; network and input are not needed. With --prove, one sample gets a receipt of its own, which can be audited
without the others.
Exit codes: 0 all is as in the receipt; 1 something differs, which is named; 2 wrong usage; 3 bad input.)";

/// Numbers of rows, ascending: all of them, or as many as wanted, drawn at random.
std::vector<std::size_t> draw_rows(std::size_t num_rows, AuditOptions const& options) {
  std::vector<std::size_t> all(num_rows);
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::mt19937_64 random(options.seed ? *options.seed : std::random_device()());
  std::vector<std::size_t> drawn;
  auto const count = std::min<std::size_t>(num_rows, options.num_samples);
  std::ranges::sample(all, std::back_inserter(drawn), static_cast<std::ptrdiff_t>(count), random);
  return drawn;
}

/// The options with which the receipt's run gives its bits, on the backend of the audit.
InferenceOptions options_of(InferenceReceipt const& receipt, AuditOptions const& options) {
  auto engine = engine_options(options.run);
  if (receipt.precision != "float" && receipt.precision != "double")
    fail_at(options.receipt, "the precision " + receipt.precision, "float or double");
  engine.precision = precision_of(receipt.precision);
  auto const reductions = fmt::format("{}", fmt::join(receipt.reductions, ","));
  try {
    engine.edge_order = parse_edge_order(receipt.edge_order);
    engine.reductions = parse_reductions(reductions.empty() ? "none" : reductions);
  } catch (UsageError const& error) {
    fail<InputError>("{}: {}", options.receipt, error.what());
  }
  if (engine.engine == Engine::reference && engine.reductions.rewrites_network()) {
    fail<UsageError>("--backend reference changes no network, and the run of {} had {}; take another backend",
                     options.receipt, reductions);
  }
  limit_memory(engine, 1);
  return engine;
}

/// What a receipt of an inference is of, opened.
struct AuditedRun {
  std::unique_ptr<NetworkSource> source;
  std::unique_ptr<KeptNetwork> network;
  std::unique_ptr<SampleReader> samples;
  std::size_t first = 0; ///< row of the first sample of the receipt
};

/// Opens network and samples, and prints that the network is that of the receipt. Throws Mismatch if it is not, or if
/// the input does not hold all samples of the receipt; InputError if this program computes by other numerics.
AuditedRun open_run(InferenceReceipt const& receipt, AuditOptions const& options) {
  require_own_numerics(options.receipt, receipt.numerics);
  auto const memory = available_memory(Backend::serial) / 4;
  AuditedRun run;
  run.source = open_network(options.run.network, options.run.challenge);
  run.network = std::make_unique<KeptNetwork>(*run.source, memory);
  require_same(network_digest(*run.network) == receipt.network, run.network->name(),
               "it is not the network of the receipt");
  fmt::print("network   {}: as in the receipt\n", printable(run.network->name()));
  run.samples = open_sample_reader(options.run.input, run.network->layer(0).num_inputs(), std::nullopt, memory);
  auto const first = run.samples->first_sample();
  auto const last = first + run.samples->num_samples();
  auto const last_wanted = capped_add(receipt.first_sample, receipt.num_samples);
  require_same(receipt.num_samples == 0 || (receipt.first_sample >= first && last_wanted <= last), options.run.input,
               fmt::format("it holds {} samples, {} to {}, and the receipt is of {}, {} to {}", last - first, first + 1,
                           last, receipt.num_samples, receipt.first_sample + 1, last_wanted));
  run.first = receipt.first_sample - first;
  return run;
}

/// Throws Mismatch, naming the first sample that is not that of the receipt, if there is one.
void require_inputs(SampleBatch const& batch, std::span<SampleLeaves const> leaves, AuditOptions const& options) {
  auto const digests = input_digests(batch);
  auto const differs = std::ranges::mismatch(digests, leaves, {}, {}, &SampleLeaves::input);
  require_same(differs.in1 == digests.end(), options.run.input,
               fmt::format("sample {} is not that of the receipt",
                           batch.first_sample() + 1 + static_cast<std::size_t>(differs.in1 - digests.begin())));
}

/// The drawn samples of an input, all of whose digests are compared with those of the receipt on the way. Throws
/// Mismatch if one differs.
SampleSet samples_in(InferenceReceipt const& receipt, AuditedRun const& run, std::vector<std::size_t> const& rows,
                     AuditOptions const& options) {
  auto& reader = *run.samples;
  SampleSet drawn;
  drawn.matrix.num_columns = reader.num_neurons();
  std::size_t const at_a_time = samples_that_fit(reader, available_memory(Backend::serial) / 4);
  auto next = rows.begin();
  for (std::size_t first = 0; first < receipt.leaves.size(); first += at_a_time) {
    std::size_t const last = std::min(first + at_a_time, receipt.leaves.size());
    auto const batch = reader.read(run.first + first, run.first + last);
    require_inputs(batch, std::span(receipt.leaves).subspan(first, last - first), options);
    for (; next != rows.end() && *next < last; ++next)
      append_rows(drawn, to_set(batch.part(*next - first, *next - first + 1).numbered_from(0)));
  }
  drawn.first_sample = 0;
  return drawn;
}

/// Runs some samples, of these places and digests in the receipt. Throws Mismatch, naming the first whose last
/// activations have another digest, if there is one.
void require_outputs(InferenceReceipt const& receipt, NetworkSource const& network, SampleSet samples,
                     std::vector<std::size_t> const& places, std::vector<Digest> const& digests,
                     AuditOptions const& options) {
  auto engine = options_of(receipt, options);
  engine.expected_samples = places.size();
  auto const inference = prepare(network, engine);
  SampleBatch const batch(std::move(samples));
  auto const plan = inference->plan(shape_of(batch));
  for (std::size_t first = 0; first < places.size(); first += plan.batch) {
    auto const part = batch.part(first, std::min(first + plan.batch, places.size()));
    auto const result = inference->infer(part, {true, false});
    for (std::size_t row = 0; row < part.num_samples(); ++row) {
      auto const number = receipt.first_sample + places[first + row];
      require_same(output_digest(result.activations.matrix, row, number) == digests[first + row],
                   fmt::format("sample {}", number + 1), "its last activations are not those of the receipt");
    }
  }
}

int audit_inference(AuditOptions const& options, InferenceReceipt const& receipt) {
  auto const run = open_run(receipt, options);
  auto const rows = draw_rows(receipt.leaves.size(), options);
  auto drawn = samples_in(receipt, run, rows, options);
  fmt::print("input     {}: {} samples as in the receipt\n", printable(options.run.input), receipt.num_samples);
  std::vector<Digest> digests;
  for (auto const row : rows) digests.push_back(receipt.leaves[row].output);
  require_outputs(receipt, *run.network, std::move(drawn), rows, digests, options);
  require_unchanged_inputs();
  fmt::print("audited   {} of {} samples on {}: last activations as in the receipt\n", rows.size(), receipt.num_samples,
             options.run.backend);
  return 0;
}

int audit_proof(AuditOptions const& options, SampleProof const& proof) {
  auto const& receipt = proof.receipt;
  auto const run = open_run(receipt, options);
  auto const row = run.first + proof.place;
  auto const sample = run.samples->read(row, row + 1);
  require_inputs(sample, std::span(&proof.leaves, 1), options);
  require_outputs(receipt, *run.network, to_set(sample.numbered_from(0)), {proof.place}, {proof.leaves.output},
                  options);
  fmt::print("audited   sample {} of {} on {}: input and last activations as in the receipt\n",
             receipt.first_sample + proof.place + 1, receipt.num_samples, options.run.backend);
  return 0;
}

/// Writes the proof of a sample of a receipt.
int prove(AuditOptions const& options, InferenceReceipt const& receipt) {
  auto const place = *options.prove - 1 - receipt.first_sample;
  if (*options.prove <= receipt.first_sample || place >= receipt.num_samples) {
    fail<UsageError>("--prove is {}, expected one of the samples {} to {} of {}", *options.prove,
                     receipt.first_sample + 1, receipt.first_sample + receipt.num_samples, options.receipt);
  }
  write_proof(options.output, proof_of(receipt, place));
  fmt::print("proof     {}: sample {} of {}\n", printable(options.output), *options.prove, receipt.num_samples);
  return 0;
}

std::string summary_of(InferenceReceipt const& receipt) {
  return fmt::format("{} samples, {}", receipt.num_samples, receipt.precision);
}

std::string summary_of(TrainingReceipt const& receipt) {
  return fmt::format("training of {} steps, a state every {}", receipt.num_steps(), receipt.every);
}

/// Prints the first line about a receipt. Throws Mismatch if it contradicts itself, as these sentences say.
template <class Receipt>
void require_sound(std::string const& file, Receipt const& receipt, std::vector<std::string> const& sentences) {
  fmt::print("receipt   {}: {}, numerics {}, digest {}\n", printable(file), summary_of(receipt), receipt.numerics,
             to_hex(receipt.digest));
  require_none(file, sentences);
}

/// Compares a receipt with another one of its kind, which receipt_of() makes of JSON, or audits it.
template <class Receipt>
int audit_or_compare(AuditOptions const& options, Json const& json,
                     Receipt (*receipt_of)(Json const&, std::string const&),
                     int (*compute)(AuditOptions const&, Receipt const&)) {
  auto const receipt = receipt_of(json, options.receipt);
  require_sound(options.receipt, receipt, contradictions(receipt));
  if (options.against.empty()) return compute(options, receipt);
  auto const other = receipt_of(read_receipt_json(options.against, {json["kind"].get<std::string>()}), options.against);
  require_sound(options.against, other, contradictions(other));
  require_none(options.against, differences(receipt, other));
  fmt::print("equal     {} and {}\n", printable(options.receipt), printable(options.against));
  return 0;
}

int audit_receipt(AuditOptions const& options) {
  check_files(options.run.files.roles());
  auto const json = read_receipt_json(options.receipt, {kInferenceReceipt, kTrainingReceipt, kSampleProof});
  bool const is_training = json["kind"] == kTrainingReceipt;
  bool const is_proof = json["kind"] == kSampleProof;
  if (options.prove && (is_training || is_proof)) throw UsageError("--prove needs a receipt of an inference");
  if (is_proof && !options.against.empty()) throw UsageError("--against compares receipts, not proofs of a sample");
  if (!is_training && !(options.step + options.labels + options.targets + options.checkpoints).empty())
    throw UsageError("--draw step, --labels, --targets and --checkpoints are for receipts of training");
  if (is_training) return audit_or_compare<TrainingReceipt>(options, json, training_receipt_of, audit_training);
  if (!is_proof) {
    return audit_or_compare<InferenceReceipt>(options, json, inference_receipt_of,
                                              options.prove ? prove : audit_inference);
  }
  auto const proof = proof_of(json, options.receipt);
  require_sound(options.receipt, proof.receipt, contradictions(proof));
  return audit_proof(options, proof);
}

int audit(AuditOptions const& given) {
  auto options = given;
  if (options.run.backend == "reference") {
    options.run.named.engine = "reference";
    options.run.backend = to_string(compiled_backends().front());
  }
  try {
    return audit_receipt(options);
  } catch (Mismatch const& found) {
    for (auto const& sentence : found.sentences) fmt::print("differs   {}: {}\n", printable(found.file), sentence);
    return 1;
  }
}

} // namespace

void add_audit(CLI::App& command_line, Action& action) {
  auto [command, options] = add_command<AuditOptions>(
      command_line, action, "audit", "Check the receipt of a run by computing some of it again", audit);
  command.footer(audit_footer);
  auto& run = options.run;
  auto& files = run.files;
  OptionGroup const shown(command);
  shown
      .reads(files, "RECEIPT", options.receipt,
             "receipt that varve infer or train --receipt wrote, or a proof of --prove")
      ->required();
  auto* const network = shown.reads(files, "--network", run.network, network_help);
  auto* const input = shown.reads(files, "--input", run.input, input_help)->needs(network);
  network->needs(input);
  add_network_in_text(command, run.challenge);
  shown.add_keys("--draw",
                 {number_key("samples", options.num_samples, "N", "number of samples, drawn at random (default: 10)",
                             above_zero()),
                  text_key("step", options.step, "random|N", "of a training: the step (default: random)"),
                  number_key("seed", options.seed, "S",
                             "the samples or the step that this number gives (default: others each time)")},
                 "what is computed again:");
  auto* const against =
      shown.reads(files, "--against", options.against, "compare with this receipt instead")->excludes(network);
  auto* const proof =
      shown.writes(files, "--output", options.output, Content::json, "file of the proof of --prove (.json)");
  auto* const proved =
      shown.add("--prove", options.prove, "write the proof of sample N (from 1) instead", above_zero());
  proved->excludes(network)->excludes(against)->needs(proof);
  proof->needs(proved);
  OptionGroup const training(command, "Receipts of training");
  training.reads(files, "--labels", options.labels, "classes of the samples, as varve train takes them");
  training.reads(files, "--targets", options.targets, "wanted outputs of the samples, as varve train takes them");
  training.add("--checkpoints", options.checkpoints,
               "folder of varve train --receipt-states checkpoints: begin with one of them");
  add_backend(command, run.backend,
              "also reference, for inference: plain loops that share no kernel with the engine. Otherwise: ");
  command.parse_complete_callback([&given = options] {
    if (given.against.empty() && !given.prove && given.run.network.empty())
      throw CLI::RequiredError("--network and --input, or --against,");
  });
}

} // namespace varve
