#include "apps/command.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/stopwatch.hpp"
#include "io/categories.hpp"
#include "io/input_files.hpp"
#include "io/open.hpp"
#include "io/sample_file.hpp"
#include "network/layer_memory.hpp"
#include "reference/infer.hpp"
#include "reference/verdict.hpp"

#include <algorithm>
#include <cmath>

namespace varve {
namespace {

/// A range of samples in the numbering of text files, which starts at 1.
std::string range_text(SampleIndex first, SampleIndex count) { return fmt::format("{}:{}", first + 1, first + count); }

/// A file written by varve infer: categories in text, or activations in a sample file.
class ResultFile {
public:
  /// Opens a result and checks it against the input. `is_part` means that only a part of the input is verified, so that
  /// the file may hold more samples. Throws InputError if the file is broken, names samples that the input does not
  /// contain, or lacks samples to be verified.
  ResultFile(std::string const& path, SampleReader const& samples, std::size_t num_outputs, bool is_part)
      : first_sample_(samples.first_sample()) {
    SampleIndex const count = samples.num_samples();
    if (kind_of(path) != FileKind::container) {
      categories_ = read_categories(path);
      auto const is_outside = [&](SampleIndex sample) {
        return sample < first_sample_ || sample >= first_sample_ + count;
      };
      auto const outside = std::ranges::find_if(categories_, is_outside);
      if (outside != categories_.end() && !is_part) {
        fail<InputError>("{} names sample {}, but the input holds samples {}; verify a part with --samples FIRST:LAST",
                         path, *outside + 1, range_text(first_sample_, count));
      }
      return;
    }
    require_width(path, read_sample_header(path).num_neurons, num_outputs, "outputs");
    auto reader = open_sample_file(path);
    SampleIndex const first = reader->first_sample();
    SampleIndex const held = reader->num_samples();
    bool const holds_all = first <= first_sample_ && first + held >= first_sample_ + count;
    if (!holds_all || (!is_part && held != count)) {
      fail<InputError>("{} holds samples {}, expected {}", path, range_text(first, held),
                       range_text(first_sample_, count));
    }
    skipped_ = static_cast<std::size_t>(first_sample_ - first);
    activations_ = std::move(reader);
  }

  bool has_activations() const { return activations_ != nullptr; }

  /// The file's results for some samples: which are alive, and their activations (without rows if the file holds
  /// categories).
  struct Part {
    std::vector<bool> is_alive;
    SampleSet activations;
  };
  Part part(std::size_t first, std::size_t last) {
    Part part;
    part.is_alive.assign(last - first, false);
    if (!has_activations()) {
      auto const begin = std::ranges::lower_bound(categories_, first_sample_ + first);
      for (auto sample = begin; sample != categories_.end() && *sample < first_sample_ + last; ++sample)
        part.is_alive[static_cast<std::size_t>(*sample - first_sample_ - first)] = true;
      return part;
    }
    part.activations = to_set(activations_->read(skipped_ + first, skipped_ + last));
    auto const& matrix = part.activations.matrix;
    for (std::size_t row = 0; row < matrix.num_rows; ++row) {
      for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry)
        if (matrix.value(entry) != 0.0) part.is_alive[row] = true;
    }
    return part;
  }

private:
  SampleIndex first_sample_ = 0;
  std::vector<SampleIndex> categories_;
  std::unique_ptr<SampleReader> activations_;
  std::size_t skipped_ = 0; ///< number of samples in the file before the first one that is verified
};

/// The difference between two rows of activations.
struct RowDistance {
  /// Largest difference divided by the largest true activation; infinity if all true activations are 0.
  double largest = 0.0;
  bool other_nonzeros = false;
};

RowDistance distance_of(SparseMatrix const& truth, SparseMatrix const& found, std::size_t row) {
  auto const values_of = [&](SparseMatrix const& matrix) {
    std::vector<double> values(truth.num_columns);
    for (EdgeOffset entry = matrix.row_pointers[row]; entry < matrix.row_pointers[row + 1]; ++entry)
      values[matrix.column_indices[entry]] = matrix.value(entry);
    return values;
  };
  auto const values = values_of(truth);
  auto const others = values_of(found);
  double largest = 0.0;
  for (double const value : values) largest = std::max(largest, std::abs(value));
  RowDistance distance;
  for (std::size_t neuron = 0; neuron < values.size(); ++neuron) {
    distance.other_nonzeros |= (values[neuron] == 0.0) != (others[neuron] == 0.0);
    if (values[neuron] != others[neuron])
      distance.largest = std::max(distance.largest, std::abs(values[neuron] - others[neuron]) / largest);
  }
  return distance;
}

/// A sample for which the file is wrong.
struct Difference {
  SampleIndex sample = 0;
  bool is_alive = false;       ///< true category
  bool is_found_alive = false; ///< category in the file
  double distance = 0.0;       ///< largest difference of activations, in units of the sample's largest true activation
};

/// A sample whose category could change by rounding in double.
struct NearTie {
  SampleIndex sample = 0;
  Verdict verdict;
  bool is_alive_in_float = false; ///< category from the reference's plain loops, over the whole network
  bool is_alive_in_double = false;
};

/// The outcome of verifying all samples.
class Comparison {
public:
  /// `tolerance` is the largest accepted difference of activations, in units of the sample's largest true activation.
  explicit Comparison(double tolerance) : tolerance_(tolerance) {}

