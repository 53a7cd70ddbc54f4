#include "apps/command.hpp"
#include "apps/infer_report.hpp"
#include "apps/network_options.hpp"
#include "apps/options_file.hpp"
#include "core/error.hpp"
#include "core/runtime.hpp"
#include "core/stopwatch.hpp"
#include "distribute/communicator.hpp"
#include "engine/inference.hpp"
#include "io/categories.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "io/sample_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

struct InferOptions {
  std::string network, input;
  ChallengeOptions challenge;
  std::string samples;
  std::string truth, categories, activations, predictions, report;
  std::string backend = to_string(compiled_backends().front());
  std::string precision = "float";
  std::string engine = "varve";
  std::optional<std::size_t> batch;
  std::string formats = "auto";
  std::string reductions = "auto";
  std::optional<std::string> kernel;
  bool narrow_tiles = false;
  std::optional<double> memory_limit;
  std::size_t repeat = 1;
};

/// "1:600" -> [0, 600). Throws UsageError.
SampleRange parse_range(std::string const& text) {
  SampleIndex first = 0;
  SampleIndex last = 0;
  char const* const end = text.data() + text.size();
  auto const one = std::from_chars(text.data(), end, first);
  bool const has_colon = one.ec == std::errc() && one.ptr != end && *one.ptr == ':';
  auto const two = has_colon ? std::from_chars(one.ptr + 1, end, last) : one;
  if (!has_colon || two.ec != std::errc() || two.ptr != end || first < 1 || last < first) {
    throw UsageError(fmt::format("--samples is '{}', expected FIRST:LAST with 1 <= FIRST <= LAST", text));
  }
  return {first - 1, last};
}

/// True categories within the samples that are run. Throws InputError if the file names samples beyond the input.
std::vector<SampleIndex> read_truth(InferOptions const& options, SampleRange range) {
  std::vector<SampleIndex> truth = read_categories(options.truth);
  if (!options.samples.empty()) {
    std::erase_if(truth, [&](SampleIndex sample) { return sample < range.first || sample >= range.second; });
  } else if (!truth.empty() && truth.back() >= range.second) {
    throw InputError(
        fmt::format("{} names sample {}, but {} holds samples 1 to {}; compare a part with --samples FIRST:LAST",
                    options.truth, truth.back() + 1, options.input, range.second));
  }
  return truth;
}

/// What all batches of this rank gave.
struct RankResult {
  std::vector<SampleIndex> live_samples;
  std::vector<NeuronIndex> predictions;
  SampleSet activations;
  std::uint64_t activation_hash = 0;
  std::vector<double> loop_seconds;
  double upload_seconds = 0.0;
  double collect_seconds = 0.0;
  double live_edges = 0.0;
};

void append_rows(SampleSet& all, SampleSet const& part) {
  SparseMatrix& matrix = all.matrix;
  if (matrix.num_rows == 0) {
    all = part;
    return;
  }
  EdgeOffset const offset = matrix.num_entries();
  for (std::size_t row = 1; row <= part.num_samples(); ++row) {
    matrix.row_pointers.push_back(offset + part.matrix.row_pointers[row]);
  }
  matrix.num_rows += part.num_samples();
  matrix.column_indices.insert(matrix.column_indices.end(), part.matrix.column_indices.begin(),
                               part.matrix.column_indices.end());
  matrix.values.insert(matrix.values.end(), part.matrix.values.begin(), part.matrix.values.end());
}

RankResult run_batches(Inference& inference, SampleSet const& samples, std::size_t batch, WantedOutputs wanted,
                       std::size_t repeat, Progress const& progress) {
  RankResult all;
  all.loop_seconds.assign(repeat, 0.0);
  all.activations.matrix.num_columns = inference.num_outputs();
  all.activations.first_sample = samples.first_sample;
  for (std::size_t first = 0; first < samples.num_samples(); first += batch) {
    std::size_t const last = std::min(first + batch, samples.num_samples());
    BatchResult const result = inference.infer(samples_of(samples, first, last), wanted);
    all.live_samples.insert(all.live_samples.end(), result.live_samples.begin(), result.live_samples.end());
    all.predictions.insert(all.predictions.end(), result.predictions.begin(), result.predictions.end());
    if (wanted.activations) append_rows(all.activations, result.activations);
    all.activation_hash += result.activation_hash;
    std::ranges::transform(all.loop_seconds, result.loop_seconds, all.loop_seconds.begin(), std::plus<>());
    all.upload_seconds += result.upload_seconds;
    all.collect_seconds += result.collect_seconds;
    all.live_edges += result.live_edges;
    if (progress) progress(last, samples.num_samples());
  }
  return all;
}

