#include "apps/command.hpp"
#include "apps/infer_options.hpp"
#include "apps/options.hpp"
#include "apps/report.hpp"
#include "apps/verify_result.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "io/input_files.hpp"
#include "io/open.hpp"
#include "network/layer_memory.hpp"
#include "reference/infer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

namespace varve {
namespace {

constexpr std::size_t lines_at_most = 100; // limit for each printed list
constexpr char const* verify_footer = R"(
What is true: a network and its samples are exactly the numbers in their files. Numbers in text and in options stand for
the nearest double (a bias of -0.3 is -0.299999999999999988897769753748434595763683319091796875, and 1/16 is 1/16).
By default the reference computes in double: plain loops, one fused multiply-add per edge, edges in ascending order.
With --exact, sums, products and caps are computed without rounding. Bounds on all rounding errors decide most samples;
the others are computed in integers, which takes long if layers are many and activations neither die nor reach the cap.
Results in float use weights and samples rounded to float, so their categories may truly differ. `certain` counts the
samples whose category no rounding can change, in float and in double, for every order of summation, with equal neurons
merged or not.
The margin of a sample is its distance from the other category, in units of a neuron's weighted sum plus bias. For a
sample that died, it is the distance from 0 of the largest sum in the layer where the sample died. For a survivor, it is
the smallest distance from 0 that the largest sum of a layer had. Only layers after which no layer revives a dead sample
count. Samples that are not certain in double are listed under `near`, smallest margin first, with their categories from
plain loops in double and in float.
Exit codes: 0 all samples agree; 1 some differ; 2 wrong usage; 3 bad input; 4 not enough memory.)";

struct VerifyOptions {
  InferOptions files; ///< only network, input, challenge and samples are used
  std::string result;
  bool exact = false;
  double tolerance = 1e-3;
};

char const* word_for(bool is_alive) { return is_alive ? "alive" : "dead"; }

/// The given rows of a set, numbered from 0.
SampleSet rows_of_set(SampleSet const& samples, std::vector<std::size_t> const& rows) {
  SampleSet some;
  some.matrix.num_columns = samples.num_neurons();
  for (std::size_t const row : rows) append_rows(some, samples_of(samples, row, row + 1));
  some.first_sample = 0;
  return some;
}

/// Adds the samples that are not certain in double, with their categories from plain loops.
void add_near_ties(NetworkSource const& network, SampleSet const& samples, Verdicts const& truth,
                   Comparison& comparison) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < truth.of_samples.size(); ++row)
    if (!truth.of_samples[row].is_certain_in_double) rows.push_back(row);
  if (rows.empty()) return;
  auto const some = rows_of_set(samples, rows);
  auto const in_float = categories(infer<float>(network, some));
  auto const in_double = categories(infer<double>(network, some));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    comparison.add(NearTie{samples.first_sample + rows[i], truth.of_samples[rows[i]],
                           std::ranges::binary_search(in_float, i), std::ranges::binary_search(in_double, i)});
  }
}

/// The number of samples whose activations and bounds take about 256 MB.
std::size_t samples_at_a_time(NetworkSource const& network) {
  std::size_t width = 1;
  for (std::size_t number = 0; number < network.num_layers(); ++number) {
    Layer const layer = network.layer(number);
    width = std::max({width, layer.num_inputs(), layer.num_outputs()});
  }
  return std::clamp<std::size_t>((std::size_t{1} << 28U) / (64 * width), 1, 8192);
}

Comparison compare_all(NetworkSource const& network, SampleReader& samples, ResultFile& result,
                       VerifyOptions const& options) {
  Comparison comparison(options.tolerance);
  auto const progress = terminal_progress("verifying samples");
  auto const arithmetic = options.exact ? Arithmetic::exact : Arithmetic::double_precision;
  std::size_t const at_a_time = samples_at_a_time(network);
  for (std::size_t first = 0; first < samples.num_samples(); first += at_a_time) {
    std::size_t const last = std::min(first + at_a_time, samples.num_samples());
    SampleSet const batch = to_set(samples.read(first, last));
    auto const truth = judge(network, batch, arithmetic, result.has_activations());
    comparison.add(truth, result.part(first, last), batch.first_sample);
    add_near_ties(network, batch, truth, comparison);
    if (progress) progress(last, samples.num_samples());
  }
  std::ranges::stable_sort(comparison.near_ties, {}, [](NearTie const& tie) { return tie.verdict.margin; });
  return comparison;
}

void print_more(std::size_t count) {
  if (count > lines_at_most) fmt::print("  and {} more\n", count - lines_at_most);
}

