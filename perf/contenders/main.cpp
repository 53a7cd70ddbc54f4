/// Runs a network of Varve's files by the layer loop that a user of cuSPARSE or cuBLAS would write, checks the answer
/// against the reference, and times it. Exit codes as those of varve; 1 if a contender failed or answered wrongly.
#include "layer_loop.hpp"

#include "core/error.hpp"
#include "core/version.hpp"
#include "io/open.hpp"
#include "io/output_file.hpp"
#include "reference/infer.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace varve::contenders {
namespace {

using Json = nlohmann::ordered_json;

/// The loops to run by default: each library in each layout, by the algorithms made for it.
std::vector<std::string> const kContenders = {
    "cusparse-samples-2",       "cusparse-samples-3",   "cusparse-neurons-1",
    "cublas-samples",           "cublas-neurons",       "cusparse-samples-2-graph",
    "cusparse-neurons-1-graph", "cublas-samples-graph", "cublas-neurons-graph"};

struct Options {
  std::string network, input, report;
  std::vector<std::string> contenders = kContenders;
  std::vector<std::size_t> samples;
  std::size_t check = 1000;
  std::size_t repeat = 11;
};

std::vector<std::string> split(std::string const& text) {
  std::vector<std::string> words(1);
  for (char const letter : text) {
    if (letter == '-') {
      words.emplace_back();
    } else {
      words.back() += letter;
    }
  }
  return words;
}

/// "cusparse-samples-2-graph": library, what lies adjacent, algorithm of SpMM, whether the loop is one graph. Throws
/// UsageError.
LoopOptions parse_contender(std::string const& name) {
  auto words = split(name);
  LoopOptions options;
  options.as_graph = words.back() == "graph";
  if (options.as_graph) words.pop_back();
  options.library = words[0];
  bool const has_algorithm = options.library == "cusparse";
  if (words.size() != (has_algorithm ? 3U : 2U) || (words[1] != "samples" && words[1] != "neurons") ||
      (has_algorithm && (words[2].size() != 1 || words[2] < "1" || words[2] > "3"))) {
    throw UsageError(fmt::format("there is no contender '{}'; they are named cusparse-samples-2, cusparse-neurons-1, "
                                 "cublas-samples, cublas-neurons, with another number for another algorithm of SpMM, "
                                 "and -graph for a loop that is one graph",
                                 name));
  }
  options.layout = words[1] == "samples" ? Layout::samples_adjacent : Layout::neurons_adjacent;
  if (has_algorithm) options.algorithm = words[2][0] - '0';
  return options;
}

HostLayer host_layer(Layer const& layer, std::size_t number) {
  if (std::max<std::size_t>({layer.num_inputs(), layer.num_outputs(), layer.num_edges()}) >
      static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw ResourceError(fmt::format("layer {} has more neurons or edges than the contenders count", number));
  HostLayer host;
  host.num_inputs = static_cast<int>(layer.num_inputs());
  host.num_outputs = static_cast<int>(layer.num_outputs());
  host.row_pointers.assign(layer.weights.row_pointers.begin(), layer.weights.row_pointers.end());
  host.columns.assign(layer.weights.column_indices.begin(), layer.weights.column_indices.end());
  host.weights.resize(layer.num_edges());
  for (EdgeOffset edge = 0; edge < layer.num_edges(); ++edge)
    host.weights[edge] = static_cast<float>(layer.weights.value(edge));
  host.bias.resize(layer.num_outputs());
  for (std::size_t output = 0; output < layer.num_outputs(); ++output) host.bias[output] = layer.bias_of(output);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  auto const kind = layer.activation.kind;
  host.lower = kind == ActivationKind::identity ? -infinity : 0.0F;
  host.upper = kind == ActivationKind::clipped_relu ? static_cast<float>(layer.activation.cap) : infinity;
  return host;
}

HostSamples host_samples(SampleSet const& samples) {
  HostSamples host;
  host.num_samples = static_cast<int>(samples.num_samples());
  host.row_pointers = samples.matrix.row_pointers;
  host.neurons.assign(samples.matrix.column_indices.begin(), samples.matrix.column_indices.end());
  host.values.resize(samples.matrix.num_entries());
  for (EdgeOffset entry = 0; entry < samples.matrix.num_entries(); ++entry)
    host.values[entry] = static_cast<float>(samples.matrix.value(entry));
  return host;
}

/// All layers; one removes dead samples if none after it can revive them.
std::vector<HostLayer> host_layers(NetworkSource const& network) {
  std::vector<HostLayer> layers;
  std::size_t first_removing = 0;
  for_each_layer(network, [&](std::size_t number, Layer const& layer) {
    if (!keeps_zero(layer)) first_removing = number;
    layers.push_back(host_layer(layer, number));
  });
  for (std::size_t number = first_removing; number < layers.size(); ++number) layers[number].removes_dead = true;
  return layers;
}

LoopResult run_loop(LoopOptions const& options, std::vector<HostLayer> const& layers, SampleSet const& samples) {
  auto const loop = make_layer_loop(options);
  for (auto const& layer : layers) loop->add(layer);
  return loop->run(host_samples(samples));
}

/// The largest difference of an activation from the reference's, in parts of the largest of its sample; infinite if
/// other samples live.
double largest_difference(LoopResult const& result, SampleSet const& truth) {
  std::vector<int> expected;
  for (auto const sample : categories(truth)) expected.push_back(static_cast<int>(sample - truth.first_sample));
  if (result.live != expected) return std::numeric_limits<double>::infinity();
  double largest = 0.0;
  for (std::size_t place = 0; place < expected.size(); ++place) {
    std::vector<double> difference(truth.num_neurons());
    auto const* const mine = result.activations.data() + place * truth.num_neurons();
    for (std::size_t neuron = 0; neuron < difference.size(); ++neuron) difference[neuron] = mine[neuron];
    double scale = 0.0;
    auto const row = static_cast<std::size_t>(expected[place]);
    for (EdgeOffset entry = truth.matrix.row_pointers[row]; entry < truth.matrix.row_pointers[row + 1]; ++entry) {
      difference[truth.matrix.column_indices[entry]] -= truth.matrix.value(entry);
      scale = std::max(scale, std::abs(truth.matrix.value(entry)));
    }
    for (double const one : difference) largest = std::max(largest, std::abs(one) / scale);
  }
  return largest;
}

/// Throws InputError unless the answer for the samples of `truth` is the reference's. The largest difference found.
double verify(LoopOptions options, std::vector<HostLayer> const& layers, SampleSet const& samples,
              SampleSet const& truth) {
  constexpr double tolerance = 1e-4;
  options.repeat = 1;
  options.is_verified = true;
  auto const part = samples_of(samples, 0, truth.num_samples());
  double const difference = largest_difference(run_loop(options, layers, part), truth);
  if (!(difference <= tolerance)) {
    throw InputError(fmt::format("the answer for the first {} samples differs from the reference's by {:.3g} of the "
                                 "largest activation, expected at most {}",
                                 part.num_samples(), difference, tolerance));
  }
  return difference;
}

double median(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  std::size_t const middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2.0;
}

Json measure(LoopOptions const& options, std::vector<HostLayer> const& layers, SampleSet const& samples) {
  LoopResult const result = run_loop(options, layers, samples);
  double const seconds = median(result.seconds);
  double num_edges = 0.0;
  for (auto const& layer : layers) num_edges += static_cast<double>(layer.weights.size());
  return {{"samples", samples.num_samples()},
          {"survivors", result.live.size()},
          {"loop_seconds", seconds},
          {"loop_seconds_all", result.seconds},
          {"edges_per_second", num_edges * static_cast<double>(samples.num_samples()) / seconds}};
}

/// Verifies a contender, then times it on the first so many samples, for each of these numbers; appends the records.
void measure_all(std::string const& name, Options const& options, std::vector<HostLayer> const& layers,
                 SampleSet const& samples, SampleSet const& truth, Json& records) {
  LoopOptions loop = parse_contender(name);
  loop.repeat = options.repeat;
  double const difference = verify(loop, layers, samples, truth);
  for (std::size_t const count : options.samples) {
    Json record = {{"contender", name}, {"largest_difference", difference}, {"checked_samples", truth.num_samples()}};
    record.update(measure(loop, layers, samples_of(samples, 0, count)));
    fmt::print("{:26} {:6} samples {:10.4f} ms, {} survivors, largest difference {:.1e}\n", name, count,
               1e3 * record["loop_seconds"].get<double>(), record["survivors"].get<std::size_t>(), difference);
    records.push_back(record);
  }
}

/// The same, but if the contender fails, its sentence is the record and others go on.
void try_to_measure(std::string const& name, Options const& options, std::vector<HostLayer> const& layers,
                    SampleSet const& samples, SampleSet const& truth, Json& records) {
  try {
    measure_all(name, options, layers, samples, truth, records);
  } catch (UsageError const&) {
    throw;
  } catch (Error const& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    records.push_back({{"contender", name}, {"failed", error.what()}});
  }
}

void write_report(std::string const& path, Json const& records) {
  if (path.empty()) return;
  Json const report = {{"program", "varve_contender"},
                       {"git_commit", provenance.git_commit},
                       {"device", device_name()},
                       {"records", records}};
  OutputFile file(path);
  file.write(report.dump(2) + "\n");
  file.commit();
}

int run(Options options) {
  auto const network = open_network(options.network);
  SampleSet const samples = open_samples(options.input, network->layer(0).num_inputs());
  if (samples.num_samples() == 0) throw InputError(fmt::format("{} holds no samples", options.input));
  if (options.samples.empty()) options.samples = {samples.num_samples()};
  auto const most = std::ranges::max(options.samples);
  if (most > samples.num_samples())
    throw UsageError(fmt::format("{} holds {} samples, fewer than {}", options.input, samples.num_samples(), most));

  auto const layers = host_layers(*network);
  auto const truth = infer<float>(*network, samples_of(samples, 0, std::min(options.check, most)));
  bool const removes = layers.size() > 1 && layers[layers.size() - 2].removes_dead;
  Json records = Json::array();
  for (auto const& name : options.contenders) {
    if (parse_contender(name).as_graph && removes) continue; // without fixed shapes, no graph
    try_to_measure(name, options, layers, samples, truth, records);
  }
  write_report(options.report, records);
  return std::ranges::any_of(records, [](Json const& record) { return record.contains("failed"); }) ? 1 : 0;
}

void add_options(CLI::App& command, Options& options) {
  command.add_option("--network", options.network, "network file of Varve")->required();
  command.add_option("--input", options.input, "sample file of Varve")->required();
  command.add_option("--contenders", options.contenders, "which to run, named as by default")->capture_default_str();
  command
      .add_option("--samples", options.samples, "how many of the first samples to run (default: all); several times")
      ->check(CLI::PositiveNumber);
  command.add_option("--repeat", options.repeat, "timed runs, of which the median is told")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--check", options.check, "samples to compare with the reference before anything is timed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--report", options.report, "write what was measured as JSON");
}

} // namespace
} // namespace varve::contenders

int main(int num_arguments, char** arguments) {
  CLI::App command("The layer loop by cuSPARSE or cuBLAS, to compare with.", "varve_contender");
  varve::contenders::Options options;
  varve::contenders::add_options(command, options);
  try {
    command.parse(num_arguments, arguments);
    return varve::contenders::run(options);
  } catch (CLI::ParseError const& error) {
    return command.exit(error) == 0 ? 0 : 2;
  } catch (varve::Error const& error) {
    fmt::print(stderr, "varve_contender: {}\n", error.what());
    return static_cast<int>(error.kind());
  } catch (std::exception const& error) {
    fmt::print(stderr, "varve_contender: {}\n", error.what());
    return 4;
  }
}
