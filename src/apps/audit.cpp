#include "apps/command.hpp"
#include "apps/infer_options.hpp"
#include "apps/options.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/runtime.hpp"
#include "io/input_files.hpp"
#include "io/open.hpp"
#include "io/text_file.hpp"
#include "network/layer_memory.hpp"
#include "receipts/inference_receipt.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace varve {
namespace {

constexpr char const* audit_footer = R"(
A receipt is written by varve infer --receipt. audit computes the digests of the network and of all samples again, draws
some samples, runs them through the network on any backend, and compares the digests of their last activations with the
receipt. Equal bits come from every backend, batch size and number of ranks, so the run may have been made elsewhere.
With --against, two receipts are compared with each other; network and input are not needed.
Exit codes: 0 all is as in the receipt; 1 something differs, which is named; 2 wrong usage; 3 bad input.)";

struct AuditOptions {
  InferOptions files; ///< only network, input, challenge, backend and engine are used
  std::string receipt, against;
  std::size_t num_samples = 10;
  std::optional<std::uint64_t> seed;
};

/// Prints a line for each sentence; true if there is none.
bool print_differences(std::string const& receipt, std::vector<std::string> const& sentences) {
  for (auto const& sentence : sentences) fmt::print("differs   {}: {}\n", printable(receipt), sentence);
  return sentences.empty();
}

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
  auto engine = engine_options(options.files);
  if (receipt.precision != "float" && receipt.precision != "double")
    fail_at(options.receipt, "the precision " + receipt.precision, "float or double");
  engine.precision = precision_of(receipt.precision);
  auto const reductions = fmt::format("{}", fmt::join(receipt.reductions, ","));
  try {
    engine.edge_order = parse_edge_order(receipt.edge_order);
    engine.reductions = parse_reductions(reductions.empty() ? "none" : reductions);
  } catch (UsageError const& error) {
    throw InputError(fmt::format("{}: {}", options.receipt, error.what()));
  }
  if (engine.engine == Engine::reference && engine.reductions.rewrites_network()) {
    throw UsageError(fmt::format("--engine reference changes no network, and the run of {} had {}; take --engine varve",
                                 options.receipt, reductions));
  }
  limit_memory(engine, 1);
  return engine;
}

/// The drawn samples of an input, whose digests are compared with those of the receipt on the way. Null if one differs,
/// which is printed.
std::optional<SampleSet> samples_in(InferenceReceipt const& receipt, SampleReader& reader,
                                    std::vector<std::size_t> const& rows, AuditOptions const& options) {
  SampleSet drawn;
  drawn.matrix.num_columns = reader.num_neurons();
  std::size_t const at_a_time = samples_that_fit(reader, available_memory(Backend::serial) / 4);
  auto next = rows.begin();
  for (std::size_t first = 0; first < reader.num_samples(); first += at_a_time) {
    std::size_t const last = std::min(first + at_a_time, reader.num_samples());
    auto const batch = reader.read(first, last);
    auto const digests = input_digests(batch);
    auto const begin = receipt.leaves.begin() + static_cast<std::ptrdiff_t>(first);
    auto const differs = std::ranges::mismatch(digests, std::ranges::subrange(begin, receipt.leaves.end()), {}, {},
                                               &SampleLeaves::input);
    if (differs.in1 != digests.end()) {
      fmt::print("differs   {}: sample {} is not that of the receipt\n", printable(options.files.input),
                 batch.first_sample() + 1 + static_cast<std::size_t>(differs.in1 - digests.begin()));
      return std::nullopt;
    }
    for (; next != rows.end() && *next < last; ++next)
      append_rows(drawn, to_set(batch.part(*next - first, *next - first + 1).numbered_from(0)));
  }
  drawn.first_sample = 0;
  return drawn;
}

/// Runs the drawn samples. True if the digests of their last activations are those of the receipt; else the first that
/// differs is printed.
bool outputs_agree(InferenceReceipt const& receipt, NetworkSource const& network, SampleSet samples,
                   std::vector<std::size_t> const& rows, AuditOptions const& options) {
  auto engine = options_of(receipt, options);
  engine.expected_samples = rows.size();
  auto const inference = prepare(network, engine);
  SampleBatch const batch(std::move(samples));
  auto const plan = inference->plan(shape_of(batch));
  for (std::size_t first = 0; first < rows.size(); first += plan.batch) {
    auto const part = batch.part(first, std::min(first + plan.batch, rows.size()));
    auto const result = inference->infer(part, {true, false});
    for (std::size_t row = 0; row < part.num_samples(); ++row) {
      auto const place = rows[first + row];
      auto const number = receipt.first_sample + place;
      if (output_digest(result.activations.matrix, row, number) == receipt.leaves[place].output) continue;
      fmt::print("differs   sample {}: its last activations are not those of the receipt\n", number + 1);
      return false;
    }
  }
  return true;
}