/// Writes the categories, predictions and activations that were asked for; rank 0 writes, the others send.
void write_outputs(InferOptions const& options, Communicator const& communicator, RankResult const& mine,
                   SampleRange range, std::vector<SampleIndex> const& live_samples) {
  auto const predictions =
      options.predictions.empty() ? std::vector<NeuronIndex>() : communicator.gather(mine.predictions);
  std::exception_ptr failure; // rank 0 goes on receiving after its disk failed, so that the others can go on as well
  if (!options.activations.empty()) {
    std::optional<SampleFileWriter> writer;
    communicator.gather_rows(mine.activations, [&](SampleSet const& rows) {
      if (failure) return;
      try {
        if (!writer) writer.emplace(options.activations, rows.num_neurons());
        writer->append(rows);
      } catch (Error const&) {
        failure = std::current_exception();
      }
    });
    communicator.together([&] {
      if (failure) std::rethrow_exception(failure);
      if (writer) writer->commit();
    });
  }
  communicator.together([&] {
    if (!communicator.is_root()) return;
    if (!options.categories.empty()) write_categories(options.categories, live_samples);
    if (!options.predictions.empty()) {
      std::vector<SampleIndex> numbers(predictions.size());
      std::iota(numbers.begin(), numbers.end(), range.first);
      write_predictions(options.predictions, numbers, predictions);
    }
  });
}

InferenceOptions engine_options(InferOptions const& options) {
  InferenceOptions engine;
  engine.engine = parse_engine(options.engine);
  engine.backend = parse_backend(options.backend);
  engine.precision = options.precision == "double" ? Precision::double_precision : Precision::single_precision;
  engine.batch = options.batch;
  engine.formats = parse_formats(options.formats);
  engine.reductions = parse_reductions(options.reductions);
  engine.kernel = options.kernel;
  engine.narrow_tiles = options.narrow_tiles;
  engine.repeat = options.repeat;
  if (options.memory_limit)
    engine.memory_limit = static_cast<std::size_t>(*options.memory_limit * 1024.0 * 1024.0 * 1024.0);
  return engine;
}

