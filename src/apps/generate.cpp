#include "apps/command.hpp"
#include "io/open.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"
#include "radixnet/random_network.hpp"
#include "radixnet/random_samples.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace varve {
namespace {

constexpr char const* output_help = "output, in the format of its ending (.h5, .tsv, .tsv.gz, .tsv.xz, .tsv.zst); a "
                                    "network in text becomes a folder of layer files";

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
    action = [options] {
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
  std::size_t neurons = 1024;
  std::size_t layers = 120;
  std::vector<double> bias;
  std::string output;
};

/// The recipe completed with the other options.
RandomNetworkRecipe recipe_of(RandomOptions const& options) {
  RandomNetworkRecipe recipe = options.recipe;
  if (recipe.widths.empty()) recipe.widths.assign(options.layers + 1, options.neurons);
  if (!recipe.degree && !recipe.density) recipe.degree = 32;
  if (!options.bias.empty()) {
    recipe.lowest_bias = options.bias.front();
    recipe.highest_bias = options.bias.back();
  }
  return recipe;
}

void add_random(CLI::App& generate, Action& action) {
  auto* const command = generate.add_subcommand("random", "Generate a network with random edges, sparse or dense");
  auto const options = std::make_shared<RandomOptions>();
  RandomNetworkRecipe& recipe = options->recipe;
  auto* const neurons = command->add_option("--neurons", options->neurons, "neurons per layer")->capture_default_str();
  auto* const layers = command->add_option("--layers", options->layers, "number of layers")->capture_default_str();
  command
      ->add_option("--widths", recipe.widths,
                   "number of inputs, then outputs of each layer, such as 784,512,10; replaces --neurons and --layers")
      ->delimiter(',')
      ->excludes(neurons)
      ->excludes(layers);
  auto* const degree =
      command->add_option("--degree", recipe.degree, "number of inputs that every output reads (default: 32)");
  command
      ->add_option("--density", recipe.density, "probability of every edge, 1 for a dense network; replaces --degree")
      ->excludes(degree);
  auto* const gain =
      command->add_option("--gain", recipe.gain, "weights are uniform in +- GAIN * sqrt(6 / inputs per output)")
          ->capture_default_str();
  command->add_option("--weight", recipe.weight, "weight of every edge; replaces --gain")->excludes(gain);
  command->add_option("--bias", options->bias, "lowest and highest bias of a neuron, or one bias for all neurons")
      ->expected(1, 2)
      ->default_str("-0.1 0.1");
  command->add_option("--cap", recipe.cap, "cap of the clipped ReLU")->capture_default_str();
  command->add_option("--seed", recipe.seed, "the same seed gives the same network on every machine")
      ->capture_default_str();
  command->add_option("--output", options->output, output_help)->required();
  command->callback([options, &action] {
    action = [options] {
      check_output(options->output);
      save_network(RandomNetwork(recipe_of(*options)), options->output, terminal_progress("writing layers"));
      return 0;
    };
  });
}

struct ImageOptions {
  std::size_t neurons = 1024;
  std::size_t samples = 60000;
  std::uint64_t seed = 1;
  std::string output;
};

/// Draws and writes a limited number of images at a time, so that the output may be larger than memory.
void write_images(ImageOptions const& options) {
  constexpr std::size_t images_at_a_time = 16384;
  auto const progress = terminal_progress("drawing images");
  std::size_t done = 0;
  auto images = digit_images(options.neurons, 0, std::min(images_at_a_time, options.samples), options.seed);
  auto const writer = open_sample_writer(options.output, options.neurons);
  while (true) {
    writer->append(images);
    done += images.num_samples();
    if (progress) progress(done, options.samples);
    if (done == options.samples) break;
    images = digit_images(options.neurons, done, std::min(done + images_at_a_time, options.samples), options.seed);
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
  command->add_option("--output", options->output, output_help)->required();
  command->callback([options, &action] {
    action = [options] {
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
    action = [options] {
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
  add_images(*command, action);
  add_samples(*command, action);
}

} // namespace varve
