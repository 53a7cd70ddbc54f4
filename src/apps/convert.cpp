#include "apps/command.hpp"
#include "core/error.hpp"
#include "io/foreign_files.hpp"
#include "io/open.hpp"
#include "io/sample_file.hpp"
#include "network/layer_memory.hpp"
#include "passes/pruned_network.hpp"
#include "passes/reduced_network.hpp"

#include <algorithm>

namespace varve {
namespace {

constexpr char const* convert_footer = R"(
Samples may have labels (the class of each) and targets (the outputs wanted of it), which a network is trained with; only
safetensors have a place for them. IDX files are recognized by their content, compressed or not. MNIST becomes a sample file by
  varve convert train-images-idx3-ubyte.gz train.safetensors --labels train-labels-idx1-ubyte.gz
Pruning keeps floor(DENSITY * places + 1/2) edges, where a layer has outputs * inputs places, or all edges if there are
fewer: those with the largest absolute weights, of equal ones those of the lowest layers (with over=network), then
outputs, then inputs. Biases stay.)";

/// The options of `varve convert` as given by the user.
struct ConvertOptions {
  std::string source, target;
  ChallengeOptions challenge;
  std::string labels;                ///< file with the labels; empty: labels of the source, if it has any
  std::string targets;               ///< file with the targets; empty: targets of the source, if it has any
  bool drops_answers = false;        ///< leaves out labels and targets of the source
  std::optional<std::string> pixels; ///< values of IDX images: "unit" (default) or "raw"
  bool reduce = false;
  std::string density; ///< edges that stay by pruning; empty: all
  std::string over;    ///< what has the density: each "layer" (default), or the "network"
  CommandFiles files;
};

/// Warns of layers without edges, whose outputs are those of their biases for every sample.
void say_which_are_empty(PrunedNetwork const& network) {
  constexpr std::size_t most = 20;
  auto const numbers = network.emptied_layers();
  if (numbers.empty()) return;
  say(fmt::format(
      "varve: pruning leaves no edge in {} of {} layers, whose outputs do not depend on the sample any more: "
      "layer {}",
      numbers.size(), network.num_layers(), list_of_first(most, numbers)));
}

/// The density of --prune. Throws UsageError unless it is above 0 and at most 1.
double density_of(ConvertOptions const& options) {
  double density = 0.0;
  if (!CLI::detail::lexical_cast(options.density, density) || !(density > 0.0 && density <= 1.0))
    fail<UsageError>("--prune is {}, expected a number above 0 and at most 1", options.density);
  return density;
}

void convert_network(NetworkSource const& network, ConvertOptions const& options) {
  if (options.density.empty() && !options.over.empty()) throw UsageError("--prune over=... needs a density: --prune D");
  auto const& target = options.target;
  auto const progress = terminal_progress("converting layers");
  auto const quarter = available_memory(Backend::serial) / 4;
  auto const kept_bytes = std::min(std::size_t{4} << 30U, quarter); // rewritten layers beyond it are rewritten twice
  if (options.reduce) {
    auto const bytes_ahead = std::min(std::size_t{1} << 30U, quarter); // layers read while those before are rewritten
    ReducedNetwork const reduced(network, {.merge_outputs = false}, kept_bytes, bytes_ahead);
    save_network(reduced, target, progress);
    print_reductions(describe(reduced.report()));
  } else if (!options.density.empty()) {
    KeptNetwork const kept(network, kept_bytes);
    auto const scope = options.over == "network" ? PruneScope::network : PruneScope::layer;
    PrunedNetwork const pruned(kept, density_of(options), scope);
    save_network(pruned, target, progress);
    say_which_are_empty(pruned);
  } else {
    save_network(network, target, progress);
  }
}

/// The labels and targets of the samples of a file.
struct AddedAnswers {
  std::optional<Labels> labels;
  std::unique_ptr<SampleReader> targets;
};

std::unique_ptr<SampleReader> open_source(ConvertOptions const& options) {
  auto const half_of_memory = available_memory(Backend::serial) / 2; // unsorted text must be sorted in memory
  if (!options.pixels)
    return open_sample_reader(options.source, options.challenge.neurons, std::nullopt, half_of_memory);
  if (kind_of(options.source) != FileKind::idx)
    fail<UsageError>("--pixels is for IDX images, but {} is not an IDX file", options.source);
  auto const scale = *options.pixels == "raw" ? PixelScale::raw : PixelScale::unit;
  auto images = open_idx_images(options.source, std::nullopt, scale);
  if (options.challenge.neurons) require_width(options.source, images->num_neurons(), *options.challenge.neurons);
  return images;
}

AddedAnswers open_answers(ConvertOptions const& options, SampleReader const& samples) {
  AddedAnswers answers;
  if (options.drops_answers) return answers;
  auto const files = with_own_answers({options.source, options.labels, options.targets});
  auto const range = range_of(samples);
  if (!files.labels.empty()) answers.labels = open_labels(files.labels, range, OtherSamples::refused);
  if (!files.targets.empty()) answers.targets = open_targets(files.targets, std::nullopt, range, OtherSamples::refused);
  return answers;
}

/// Rewrites samples, with their labels and targets, in the format that the target's name implies. Converts a limited
/// number of samples at a time, so that the input may be larger than memory; all labels are in memory, with 4 bytes per
/// sample. Throws UsageError if the options do not fit the files, and what reading and writing throw.
void convert_samples(ConvertOptions const& options) {
  constexpr std::size_t max_samples = 16384;
  constexpr std::size_t value_bytes = 64; // of a value with its column, read, copied and written
  auto const max_values = std::min(std::size_t{1} << 26U, available_memory(Backend::serial) / 2 / value_bytes);
  auto const reader = open_source(options);
  auto const answers = open_answers(options, *reader);
  auto const writer = open_sample_writer(options.target, reader->num_neurons());
  if (answers.labels) writer->append_labels(*answers.labels);
  auto const progress = terminal_progress("converting samples");
  auto const num_samples = reader->num_samples();
  auto const at_a_time =
      std::clamp<std::size_t>(max_values / std::max<std::size_t>(reader->num_neurons(), 1), 1, max_samples);
  std::size_t done = 0;
  do {
    auto const last = std::min(done + at_a_time, num_samples);
    if (answers.targets) writer->append_targets(to_set(answers.targets->read(done, last)));
    writer->append(to_set(reader->read(done, last)));
    done = last;
    if (progress) progress(done, num_samples);
  } while (done < num_samples);
  writer->commit();
}

/// Throws UsageError if an option for samples was given with a network.
void require_no_sample_options(ConvertOptions const& options) {
  char const* const option = !options.labels.empty()    ? "--labels"
                             : !options.targets.empty() ? "--targets"
                             : options.pixels           ? "--pixels"
                             : options.drops_answers    ? "--samples-only"
                                                        : nullptr;
  if (option != nullptr) fail<UsageError>("{} is for samples; {} holds none", option, options.source);
}

int convert(ConvertOptions const& options) {
  check_files(options.files.roles());
  if (holds_samples(options.source)) {
    if (options.reduce || !options.density.empty())
      fail<UsageError>("{} holds samples; only a network can be {}", options.source,
                       options.reduce ? "reduced" : "pruned");
    convert_samples(options);
  } else {
    auto const network = open_network(options.source, options.challenge);
    require_no_sample_options(options);
    convert_network(*network, options);
  }
  return 0;
}

void add_sample_options(CLI::App& command, ConvertOptions& options) {
  OptionGroup const shown(command);
  auto* const labels =
      shown.reads(options.files, "--labels", options.labels,
                  "labels of the samples, which DST gets: .safetensors, IDX, or text with one class per "
                  "line, from 0 (default: those of SRC)");
  auto* const targets = shown.reads(
      options.files, "--targets", options.targets,
      "targets of the samples, which DST gets: those of a sample file (.safetensors) or, if it has none, its "
      "samples, or Matrix Market (default: those of SRC)");
  shown.add("--samples-only", options.drops_answers, "leave out the labels and targets of SRC")
      ->excludes(labels)
      ->excludes(targets);
  shown.add("--pixels", options.pixels,
            "values of IDX images: unit (byte / 255, rounded to float; default) or raw (0 to 255)",
            CLI::IsMember({"unit", "raw"}));
}

void add_rewrites(CLI::App& command, ConvertOptions& options) {
  OptionGroup const shown(command);
  auto* const reduce = shown.add(
      "--reduce", options.reduce,
      "write a smaller network with the same outputs: merge equal neurons, fold constants, drop unread neurons");
  shown
      .add_keys("--prune",
                {name_key("over", options.over, {"layer", "network"},
                          "what has this density: each layer, or the network as a whole")},
                "DENSITY (above 0, at most 1): write a network without its smallest weights, of which this part of "
                "inputs times outputs stays:",
                &options.density)
      ->excludes(reduce);
}

} // namespace

void add_convert(CLI::App& command_line, Action& action) {
  auto [command, options] = add_command<ConvertOptions>(
      command_line, action, "convert", "Rewrite a network or samples in another format", convert, false);
  command.footer(convert_footer);
  OptionGroup const shown(command);
  shown
      .reads(options.files, "SRC", options.source, "input: a network or samples, in any format that varve infer takes")
      ->required();
  shown
      .writes(options.files, "DST", options.target, Content::network_or_samples,
              "output, in the format of its ending (.safetensors, .tsv, .tsv.gz, .tsv.xz, .tsv.zst); a network in text "
              "becomes a folder")
      ->required();
  add_network_in_text(command, options.challenge);
  add_sample_options(command, options);
  add_rewrites(command, options);
}

} // namespace varve