int infer(InferOptions const& options) {
  Communicator const communicator;
  Stopwatch const total_time;
  InferReport report;
  bool const speaks = communicator.is_root();

  InferenceOptions engine;
  SampleRange range;
  SampleSet samples;
  std::optional<std::vector<SampleIndex>> truth;
  std::unique_ptr<NetworkSource> network;
  Stopwatch const read_time;
  communicator.together([&] {
    engine = engine_options(options);
    network = open_network(options.network, options.challenge);
    std::optional<SampleRange> const wanted =
        options.samples.empty() ? std::nullopt : std::optional(parse_range(options.samples));
    samples = open_samples(options.input, network->layer(0).num_inputs(), wanted);
    range = {samples.first_sample, samples.first_sample + samples.num_samples()};
    if (!options.truth.empty()) truth = read_truth(options, range);
  });
  report.phase("read", read_time.seconds());
  auto const [first, last] = static_part(samples.num_samples(), communicator.rank(), communicator.size());
  if (communicator.size() > 1) samples = samples_of(samples, first, last);

  Stopwatch const prepare_time;
  std::unique_ptr<Inference> inference;
  PlanSummary plan;
  communicator.together([&] {
    inference = prepare(*network, engine);
    plan = inference->plan(samples.num_samples(), samples.matrix.num_entries());
  });
  report.phase("prepare", communicator.max(prepare_time.seconds()));
  report.network(*network, *inference);
  report.samples(options.input, range, communicator.size());
  report.plan(plan, options.backend, options.precision, communicator.gather(plan.device));
  if (speaks) report.print_plan();

  RankResult mine;
  communicator.together([&] {
    WantedOutputs const wanted{!options.activations.empty(), !options.predictions.empty()};
    mine = run_batches(*inference, samples, plan.batch, wanted, options.repeat,
                       speaks ? terminal_progress("inferring samples") : Progress());
  });
  std::vector<double> loop_seconds;
  for (double const seconds : mine.loop_seconds) loop_seconds.push_back(communicator.max(seconds));
  report.phase("upload", communicator.max(mine.upload_seconds));
  report.phase("collect", communicator.max(mine.collect_seconds));
  std::vector<SampleIndex> const live_samples = communicator.gather(mine.live_samples);
  report.result(loop_seconds, live_samples, communicator.sum(mine.activation_hash), communicator.sum(mine.live_edges));

  Stopwatch const write_time;
  write_outputs(options, communicator, mine, range, live_samples);
  report.phase("write", write_time.seconds());
  int exit_code = 0;
  communicator.together([&] {
    if (!communicator.is_root()) return;
    bool const matches = !truth || report.compare(*truth, live_samples);
    exit_code = matches ? 0 : 1;
    report.phase("total", total_time.seconds());
    report.print_result();
    if (!options.report.empty()) report.write(options.report);
  });
  return static_cast<int>(communicator.sum(static_cast<std::uint64_t>(exit_code)));
}

} // namespace

void add_infer(CLI::App& command_line, Action& action) {
  auto* const command = command_line.add_subcommand("infer", "Run samples through a network and say which survive");
  auto const options = std::make_shared<InferOptions>();
  command->add_option("--network", options->network, "network file (.h5) or folder of nN-lK.tsv layer files")
      ->required();
  command->add_option("--input", options->input, "samples: .h5, or text `sample neuron value`, also .gz, .xz, .zst")
      ->required();
  add_network_options(*command, options->challenge);
  command->add_option("--samples", options->samples, "FIRST:LAST, from 1, both included: only these samples");
  command->add_option("--truth", options->truth, "true categories to compare with (exit code 1 if they differ)");
  command->add_option("--categories", options->categories, "write the numbers of the surviving samples, from 1");
  command->add_option("--activations", options->activations,
                      "write the last activations as a sparse sample file (.h5)");
  command->add_option("--predictions", options->predictions,
                      "write sample and neuron of its largest activation, from 1");
  command->add_option("--report", options->report, "write everything measured and decided as JSON");
  command->add_option("--backend", options->backend, "serial, openmp or cuda")->capture_default_str();
  command->add_option("--precision", options->precision, "of activations and weights")
      ->check(CLI::IsMember({"float", "double"}))
      ->capture_default_str();
  command->add_option("--batch", options->batch, "samples at a time (default: what fits)")->check(CLI::PositiveNumber);
  command->add_option("--memory-limit", options->memory_limit, "GiB for weights and samples on the device")
      ->check(CLI::PositiveNumber);
  command->add_option("--repeat", options->repeat, "run the layer loop K times and report the median")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--engine", options->engine, "varve, or to compare: kokkos-kernels, reference")
      ->capture_default_str();
  command
      ->add_option("--formats", options->formats,
                   "auto, or those that layers may be stored in, with commas between: pattern_blocks, staged_blocks, "
                   "sliced_ell, csr")
      ->capture_default_str();
  command
      ->add_option("--reductions", options->reductions,
                   "what is known to be equal and not computed twice: auto, none, or with commas between: "
                   "merge_neurons, fold_constants, drop_unread, saturation")
      ->capture_default_str();
  command->add_option("--kernel", options->kernel,
                      "direct, stationary, staged or fused, where it can run (default: chosen per layer)");
  command->add_flag("--narrow-tiles", options->narrow_tiles, "fewer samples per tile, for studies");
  add_options_file(*command);
  command->callback([options, &action] { action = [options] { return infer(*options); }; });
}

} // namespace varve