void print_near_ties(Comparison const& comparison, VerifyOptions const& options) {
  auto const& ties = comparison.near_ties;
  if (ties.empty()) return;
  auto const count_others = [&](auto member) {
    return std::ranges::count_if(ties, [&](NearTie const& tie) { return tie.*member != tie.verdict.is_alive; });
  };
  fmt::print(
      "near      {} samples within rounding errors of double; other categories in plain loops: {} in float, {} in "
      "double\n",
      ties.size(), count_others(&NearTie::is_alive_in_float), count_others(&NearTie::is_alive_in_double));
  for (std::size_t i = 0; i < std::min(ties.size(), lines_at_most); ++i) {
    auto const& [sample, verdict, in_float, in_double] = ties[i];
    fmt::print("  sample {}: {}{}, margin {:.3g}; in double {}, in float {}\n", sample + 1, word_for(verdict.is_alive),
               options.exact ? "" : " in double", verdict.margin, word_for(in_double), word_for(in_float));
  }
  print_more(ties.size());
}

void print_differences(Comparison const& comparison, VerifyOptions const& options) {
  auto const& differences = comparison.differences;
  for (std::size_t i = 0; i < std::min(differences.size(), lines_at_most); ++i) {
    auto const& difference = differences[i];
    fmt::print("  sample {}: expected {}, found {}", difference.sample + 1, word_for(difference.is_alive),
               word_for(difference.is_found_alive));
    if (difference.distance > options.tolerance && std::isfinite(difference.distance))
      fmt::print("; activations off by {:.3g} of the largest", difference.distance);
    fmt::print("\n");
  }
  print_more(differences.size());
}

void print(Comparison const& comparison, bool has_activations, VerifyOptions const& options) {
  fmt::print("certain   {} of {} samples regardless of the rounding in double, {} in float\n",
             comparison.num_certain_in_double, comparison.num_samples, comparison.num_certain_in_float);
  print_near_ties(comparison, options);
  if (comparison.least_margin && std::isfinite(comparison.least_margin->verdict.margin)) {
    auto const& [sample, verdict, in_float, in_double] = *comparison.least_margin;
    fmt::print("margin    the least is {:.3g}: sample {}, {}\n", verdict.margin, sample + 1,
               word_for(verdict.is_alive));
  }
  if (has_activations) {
    fmt::print("values    off by {:.3g} of a sample's largest activation at most", comparison.largest_distance);
    if (comparison.largest_distance > 0.0) fmt::print(" (sample {})", comparison.farthest_sample + 1);
    fmt::print("; other sets of nonzeros in {} samples\n", comparison.num_other_nonzeros);
  }
  fmt::print("survivors {}\n", comparison.num_alive);
  fmt::print("result    {} of {} samples agree\n", comparison.num_samples - comparison.differences.size(),
             comparison.num_samples);
  print_differences(comparison, options);
}

int verify(VerifyOptions const& options) {
  FileRoles roles;
  roles.reads("--network", options.files.network);
  roles.reads("--input", options.files.input);
  roles.reads("--result", options.result);
  check_files(roles);
  auto const memory = available_memory(Backend::serial);
  auto const source = open_network(options.files.network, options.files.challenge);
  KeptNetwork const network(*source, memory / 4);
  auto const range = parse_samples(options.files.samples);
  auto const samples = open_sample_reader(options.files.input, network.layer(0).num_inputs(), range, memory / 4);
  auto const num_outputs = network.layer(network.num_layers() - 1).num_outputs();
  ResultFile result(options.result, *samples, num_outputs, range.has_value(), options.files.first_number());
  fmt::print("network   {}: {} layers, {} inputs, {} outputs\n", printable(network.name()), network.num_layers(),
             samples->num_neurons(), num_outputs);
  fmt::print("input     {}: {} samples ({}:{})\n", printable(options.files.input), samples->num_samples(),
             samples->first_sample() + 1, samples->first_sample() + samples->num_samples());
  fmt::print("judged    by {}\n", options.exact ? "exact arithmetic on the numbers stored" : "plain loops in double");
  Stopwatch const stopwatch;
  auto const comparison = compare_all(network, *samples, result, options);
  require_unchanged_inputs();
  fmt::print("time      {}\n", readable_seconds(stopwatch.seconds()));
  print(comparison, result.has_activations(), options);
  return comparison.differences.empty() ? 0 : 1;
}

} // namespace

void add_verify(CLI::App& command_line, Action& action) {
  auto* const command = command_line.add_subcommand(
      "verify", "Check a result of varve infer against a reference in double or in exact arithmetic");
  command->footer(verify_footer);
  auto const options = std::make_shared<VerifyOptions>();
  auto& files = options->files;
  add_data(*command, files.network, files.input);
  add_network_in_text(*command, files.challenge);
  OptionGroup const shown(*command);
  shown
      .add("--result", options->result,
           "result to check: categories (.tsv, plain or compressed) from varve infer --categories or the challenge's "
           "truth, or activations (.safetensors) from varve infer --activations")
      ->required();
  shown.add("--zero-based", files.zero_based, "categories in --result count from 0 (default: from 1)");
  shown.add("--samples", files.samples, "verify only the samples FIRST:LAST, from 1, both included");
  shown.add("--exact", options->exact, "judge by exact arithmetic instead of double");
  shown.add("--tolerance", options->tolerance,
            "largest accepted error of an activation, in units of the sample's largest true activation",
            at_least_zero());
  command->callback([options, &action] { action = {[options] { return verify(*options); }, false}; });
}

} // namespace varve
