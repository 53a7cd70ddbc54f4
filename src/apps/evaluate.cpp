#include "apps/command.hpp"
#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "io/input_files.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"

#include <algorithm>

namespace varve {
namespace {

constexpr std::size_t max_described = 1000; // most classes of a confusion matrix in a report
constexpr std::size_t max_printed = 16;     // most classes of a confusion matrix on the terminal
constexpr std::size_t max_errors = 10;

double part(std::size_t count, std::size_t all) {
  return all == 0 ? 0.0 : static_cast<double>(count) / static_cast<double>(all);
}

using Matrix = std::vector<std::vector<std::uint64_t>>;

/// The confusion with a row for each label and a column for each predicted class.
Matrix matrix_of(Evaluation const& evaluation, std::size_t num_classes) {
  Matrix matrix(num_classes, std::vector<std::uint64_t>(num_classes, 0));
  for (auto const& [classes, count] : evaluation.confusion()) matrix[classes.first][classes.second] = count;
  return matrix;
}

void print_matrix(Matrix const& matrix) {
  std::size_t width = 5;
  for (auto const& row : matrix) {
    for (auto const count : row) width = std::max(width, fmt::formatted_size("{}", count) + 1);
  }
  fmt::print("confusion rows: labels, columns: predicted classes\n{:>7}", "");
  for (std::size_t column = 0; column < matrix.size(); ++column) fmt::print("{:>{}}", column, width);
  fmt::print("   right\n");
  for (std::size_t label = 0; label < matrix.size(); ++label) {
    std::uint64_t all = 0;
    fmt::print("{:>7}", label);
    for (auto const count : matrix[label]) {
      fmt::print("{:>{}}", count, width);
      all += count;
    }
    fmt::print("{:>8}\n", all == 0 ? "-" : fmt::format("{:.1f} %", 100.0 * part(matrix[label][label], all)));
  }
}

void print_errors(Evaluation const& evaluation) {
  std::vector<std::pair<std::uint64_t, std::pair<NeuronIndex, NeuronIndex>>> errors;
  for (auto const& [classes, count] : evaluation.confusion())
    if (classes.first != classes.second) errors.emplace_back(count, classes);
  if (errors.empty()) return;
  auto const comes_first = [](auto const& left, auto const& right) {
    return left.first != right.first ? left.first > right.first : left.second < right.second;
  };
  std::ranges::sort(errors, comes_first);
  fmt::print("confusion the most frequent of {} kinds of errors\n", errors.size());
  for (std::size_t i = 0; i < std::min(max_errors, errors.size()); ++i) {
    auto const& [count, classes] = errors[i];
    fmt::print("  label {} taken for {}: {} samples\n", classes.first, classes.second, count);
  }
}

constexpr char const* evaluate_footer = R"(
Loss of a sample with the last activations x, in double:
  cross-entropy  -log(softmax(x)[label]), where softmax(x)[j] = exp(x[j]) / (sum of all exp(x))
  mean-square    the mean over the outputs j of (x[j] - target[j])^2; without targets, 1 for the label and 0 elsewhere
  logistic       the mean over the outputs j of log(1 + exp(x[j])) - x[j] target[j]: binary cross-entropy of sigmoid(x[j]);
                 with one output the target is the label, 0 or 1, and class 1 is predicted where x[0] > 0
  huber          the mean over the outputs j of d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2), d = x[j] - target[j]
The loss printed is the mean over the samples, added up in their order. The predicted class is the largest output, the
lowest of equal ones. Classes count from 0, as labels do. The report's `confusion` has a row for each label and a column
for each predicted class (null if there are more than 1000 outputs).
Example, from the files of MNIST or Fashion-MNIST:
  varve evaluate --network trained.safetensors --input t10k-images-idx3-ubyte.gz --labels t10k-labels-idx1-ubyte.gz)";

struct EvaluateOptions {
  InferOptions run; ///< network, samples, and the options of the engine
  std::string labels, targets;
  std::optional<std::string> loss;
  double delta = Loss().delta;
  std::size_t top = 5;
};

/// The state of an evaluation.
struct EvaluateJob {
  std::unique_ptr<NetworkSource> network;
  std::unique_ptr<SampleReader> samples;
  std::optional<Labels> labels;
  std::unique_ptr<SampleReader> targets;
  AnswerFiles files; ///< for messages
  std::size_t num_outputs = 0, num_classes = 0;
  Loss loss;
  std::size_t top = 5; ///< as in Evaluation
};