  void add(Verdicts const& truth, ResultFile::Part const& found, SampleIndex first_sample) {
    bool const has_activations = found.activations.num_samples() > 0;
    for (std::size_t row = 0; row < truth.of_samples.size(); ++row) {
      Verdict const& verdict = truth.of_samples[row];
      SampleIndex const sample = first_sample + row;
      ++num_samples;
      num_alive += verdict.is_alive ? 1 : 0;
      num_certain_in_float += verdict.is_certain_in_float ? 1 : 0;
      num_certain_in_double += verdict.is_certain_in_double ? 1 : 0;
      if (!min_margin || verdict.margin < min_margin->verdict.margin) min_margin = {sample, verdict, false, false};
      RowDistance distance;
      if (has_activations) distance = distance_of(truth.activations.matrix, found.activations.matrix, row);
      num_other_nonzeros += distance.other_nonzeros ? 1 : 0;
      if (distance.largest > largest_distance) {
        largest_distance = distance.largest;
        farthest_sample = sample;
      }
      if (verdict.is_alive != found.is_alive[row] || distance.largest > tolerance_)
        differences.push_back({sample, verdict.is_alive, found.is_alive[row], distance.largest});
    }
  }

  void add(NearTie const& tie) { near_ties.push_back(tie); }

  std::size_t num_samples = 0;
  std::size_t num_alive = 0;
  std::size_t num_certain_in_float = 0;
  std::size_t num_certain_in_double = 0;
  std::size_t num_other_nonzeros = 0; ///< number of samples whose set of nonzero activations differs
  /// Largest difference of activations, in units of the sample's largest true activation.
  double largest_distance = 0.0;
  SampleIndex farthest_sample = 0;
  /// Sample with the least margin; is_alive_in_float and is_alive_in_double are not set.
  std::optional<NearTie> min_margin;
  std::vector<Difference> differences;
  std::vector<NearTie> near_ties;

private:
  double tolerance_;
};

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
  InferOptions run; ///< only network, input, challenge and samples are used
  std::string result;
  bool exact = false;
  double tolerance = 1e-3;
};

char const* word_for(bool is_alive) { return is_alive ? "alive" : "dead"; }

/// Adds the samples that are not certain in double, with their categories from plain loops.
void add_near_ties(NetworkSource const& network, SampleSet const& samples, Verdicts const& truth,
                   Comparison& comparison) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < truth.of_samples.size(); ++row)
    if (!truth.of_samples[row].is_certain_in_double) rows.push_back(row);
  if (rows.empty()) return;
  SampleSet some;
  some.matrix.num_columns = samples.num_neurons();
  for (std::size_t const row : rows) append_rows(some, samples_of(samples, row, row + 1));
  some.first_sample = 0;
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
  if (comparison.min_margin && std::isfinite(comparison.min_margin->verdict.margin)) {
    auto const& [sample, verdict, in_float, in_double] = *comparison.min_margin;
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
  check_files(options.run.files.roles());
  auto const memory = available_memory(Backend::serial);
  auto const source = open_network(options.run.network, options.run.challenge);
  KeptNetwork const network(*source, memory / 4);
  auto const range = parse_samples(options.run.samples);
  auto const samples = open_sample_reader(options.run.input, network.layer(0).num_inputs(), range, memory / 4);
  auto const num_outputs = network.layer(network.num_layers() - 1).num_outputs();
  ResultFile result(options.result, *samples, num_outputs, range.has_value());
  fmt::print("network   {}: {} layers, {} inputs, {} outputs\n", printable(network.name()), network.num_layers(),
             samples->num_neurons(), num_outputs);
  fmt::print("input     {}: {} samples ({}:{})\n", printable(options.run.input), samples->num_samples(),
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
  auto [command, options] = add_command<VerifyOptions>(
      command_line, action, "verify",
      "Check a result of varve infer against a reference in double or in exact arithmetic", verify, false);
  command.footer(verify_footer);
  auto& run = options.run;
  add_data(command, run.files, run.network, run.input);
  add_network_in_text(command, run.challenge);
  OptionGroup const shown(command);
  shown
      .reads(run.files, "--result", options.result,
             "result to check: categories (.tsv, plain or compressed) from varve infer --categories or the challenge's "
             "truth, or activations (.safetensors) from varve infer --activations")
      ->required();
  shown.add("--samples", run.samples, "verify only the samples FIRST:LAST, from 1, both included");
  shown.add("--exact", options.exact, "judge by exact arithmetic instead of double");
  shown.add("--tolerance", options.tolerance,
            "largest accepted error of an activation, in units of the sample's largest true activation",
            at_least_zero());
}

} // namespace varve