int audit(AuditOptions const& options) {
  FileRoles roles;
  roles.reads("RECEIPT", options.receipt);
  roles.reads("--network", options.files.network);
  roles.reads("--input", options.files.input);
  check_files(roles);
  auto const receipt = read_receipt(options.receipt);
  fmt::print("receipt   {}: {} samples, {}, numerics {}, digest {}\n", printable(options.receipt),
             receipt.leaves.size(), receipt.precision, receipt.numerics, to_hex(receipt.digest));
  if (!print_differences(options.receipt, contradictions(receipt))) return 1;
  if (receipt.numerics != kNumerics)
    throw InputError(fmt::format("{} is of numerics {}, and this program computes by numerics {}", options.receipt,
                                 receipt.numerics, kNumerics));
  auto const memory = available_memory(Backend::serial);
  auto const source = open_network(options.files.network, options.files.challenge);
  KeptNetwork const network(*source, memory / 4);
  if (network_digest(network) != receipt.network) {
    fmt::print("differs   {} is not the network of the receipt\n", printable(network.name()));
    return 1;
  }
  fmt::print("network   {}: as in the receipt\n", printable(network.name()));
  auto const num_samples = receipt.leaves.size();
  SampleRange const range{receipt.first_sample, capped_add(receipt.first_sample, num_samples)};
  auto const reader = open_sample_reader(options.files.input, network.layer(0).num_inputs(),
                                         num_samples == 0 ? OptionalSampleRange() : range, memory / 4);
  auto const rows = draw_rows(num_samples, options);
  auto drawn = samples_in(receipt, *reader, rows, options);
  if (!drawn) return 1;
  fmt::print("input     {}: {} samples as in the receipt\n", printable(options.files.input), num_samples);
  if (!outputs_agree(receipt, network, std::move(*drawn), rows, options)) return 1;
  require_unchanged_inputs();
  fmt::print("audited   {} of {} samples on {}: last activations as in the receipt\n", rows.size(), num_samples,
             options.files.backend);
  return 0;
}

int compare(AuditOptions const& options) {
  FileRoles roles;
  roles.reads("RECEIPT", options.receipt);
  roles.reads("--against", options.against);
  check_files(roles);
  auto const left = read_receipt(options.receipt);
  auto const right = read_receipt(options.against);
  bool const are_sound = print_differences(options.receipt, contradictions(left)) &&
                         print_differences(options.against, contradictions(right));
  if (!are_sound || !print_differences(options.against, differences(left, right))) return 1;
  fmt::print("equal     {} and {}: {} samples, digest {}\n", printable(options.receipt), printable(options.against),
             left.leaves.size(), to_hex(left.digest));
  return 0;
}

} // namespace

void add_audit(CLI::App& command_line, Action& action) {
  auto* const command =
      command_line.add_subcommand("audit", "Check the receipt of a run by computing some of its samples again");
  command->footer(audit_footer);
  auto const options = std::make_shared<AuditOptions>();
  auto& files = options->files;
  OptionGroup const shown(*command);
  shown.add("RECEIPT", options->receipt, "receipt that varve infer --receipt wrote")->required();
  auto* const network = shown.add("--network", files.network, network_help);
  auto* const input = shown.add("--input", files.input, input_help)->needs(network);
  network->needs(input);
  add_network_in_text(*command, files.challenge);
  shown.add("--samples", options->num_samples, "compute N samples again, drawn at random", above_zero());
  shown.add("--seed", options->seed, "draw the samples that this number gives (default: others each time)");
  shown.add("--against", options->against, "compare with this receipt instead")->excludes(network);
  add_backend(*command, files.backend);
  shown.add("--engine", files.named.engine, "varve, or reference: plain loops that share no kernel with it");
  command->callback([options, &action] {
    if (options->against.empty() && options->files.network.empty())
      throw CLI::RequiredError("--network and --input, or --against,");
    action = {[options] { return options->against.empty() ? audit(*options) : compare(*options); }};
  });
}

} // namespace varve
