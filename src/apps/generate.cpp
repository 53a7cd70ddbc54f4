#include "apps/command.hpp"
#include "apps/initial_options.hpp"
#include "core/error.hpp"
#include "io/open.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace varve {
namespace {

constexpr char const* output_help =
    "output, in the format of its ending (.safetensors, .tsv, .tsv.gz, .tsv.xz, .tsv.zst); a "
    "network in text becomes a folder of layer files";

constexpr char const* random_footer = R"(
A sparse network that is ready to be trained to tell 10 classes of images of 28 x 28 pixels:
  varve generate random --widths 784,512,512,10 --density 0.05 --init he --output start.safetensors
With --init he, the weights of an output with d edges are uniform with mean 0 and variance 2 / (1 + slope^2) / d, where
slope is that of the activation below zero (0 for relu; 1 for identity and curves). With --init identity, a layer with
as many inputs as outputs has an edge of weight 1 from each input to the output of the same number, beside the others,
whose variance is 1 / (d * depth), where depth is the number of such layers; the other layers are as with he. Weights are
exact in float and depend on the seed, the layer, the output and the input only.)";

void check_output(std::string const& path) {
  FileRoles files;
  files.writes("--output", path, Content::network_or_samples);
  check_files(files);
}

struct RadixNetOptions {
  std::size_t neurons = 1024;
  std::size_t layers = 120;
  std::uint64_t seed = 1;
  std::optional<double> bias;
  double cap = kChallengeCap;
  std::string output;
};

void add_radixnet(CLI::App& generate, Action& action) {
  auto* const command =
      generate.add_subcommand("radixnet", "Generate a network with the structure of the challenge's networks");
  auto const options = std::make_shared<RadixNetOptions>();
  command->add_option("--neurons", options->neurons, "neurons per layer, a power of two, at least 32")
      ->capture_default_str();
  command->add_option("--layers", options->layers, "number of layers")->capture_default_str();
  command->add_option("--seed", options->seed, "the same seed gives the same network on every machine")
      ->capture_default_str();
  command->add_option("--bias", options->bias, "bias of every neuron (default: the challenge's bias for this width)");
  command->add_option("--cap", options->cap, "cap of the clipped ReLU")->capture_default_str();
  command->add_option("--output", options->output, output_help)->required();
  command->callback([options, &action] {
    action.uses_devices = false;
    action.run = [options] {
      check_output(options->output);
      double const bias = options->bias ? *options->bias : radixnet_bias(options->neurons);
      RadixNet const network(options->neurons, options->layers, options->seed, bias, options->cap);
      save_network(network, options->output, terminal_progress("writing layers"));
      return 0;
    };
  });
}

struct RandomOptions {
  RandomNetworkRecipe recipe;
  InitialOptions initial;
  std::size_t neurons = 1024;
  std::size_t layers = 120;
  std::vector<double> bias;
  std::string output;
};

/// The recipe completed with the other options. Throws UsageError if there are too many layers.
RandomNetworkRecipe recipe_of(RandomOptions const& options) {
  constexpr std::size_t most_layers = std::size_t{1} << 32U;
  if (options.layers > most_layers)
    throw UsageError(fmt::format("--layers is {}, expected at most {}", options.layers, most_layers));
  RandomNetworkRecipe recipe = options.recipe;
  if (recipe.widths.empty()) recipe.widths.assign(options.layers + 1, options.neurons);
  if (!recipe.degree && !recipe.density) recipe.degree = 32;
  if (!options.bias.empty()) {
    recipe.lowest_bias = options.bias.front();
    recipe.highest_bias = options.bias.back();
  }
  return recipe;
}

void generate_random(RandomOptions const& options) {
  check_output(options.output);
  RandomNetwork const network(recipe_of(options));
  auto const progress = terminal_progress("writing layers");
  if (!options.initial.init) return save_network(network, options.output, progress);
  auto initial = options.initial;
  initial.cap = options.recipe.cap;
  if (!initial.activation) initial.activation = "relu";
  if (!initial.last_activation) initial.last_activation = "identity";
  save_network(InitialNetwork(network, recipe_of(initial, options.recipe.seed)), options.output, progress);
}

/// Adds the options of the pattern of edges.
void add_pattern(CLI::App& command, RandomOptions& options) {
  RandomNetworkRecipe& recipe = options.recipe;
  auto* const neurons = command.add_option("--neurons", options.neurons, "neurons per layer")->capture_default_str();
  auto* const layers = command.add_option("--layers", options.layers, "number of layers")->capture_default_str();
  command
      .add_option("--widths", recipe.widths,
                  "number of inputs, then outputs of each layer, such as 784,512,10; replaces --neurons and --layers")
      ->delimiter(',')
      ->excludes(neurons)
      ->excludes(layers);
  auto* const degree =
      command.add_option("--degree", recipe.degree, "number of inputs that every output reads (default: 32)");
  command
      .add_option("--density", recipe.density, "probability of every edge, 1 for a dense network; replaces --degree")
      ->excludes(degree);
}