/// Loss, accuracy and confusion as JSON for a report. The confusion is a matrix with a row for each label and a column
/// for each predicted class, or null if there are more than 1000 classes.
Json describe(Evaluation const& evaluation, EvaluateJob const& job) {
  auto const& sum = evaluation.sum();
  Json json = {{"samples", sum.num_samples}, {"loss", {{"name", to_string(job.loss)}, {"mean", sum.mean()}}}};
  if (!job.labels) return json;
  json["accuracy"] = sum.accuracy();
  json["right"] = sum.num_right;
  json["top"] = {{"outputs", job.top}, {"accuracy", part(evaluation.num_in_top(), sum.num_samples)}};
  json["confusion"] = Json();
  if (job.num_classes <= max_described) json["confusion"] = matrix_of(evaluation, job.num_classes);
  return json;
}

/// Prints loss, accuracy and confusion: the whole matrix for up to 16 classes, else the most frequent errors.
void print(Evaluation const& evaluation, EvaluateJob const& job) {
  auto const& sum = evaluation.sum();
  fmt::print("loss      {:.9g} ({})\n", sum.mean(), to_string(job.loss));
  if (!job.labels) return;
  fmt::print("accuracy  {:.6g} ({} of {} samples)\n", sum.accuracy(), sum.num_right, sum.num_samples);
  fmt::print("top {:<6}{:.6g} ({} of {} samples)\n", job.top, part(evaluation.num_in_top(), sum.num_samples),
             evaluation.num_in_top(), sum.num_samples);
  if (job.num_classes <= max_printed) {
    print_matrix(matrix_of(evaluation, job.num_classes));
  } else {
    print_errors(evaluation);
  }
}

/// Opens labels and targets: from the files that options name, else from the input.
void open_answers(EvaluateJob& job, EvaluateOptions const& options) {
  auto const range = range_of(*job.samples);
  auto const others = options.run.samples.empty() ? OtherSamples::refused : OtherSamples::ignored;
  job.files = with_own_answers({options.run.input, options.labels, options.targets});
  bool const wants_targets = !options.targets.empty() || !options.loss || entry_of(job.loss).takes_targets;
  if (!job.files.labels.empty()) {
    job.labels = open_labels(job.files.labels, range, others);
    require_classes(*job.labels, job.num_classes, job.files.labels);
  }
  if (!job.files.targets.empty() && wants_targets)
    job.targets = open_targets(job.files.targets, job.num_outputs, range, others);
}

/// Chooses the loss if options name none. Throws UsageError if the labels or targets that it needs are missing.
void choose_loss(EvaluateJob& job, EvaluateOptions const& options) {
  bool const needs_labels = options.loss && !entry_of(job.loss).takes_targets;
  if (needs_labels && !job.labels) throw UsageError("the loss cross-entropy needs labels; give a file with --labels");
  if (needs_labels && !options.targets.empty()) throw UsageError("--targets is for the other losses");
  if (!job.labels && !job.targets) {
    fail<InputError>(
        "{} has neither labels nor targets; give a file with --labels or --targets, or add them with varve convert",
        options.run.input);
  }
  bool const has_values_only = !job.labels || !options.targets.empty();
  if (!options.loss && has_values_only) job.loss = Loss::mean_square;
  if (!entry_of(job.loss).takes_targets) job.targets.reset();
}

EvaluateJob open_job(EvaluateOptions const& options) {
  auto const& run = options.run;
  EvaluateJob job;
  job.network = open_network(run.network);
  job.samples = open_sample_reader(run.input, job.network->layer(0).num_inputs(), parse_samples(run.samples),
                                   input_bytes(run, 1));
  if (job.samples->num_samples() == 0) fail<InputError>("{} holds no samples to evaluate", run.input);
  job.num_outputs = job.network->layer(job.network->num_layers() - 1).num_outputs();
  if (options.loss) job.loss = parse_loss(*options.loss, options.delta);
  job.num_classes = job.loss.num_classes(job.num_outputs);
  job.top = std::min(options.top, job.num_classes);
  open_answers(job, options);
  choose_loss(job, options);
  return job;
}

/// Prepares the network and limits the samples at a time, so that they and their outputs fit in memory.
std::unique_ptr<Inference> prepare_job(EvaluateJob const& job, EvaluateOptions const& options) {
  constexpr std::size_t bytes_per_output = 64; // stored activation, its copy, and targets
  auto const& samples = *job.samples;
  auto engine = engine_options(options.run);
  limit_memory(engine, 1);
  auto const memory = input_bytes(options.run, 1);
  auto const most = std::min({samples.num_samples(), samples_that_fit(samples, memory),
                              static_cast<std::size_t>(max_samples_at_a_time(engine.backend)),
                              std::max<std::size_t>(1, memory / bytes_per_output / job.num_outputs)});
  if (engine.batch) engine.batch = std::min(*engine.batch, samples.num_samples());
  engine.expected_samples = std::min(samples.num_samples(), engine.batch.value_or(most));
  auto inference = prepare(*job.network, engine);
  auto const part = static_cast<double>(most) / static_cast<double>(samples.num_samples());
  inference->plan({engine.batch.value_or(most),
                   static_cast<EdgeOffset>(static_cast<double>(samples.num_entries()) * part),
                   samples.has_one_value()});
  return inference;
}

