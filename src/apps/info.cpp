#include "apps/command.hpp"
#include "core/backend.hpp"
#include "core/error.hpp"
#include "io/input_files.hpp"
#include "io/json_text.hpp"
#include "io/open.hpp"
#include "io/sample_file.hpp"
#include "network/analysis.hpp"

#include <algorithm>

namespace varve {
namespace {

struct InfoOptions {
  std::string path;
  ChallengeOptions challenge;
  bool as_json = false;
  bool plan = false;
  ComputingOptions computing;
  std::string input;
};

Json describe(LayerAnalysis const& layer) {
  return {{"inputs", layer.num_inputs},
          {"outputs", layer.num_outputs},
          {"edges", layer.num_edges},
          {"degree", {{"min", layer.min_degree}, {"mean", layer.mean_degree}, {"max", layer.max_degree}}},
          {"pattern_groups", layer.num_pattern_groups},
          {"largest_pattern_group", layer.largest_pattern_group},
          {"distinct_neurons", layer.num_distinct_neurons},
          {"empty_outputs", layer.num_empty_outputs},
          {"unread_inputs", layer.num_unread_inputs},
          {"equal_weights", layer.is_iso},
          {"keeps_zero", layer.keeps_zero}};
}

Json describe_network(std::string const& name, NetworkAnalysis const& network) {
  Json layers = Json::array();
  for (auto const& layer : network.layers) layers.push_back(describe(layer));
  return {{"name", name},
          {"kind", "network"},
          {"layers", network.layers.size()},
          {"inputs", network.layers.front().num_inputs},
          {"outputs", network.layers.back().num_outputs},
          {"edges", network.num_edges},
          {"degree", {{"min", network.min_degree}, {"mean", network.mean_degree}, {"max", network.max_degree}}},
          {"neurons", network.num_neurons},
          {"distinct_neurons", network.num_distinct_neurons},
          {"empty_outputs", network.num_empty_outputs},
          {"unread_inputs", network.num_unread_inputs},
          {"dead_samples_stay_dead", network.keeps_zero},
          {"per_layer", layers}};
}

/// Prints everything if --json asks for it; returns if it does.
bool is_printed_as_json(InfoOptions const& options, Json const& json) {
  if (options.as_json) fmt::print("{}\n", json_text(json, 2));
  return options.as_json;
}

/// One line per run of layers that look alike.
void print_layers(NetworkAnalysis const& network) {
  fmt::print("{:>13}  {:>17}  {:>11}  {:>15}  {:>14}  {:>8}  {}\n", "layers", "inputs -> outputs", "edges", "degree",
             "pattern groups", "distinct", "notes");
  for (std::size_t first = 0; first < network.layers.size();) {
    auto const& layer = network.layers[first];
    std::size_t last = first;
    while (last + 1 < network.layers.size() && network.layers[last + 1] == layer) ++last;
    std::string notes;
    if (layer.is_iso) notes += "equal weights; ";
    if (!layer.keeps_zero) notes += "revives dead samples; ";
    if (layer.num_empty_outputs > 0) notes += fmt::format("{} empty outputs; ", layer.num_empty_outputs);
    if (layer.num_unread_inputs > 0) notes += fmt::format("{} unread inputs; ", layer.num_unread_inputs);
    if (!notes.empty()) notes.resize(notes.size() - 2);
    fmt::print("{:>13}  {:>17}  {:>11}  {:>15}  {:>14}  {:>8}  {}\n",
               first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last),
               fmt::format("{} -> {}", layer.num_inputs, layer.num_outputs), layer.num_edges,
               layer.min_degree == layer.max_degree
                   ? fmt::format("{}", layer.min_degree)
                   : fmt::format("{}/{:.1f}/{}", layer.min_degree, layer.mean_degree, layer.max_degree),
               layer.num_pattern_groups, layer.num_distinct_neurons, notes);
    first = last + 1;
  }
}

/// The input that a plan is for: that of --input, else a single sample of unknown values. (The steps of the plan depend
/// on the number of samples only if it is an expectation of the engine's options.)
InputShape input_of_plan(NetworkSource const& network, InfoOptions const& options) {
  if (options.input.empty()) return {1, 0};
  constexpr std::size_t buffer_bytes = std::size_t(1) << 26U;
  auto const reader = open_sample_reader(options.input, network.layer(0).num_inputs(), std::nullopt, buffer_bytes);
  return {reader->num_samples(), reader->num_entries(), reader->has_one_value()};
}

/// Prints the plan that the engine would carry out, with reasons.
int info_plan(NetworkSource const& network, InfoOptions const& options) {
  auto engine = engine_options(options.computing);
  auto const input = input_of_plan(network, options);
  if (!options.input.empty()) engine.expected_samples = input.num_samples;
  auto const inference = prepare(network, engine);
  auto const& plan = inference->plan(input);
  require_unchanged_inputs();
  Json choices = Json::array();
  for (auto const& run : runs_of(plan.steps)) {
    choices.push_back(to_json(run));
    if (!options.as_json) fmt::print("{}\n  {}\n", to_text(run), explain(run));
  }
  Json json = {{"name", network.name()},
               {"kind", "plan"},
               {"backend", options.computing.backend},
               {"device", plan.device},
               {"precision", options.computing.precision},
               {"input", options.input},
               {"weight_bytes", plan.weight_bytes},
               {"choices", choices}};
  if (plan.stream) json["stream"] = to_text(*plan.stream);
  add_rewrites(json, plan);
  if (is_printed_as_json(options, json)) return 0;
  print_reductions(json.value("reductions", Json()));
  print_lines({"{edge_order/description}",
               "{weight_bytes:B} of weights on {backend} ({device}), in {precision} precision", "{stream}"},
              json);
  return 0;
}

int info_network(InfoOptions const& options) {
  auto const source = open_network(options.path, options.challenge);
  if (options.plan) return info_plan(*source, options);
  auto const network = analyse(*source);
  require_unchanged_inputs();
  auto json = describe_network(source->name(), network);
  if (is_printed_as_json(options, json)) return 0;
  json["fate"] = network.keeps_zero ? "stay dead" : "can be revived by a layer";
  print_lines({"{name}: network of {layers} layers, {inputs} inputs, {outputs} outputs, {edges} edges "
               "({degree/mean:.1f} per neuron)",
               "{neurons} neurons, {distinct_neurons} of them distinct within their layers; dead samples {fate}"},
              json);
  print_layers(network);
  return 0;
}

/// Facts about the labels and targets of samples: the largest label (null if there are no samples) and the number of
/// outputs.
Json answers_in(std::string const& path) {
  auto answers = Json::object();
  if (kind_of(path) != FileKind::container) return answers;
  auto const header = read_sample_header(path);
  if (header.has_labels) {
    auto const labels = read_sample_labels(path);
    answers["largest_label"] = labels.classes.empty() ? Json() : Json(std::ranges::max(labels.classes));
  }
  if (header.num_targets) answers["targets"] = *header.num_targets;
  return answers;
}

int info_samples(InfoOptions const& options) {
  if (options.plan) fail<UsageError>("{} holds samples; only a network has a plan", options.path);
  auto const samples = open_samples(options.path, options.challenge.neurons);
  auto const answers = answers_in(options.path);
  require_unchanged_inputs();
  SparseMatrix const& matrix = samples.matrix;
  double const cells = static_cast<double>(matrix.num_rows) * static_cast<double>(matrix.num_columns);
  double const density = cells > 0.0 ? static_cast<double>(matrix.num_entries()) / cells : 0.0;
  Json json = {{"name", options.path},
               {"kind", "samples"},
               {"samples", matrix.num_rows},
               {"first_sample", samples.first_sample + 1},
               {"neurons", matrix.num_columns},
               {"entries", matrix.num_entries()},
               {"density", density},
               {"equal_values", matrix.values.size() == 1}};
  json.update(answers);
  if (is_printed_as_json(options, json)) return 0;
  json["percent"] = 100.0 * density;
  json["equal"] = matrix.values.size() == 1 ? ", all of one value" : "";
  if (answers.contains("largest_label"))
    json["labels"] =
        answers["largest_label"].is_null() ? "labels of no sample" : line_of("labels 0 to {largest_label}", json);
  json["wanted"] =
      line_of(json.contains("labels") ? ", targets of {targets} outputs" : "targets of {targets} outputs", json);
  print_lines({"{name}: {samples} samples of {neurons} neurons, {entries} entries ({percent:.2f} % filled{equal})",
               "[{labels}][{wanted}]"},
              json);
  return 0;
}

} // namespace

void add_info(CLI::App& command_line, Action& action) {
  auto* const command =
      command_line.add_subcommand("info", "Describe a network or samples: shape, edges, degrees, patterns");
  auto const options = std::make_shared<InfoOptions>();
  command->add_option("PATH", options->path, "network or samples, in any format")->required();
  add_network_in_text(*command, options->challenge);
  OptionGroup const shown(*command);
  shown.add("--json", options->as_json, "everything, per layer, as JSON");
  shown.add("--plan", options->plan, "which format and kernel each layer gets, and why");
  shown.add("--input", options->input,
            "with --plan: the samples that the plan is for (default: many samples of any values)");
  add_computing_options(*command, options->computing, "with --plan: ");
  command->callback([options, &action] {
    action.uses_devices = options->plan;
    action.run = [options] { return holds_samples(options->path) ? info_samples(*options) : info_network(*options); };
  });
}

} // namespace varve
