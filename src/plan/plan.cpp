#include "plan/plan.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace varve {
namespace {

bool are_alike(Step const& one, Step const& other) {
  return one.kernel == other.kernel && one.reads_bits == other.reads_bits && one.choice.format == other.choice.format &&
         one.choice.shape == other.choice.shape && one.choice.range_inputs == other.choice.range_inputs &&
         one.choice.index_bits == other.choice.index_bits && one.num_strips == other.num_strips &&
         (one.num_strips == 1 || one.first_layer == other.first_layer);
}

void append(StepRun& run, Step const& next) {
  ++run.num_launches;
  run.step.last_layer = next.last_layer;
  LayerChoice& sum = run.step.choice;
  sum.num_edges += next.choice.num_edges;
  sum.num_stored += next.choice.num_stored;
  sum.num_staged_inputs += next.choice.num_staged_inputs;
  sum.num_cones += next.choice.num_cones;
  sum.num_layers += next.choice.num_layers;
}

std::string format_text(Step const& step) {
  LayerChoice const& choice = step.choice;
  if (step.kernel == KernelName::counts) return "edges by input";
  if (step.kernel == KernelName::entries) return "CSC";
  std::string text = entry_of(choice.format).text;
  if (choice.format == FormatName::pattern_blocks || choice.format == FormatName::dense)
    text += fmt::format(" of {} outputs", choice.shape.block_outputs);
  if (choice.range_inputs > 0) text += fmt::format(" in ranges of {} inputs", choice.range_inputs);
  return text;
}

std::string index_text(Step const& step) {
  bool const has_indices = step.kernel != KernelName::counts && step.choice.format != FormatName::dense;
  return !has_indices ? "" : fmt::format(", {}-bit indices", step.choice.index_bits);
}

double ratio(EdgeOffset part, EdgeOffset whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

double layers_per_launch(StepRun const& run) {
  return static_cast<double>(run.step.num_layers()) / static_cast<double>(run.num_launches);
}

std::string explain_blocks(double stored) {
  constexpr double rounded_to_one = 1.005;
  if (stored < rounded_to_one) return "outputs share whole input lists: blocks of them read each input once";
  constexpr double many = 2.005;
  if (stored < many)
    return fmt::format("outputs share inputs: blocks of them store {:.2f} weights per edge and read each input once",
                       stored);
  return fmt::format("blocks of outputs store {:.2f} weights per edge, zeros included, and read each input once",
                     stored);
}

/// The reason for the format of these layers, in words.
std::string explain_format(StepRun const& run) {
  LayerChoice const& choice = run.step.choice;
  double const stored = ratio(choice.num_stored, choice.num_edges);
  switch (choice.format) {
  case FormatName::cones:
    return fmt::format(
        "outputs depend on so few neurons, even over several layers, that {} groups of them are computed "
        "by themselves, {:.1f} layers in one pass over the activations",
        choice.num_cones, layers_per_launch(run));
  case FormatName::dense:
    return fmt::format("dense enough that a dense product is faster: {:.2f} weights are stored "
                       "per edge, zeros included, and no indices",
                       stored);
  case FormatName::pattern_blocks:
    return explain_blocks(stored);
  case FormatName::staged_blocks:
    return fmt::format(
        "outputs share inputs, though not whole lists: an input brought into scratch serves {:.1f} edges",
        ratio(choice.num_edges, choice.num_staged_inputs));
  case FormatName::sliced_ell:
    if (run.step.kernel == KernelName::small_batch)
      return fmt::format("outputs with about as many edges are neighbours: slices of {} store {:.2f} weights per edge",
                         choice.shape.slice_width, stored);
    if (choice.range_inputs > 0)
      return "outputs share few inputs and have many: the lines of a range of inputs stay in the L1 while all outputs "
             "read them";
    return fmt::format("outputs share few inputs; their degrees differ little: padding stores {:.2f} weights per edge",
                       stored);
  case FormatName::csr:
    if (run.step.num_strips > 1) return "rows are stored without padding, which takes the least bytes for any pattern";
    return "outputs share few inputs and differ much in degree: rows are stored without padding";
  }
  return "";
}

/// The reason for the kernel of these layers, in words; may be empty.
std::string explain_kernel(StepRun const& run) {
  switch (run.step.kernel) {
  case KernelName::fused:
    return fmt::format("; tiles {}stay in team scratch for {:.1f} layers a launch",
                       run.step.choice.fused_tile == FusedTile::wide
                           ? fmt::format("of {} samples take more than 48 KiB, which the device gives to kernels that "
                                         "ask for it, and ",
                                         run.step.choice.tile_samples)
                           : "",
                       layers_per_launch(run));
  case KernelName::split_output:
    return "; samples are few: the outputs of each layer are spread over the device";
  case KernelName::small_batch:
    return fmt::format("; samples are few: {}; {:.1f} layers a launch",
                       run.step.choice.tile_samples == 1 ? "the lanes of vectors hold outputs of one sample"
                                                         : "a thread computes neighbouring outputs together",
                       layers_per_launch(run));
  case KernelName::dense:
    return "; inputs and weights pass through team scratch";
  case KernelName::stationary:
    return "; weights stay in team scratch while the live samples pass by, found through their list";
  default:
    return "";
  }
}

/// The reason for strips, in words; empty if layers are whole.
std::string explain_strips(Step const& step) {
  if (step.num_strips == 1) return "";
  return fmt::format("; two buffers for the whole layer do not fit the device, so its outputs are computed in {} "
                     "strips, which pass through it one after another",
                     step.num_strips);
}

} // namespace

std::vector<StepRun> runs_of(std::vector<Step> const& steps) {
  std::vector<StepRun> runs;
  for (auto const& step : steps) {
    if (!runs.empty() && are_alike(runs.back().step, step)) {
      append(runs.back(), step);
    } else {
      runs.push_back({1, step});
    }
  }
  return runs;
}

std::string to_text(StepRun const& run) {
  Step const& step = run.step;
  std::string const layers = step.num_layers() == 1 ? fmt::format("layer {}", step.first_layer)
                                                    : fmt::format("layers {}-{}", step.first_layer, step.last_layer);
  return fmt::format("{}: {} kernel, {}{}, {} launch{}{}", layers, to_string(step.kernel), format_text(step),
                     index_text(step), run.num_launches, run.num_launches == 1 ? "" : "es",
                     step.reads_bits ? "; samples read as bits" : "") +
         (step.num_strips == 1 ? "" : fmt::format("; in {} strips of outputs", step.num_strips));
}

std::string explain(StepRun const& run) {
  if (run.step.kernel == KernelName::counts) {
    return "the values of all samples are equal, and so are the weights and biases of this layer: it counts the "
           "entries "
           "that each output reads";
  }
  if (run.step.kernel == KernelName::entries)
    return "samples have few entries: this layer reads the edges of these alone, and nothing is written for other "
           "inputs";
  if (run.step.kernel == KernelName::bits)
    return "the values of all samples are equal: this layer adds up weights where bits of samples are set";
  std::string const bits =
      run.step.reads_bits ? "; the values of all samples are equal: they are read as bits, never as numbers" : "";
  return explain_format(run) + explain_kernel(run) + bits + explain_strips(run.step);
}

std::vector<std::string> to_text(Plan const& plan) {
  std::vector<std::string> lines;
  for (auto const& run : runs_of(plan.steps)) lines.push_back(to_text(run));
  if (!plan.method.empty()) lines.push_back(plan.method);
  if (plan.stream) lines.push_back(to_text(*plan.stream));
  return lines;
}

std::string to_text(StreamSummary const& stream) {
  constexpr double mebibyte = 1024.0 * 1024.0;
  auto text = fmt::format("weights streamed: {} segments through {} buffers of {:.1f} MiB", stream.num_segments,
                          stream.num_buffers, static_cast<double>(stream.buffer_bytes) / mebibyte);
  if (stream.num_resident > 0) text += fmt::format("; {} of them stay on the device", stream.num_resident);
  if (stream.num_remade > 0)
    text += fmt::format("; {} are read and encoded again each time, for the host cannot keep them", stream.num_remade);
  return text;
}

std::string to_text(EdgeOrderReport const& order) {
  return fmt::format("edges of {} layer{} ordered against bank conflicts: {:.2f} wavefronts a step, {:.2f} if they "
                     "ascended; in {:.3f} s of all threads",
                     order.num_layers, order.num_layers == 1 ? "" : "s", order.chosen.wavefronts_per_step(),
                     order.ascending.wavefronts_per_step(), order.seconds);
}

nlohmann::ordered_json to_json(StepRun const& run) {
  Step const& step = run.step;
  nlohmann::ordered_json json = {{"first_layer", step.first_layer},
                                 {"last_layer", step.last_layer},
                                 {"launches", run.num_launches},
                                 {"kernel", to_string(step.kernel)},
                                 {"format", format_text(step)},
                                 {"index_bits", step.choice.index_bits},
                                 {"tile_samples", step.choice.tile_samples},
                                 {"reads_bits", step.reads_bits},
                                 {"edges", step.choice.num_edges},
                                 {"stored_weights", step.choice.num_stored},
                                 {"staged_inputs", step.choice.num_staged_inputs},
                                 {"why", explain(run)}};
  if (step.num_strips > 1) json["strips"] = step.num_strips;
  return json;
}

nlohmann::ordered_json to_json(Plan const& plan) {
  auto steps = nlohmann::ordered_json::array();
  for (auto const& run : runs_of(plan.steps)) steps.push_back(to_json(run));
  nlohmann::ordered_json json = {{"choices", to_text(plan)},
                                 {"steps", steps},
                                 {"batch", plan.batch},
                                 {"tile_samples", plan.tile_samples()},
                                 {"weight_bytes", plan.weight_bytes},
                                 {"panel_bytes", plan.panel_bytes},
                                 {"sample_bytes", plan.sample_bytes}};
  if (!plan.stream) return json;
  json["stream"] = {{"description", to_text(*plan.stream)},
                    {"segments", plan.stream->num_segments},
                    {"resident_segments", plan.stream->num_resident},
                    {"remade_segments", plan.stream->num_remade},
                    {"buffers", plan.stream->num_buffers},
                    {"buffer_bytes", plan.stream->buffer_bytes},
                    {"host_bytes", plan.stream->host_bytes}};
  return json;
}

} // namespace varve