Evaluation run_job(EvaluateJob const& job, Inference& inference) {
  Evaluation evaluation(job.num_outputs, job.loss, job.top);
  auto const progress = terminal_progress("evaluating samples");
  auto const num_samples = job.samples->num_samples();
  for (std::size_t first = 0; first < num_samples;) {
    auto const last = std::min(first + inference.plan().batch, num_samples);
    auto const result = inference.infer(job.samples->read(first, last), {.activations = true});
    WantedOutcome wanted;
    if (job.labels) wanted.labels = std::span(job.labels->classes).subspan(first, last - first);
    SampleSet targets;
    if (job.targets) {
      targets = to_set(job.targets->read(first, last));
      require_targets(targets.matrix, job.loss, job.files.targets, targets.first_sample);
      wanted.targets = &targets.matrix;
    }
    evaluation.add(result.activations.matrix, wanted);
    first = last;
    if (progress) progress(last, num_samples);
  }
  return evaluation;
}

Json report_of(EvaluateJob const& job, EvaluateOptions const& options) {
  auto report = report_head("varve evaluate");
  report["network"] = {{"name", job.network->name()},
                       {"layers", job.network->num_layers()},
                       {"inputs", job.samples->num_neurons()},
                       {"outputs", job.num_outputs}};
  report["input"] = {{"name", options.run.input},
                     {"first_sample", job.samples->first_sample() + 1},
                     {"samples", job.samples->num_samples()}};
  if (job.labels) report["labels"] = job.files.labels;
  if (job.targets) report["targets"] = job.files.targets;
  report["backend"] = options.run.backend;
  report["precision"] = options.run.precision;
  return report;
}

int evaluate(EvaluateOptions const& options) {
  auto const& run = options.run;
  check_files(run.files.roles());
  auto const job = open_job(options);
  run.files.require_writable();
  Stopwatch const stopwatch;
  auto const inference = prepare_job(job, options);
  auto report = report_of(job, options);
  auto shown = report;
  shown["last_sample"] = job.samples->first_sample() + job.samples->num_samples();
  print_lines({"network   {network/name}: {network/layers} layers, {network/inputs} inputs, {network/outputs} outputs",
               "input     {input/name}: {input/samples} samples ({input/first_sample}:{last_sample})",
               "labels    {labels}", "targets   {targets}", "engine    varve on {backend}, {precision}"},
              shown);
  auto const evaluation = run_job(job, *inference);
  require_unchanged_inputs();
  report["seconds"] = stopwatch.seconds();
  report.update(describe(evaluation, job));
  if (!run.report.empty()) write_report(run.report, report);
  print_lines({"time      {seconds:s}"}, report);
  print(evaluation, job); // last: a failure to print loses no output
  return 0;
}

} // namespace

void add_evaluate(CLI::App& command_line, Action& action) {
  auto [command, options] = add_command<EvaluateOptions>(
      command_line, action, "evaluate",
      "Measure how well a network answers: loss, accuracy, and which classes it confuses", evaluate);
  command.footer(evaluate_footer);
  auto& run = options.run;
  add_data(command, run.files, run.network, run.input);
  OptionGroup const shown(command);
  shown.add("--samples", run.samples, "evaluate only the samples FIRST:LAST, from 1, both included");
  shown.reads(run.files, "--labels", options.labels,
              "the class of each sample, from 0: .safetensors, IDX, or text with one class per line (default: those in "
              "the input)");
  shown.reads(run.files, "--targets", options.targets,
              "the outputs wanted of each sample: the targets of a sample file (.safetensors) or, if it has none, its "
              "samples, or a matrix of another program (default: those in the input)");
  shown.add("--loss", options.loss,
            "cross-entropy (default if there are labels), mean-square (default with --targets), logistic or huber",
            CLI::IsMember(names_of(all_losses)));
  shown.add("--delta", options.delta, "with --loss huber: the error from which on the loss is a line");
  shown.add("--top", options.top, "also count samples whose label is among the K largest outputs", above_zero());
  add_report(shown, run.files, run.report);
  add_run_options(command, run);
}

} // namespace varve