void add_random(CLI::App& generate, Action& action) {
  auto* const command = generate.add_subcommand("random", "Generate a network with random edges, sparse or dense");
  command->footer(random_footer);
  auto const options = std::make_shared<RandomOptions>();
  RandomNetworkRecipe& recipe = options->recipe;
  add_pattern(*command, *options);
  auto* const gain =
      command->add_option("--gain", recipe.gain, "weights are uniform in +- GAIN * sqrt(6 / inputs per output)")
          ->capture_default_str();
  auto* const weight =
      command->add_option("--weight", recipe.weight, "weight of every edge; replaces --gain")->excludes(gain);
  auto* const bias =
      command->add_option("--bias", options->bias, "lowest and highest bias of a neuron, or one bias for all neurons")
          ->expected(1, 2)
          ->default_str("-0.1 0.1");
  command->add_option("--cap", recipe.cap, "cap of the clipped ReLU")->capture_default_str();
  command->add_option("--seed", recipe.seed, "the same seed gives the same network on every machine")
      ->capture_default_str();
  add_initial_options(*command, options->initial, {"relu", "identity"})
      ->excludes(gain)
      ->excludes(weight)
      ->excludes(bias);
  command->add_option("--output", options->output, output_help)->required();
  command->callback([options, &action] {
    action.uses_devices = false;
    action.run = [options] {
      generate_random(*options);
      return 0;
    };
  });
}

struct WeightOptions {
  std::string network;
  InitialOptions initial;
  std::uint64_t seed = 1;
  std::string output;
};

void generate_weights(WeightOptions const& options) {
  FileRoles files;
  files.reads("--network", options.network);
  files.writes("--output", options.output, Content::network_or_samples);
  check_files(files);
  ChallengeOptions challenge;
  std::error_code error;
  if (std::filesystem::is_directory(options.network, error)) challenge.bias = 0.0; // text stores no bias
  auto const pattern = open_network(options.network, challenge);
  save_network(InitialNetwork(*pattern, recipe_of(options.initial, options.seed)), options.output,
               terminal_progress("writing layers"));
}

void add_weights(CLI::App& generate, Action& action) {
  auto* const command = generate.add_subcommand(
      "weights", "Generate initial weights for training, on the edges of a network; its weights and biases are lost");
  auto const options = std::make_shared<WeightOptions>();
  command
      ->add_option("--network", options->network,
                   "network file (.safetensors) or folder of nN-lK.tsv layer files with the edges")
      ->required();
  command->add_option("--cap", options->initial.cap, "cap of clipped_relu")->capture_default_str();
  command->add_option("--seed", options->seed, "the same seed gives the same weights on every machine")
      ->capture_default_str();
  add_initial_options(*command, options->initial, {"that of the network", "that of the network"})->required();
  command->add_option("--output", options->output, output_help)->required();
  command->callback([options, &action] {
    action.uses_devices = false;
    action.run = [options] {
      generate_weights(*options);
      return 0;
    };
  });
}

struct ImageOptions {
  std::size_t neurons = 1024;
  std::size_t samples = 60000;
  std::uint64_t seed = 1;
  bool official_survivors = false;
  std::string output;
};

/// Draws and writes a limited number of images at a time, so that the output may be larger than memory.
void write_images(ImageOptions const& options) {
  constexpr std::size_t images_at_a_time = 16384;
  auto const progress = terminal_progress("drawing images");
  auto const strokes = options.official_survivors ? Strokes::official_survivors : Strokes::official_density;
  auto const draw = [&](std::size_t first) {
    auto const last = std::min(first + images_at_a_time, options.samples);
    return digit_images(options.neurons, first, last, options.seed, strokes);
  };
  std::size_t done = 0;
  auto images = draw(done);
  auto const writer = open_sample_writer(options.output, options.neurons);
  while (true) {
    writer->append(images);
    done += images.num_samples();
    if (progress) progress(done, options.samples);
    if (done == options.samples) break;
    images = draw(done);
  }
  writer->commit();
}

void add_images(CLI::App& generate, Action& action) {
  auto* const command = generate.add_subcommand("images", "Generate digit-like 0/1 images");
  auto const options = std::make_shared<ImageOptions>();
  command->add_option("--neurons", options->neurons, "pixels per image, a power of two, at least 32")
      ->capture_default_str();
  command->add_option("--samples", options->samples, "number of images")->capture_default_str();
  command->add_option("--seed", options->seed, "the same seed gives the same images on every machine")
      ->capture_default_str();
  command->add_flag(
      "--official-survivors", options->official_survivors,
      "thinner strokes at 4096, 16384 and 65536 neurons, so that about as many of 60000 images survive the "
      "challenge's networks as of the official images; only for these widths and 1024");
  command->add_option("--output", options->output, output_help)->required();
  command->callback([options, &action] {
    action.uses_devices = false;
    action.run = [options] {
      check_output(options->output);
      write_images(*options);
      return 0;
    };
  });
}

struct SampleOptions {
  std::size_t neurons = 1024;
  std::size_t samples = 10000;
  double density = 0.5;
  std::uint64_t seed = 1;
  std::string output;
};

void add_samples(CLI::App& generate, Action& action) {
  auto* const command = generate.add_subcommand("samples", "Generate samples of random values from 0 to 1");
  auto const options = std::make_shared<SampleOptions>();
  command->add_option("--neurons", options->neurons, "neurons per sample")->capture_default_str();
  command->add_option("--samples", options->samples, "number of samples")->capture_default_str();
  command->add_option("--density", options->density, "probability that a neuron holds a value")->capture_default_str();
  command->add_option("--seed", options->seed, "the same seed gives the same samples on every machine")
      ->capture_default_str();
  command->add_option("--output", options->output, output_help)->required();
  command->callback([options, &action] {
    action.uses_devices = false;
    action.run = [options] {
      check_output(options->output);
      save_samples(random_samples(options->neurons, options->samples, options->density, options->seed),
                   options->output);
      return 0;
    };
  });
}

} // namespace

void add_generate(CLI::App& command_line, Action& action) {
  auto* const command = command_line.add_subcommand("generate", "Write a synthetic network or synthetic samples");
  command->require_subcommand(1);
  add_radixnet(*command, action);
  add_random(*command, action);
  add_weights(*command, action);
  add_images(*command, action);
  add_samples(*command, action);
}

} // namespace varve
