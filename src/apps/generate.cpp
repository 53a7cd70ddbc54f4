#include "apps/command.hpp"
#include "core/error.hpp"
#include "io/open.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace varve {
namespace {

/// Options for the initial weights and activations of networks that are to be trained.
struct InitialOptions {
  std::string init;            ///< "he", "identity" or empty
  std::string activation;      ///< name (as in network files) of the activation of all but the last layer; or empty
  std::string last_activation; ///< name of the activation of the last layer, or empty
  double slope = 0.01;         ///< slope of leaky ReLUs below zero
  double cap = 1.0;            ///< cap of clipped ReLUs
};

/// Throws UsageError if there is no activation of this name.
std::optional<Activation> activation_of(std::string const& name, InitialOptions const& options) {
  if (name.empty()) return std::nullopt;
  auto const* const found = find_activation(name);
  if (found == nullptr)
    fail<UsageError>("there is no activation '{}'; there are: {}", name, fmt::join(names_of(all_activations), ", "));
  auto const& entry = *found;
  return make_activation(entry, entry.value == &Activation::cap ? options.cap : options.slope);
}

/// The keys of --activation, but for the cap.
std::vector<OptionKey> activation_keys(InitialOptions& options, std::string const& last) {
  return {text_key("last", options.last_activation, "NAME",
                   "of the last layer; identity for classes, because the softmax belongs to the loss (default: " +
                       last + ")"),
          number_key("slope", options.slope, "S", "of leaky_relu below zero (default: 0.01)")};
}

constexpr char const* init_help =
    "initial weights for training, biases 0: he (random, so that activations keep their size from layer to layer) or "
    "identity (in layers with as many inputs as outputs 1 on the diagonal and small numbers elsewhere: for hundreds "
    "and thousands of layers)";

/// The recipe of these options. Throws UsageError if they contradict each other or a number is out of range.
InitialRecipe recipe_of(InitialOptions const& options, std::uint64_t seed) {
  InitialRecipe recipe;
  recipe.weights = parse_initial_weights(options.init);
  recipe.activation = activation_of(options.activation, options);
  recipe.last_activation = activation_of(options.last_activation, options);
  recipe.seed = seed;
  for (auto const& activation : {recipe.activation, recipe.last_activation}) {
    try {
      if (activation) require_valid(*activation, "--activation");
    } catch (InputError const& error) {
      throw UsageError(error.what());
    }
  }
  return recipe;
}

constexpr char const* random_footer = R"(
A sparse network that is ready to be trained to tell 10 classes of images of 28 x 28 pixels:
  varve generate random --widths 784,512,512,10 --density 0.05 --init he --output start.safetensors
With --init he, the weights of an output with d edges are uniform with mean 0 and variance 2 / (1 + slope^2) / d, where
slope is that of the activation below zero (0 for relu; 1 for identity and curves). With --init identity, a layer with
as many inputs as outputs has an edge of weight 1 from each input to the output of the same number, beside the others,
whose variance is 1 / (d * depth), where depth is the number of such layers; the other layers are as with he. Weights are
exact in float and depend on the seed, the layer, the output and the input only.)";

/// What all outputs have.
struct Output {
  std::uint64_t seed = 1;
  std::string output;
  CommandFiles files;
};

/// Adds a subcommand that writes one output with work(options), after its files were checked, and needs no device.
template <class Options>
std::pair<CLI::App&, Options&> add_generator(CLI::App& generate, Action& action, std::string const& name,
                                             std::string const& about, void (*work)(Options const&)) {
  auto const run = [work](Options const& options) {
    check_files(options.files.roles());
    work(options);
    return 0;
  };
  auto [command, options] = add_command<Options>(generate, action, name, about, run, false);
  OptionGroup const shown(command);
  shown.add("--seed", options.seed, "the same seed gives the same output on every machine");
  shown
      .writes(options.files, "--output", options.output, Content::network_or_samples,
              "output, in the format of its ending (.safetensors, .tsv, .tsv.gz, .tsv.xz, .tsv.zst); a network in text "
              "becomes a folder of layer files")
      ->required();
  return {command, options};
}

struct RadixNetOptions : Output {
  std::size_t neurons = 1024;
  std::size_t layers = 120;
  std::optional<double> bias;
  double cap = kChallengeCap;
};

void write_radixnet(RadixNetOptions const& options) {
  double const bias = options.bias ? *options.bias : radixnet_bias(options.neurons);
  RadixNet const network(options.neurons, options.layers, options.seed, bias, options.cap);
  save_network(network, options.output, terminal_progress("writing layers"));
}

void add_radixnet(CLI::App& generate, Action& action) {
  auto [command, options] =
      add_generator(generate, action, "radixnet", "Generate a network with the structure of the challenge's networks",
                    write_radixnet);
  OptionGroup const shown(command);
  shown.add("--neurons", options.neurons, "neurons per layer, a power of two, at least 32");
  shown.add("--layers", options.layers, "number of layers");
  shown.add("--bias", options.bias, "bias of every neuron (default: the challenge's bias for this width)");
  shown.add("--cap", options.cap, "cap of the clipped ReLU");
}

struct RandomOptions : Output {
  RandomNetworkRecipe recipe;
  InitialOptions initial;
  std::size_t neurons = 1024;
  std::size_t layers = 120;
  std::vector<double> bias;
  std::optional<double> gain;
};

/// The recipe completed with the other options. Throws UsageError if there are too many layers.
RandomNetworkRecipe recipe_of(RandomOptions const& options) {
  constexpr std::size_t max_layers = std::size_t{1} << 32U;
  if (options.layers > max_layers) fail<UsageError>("--layers is {}, expected at most {}", options.layers, max_layers);
  RandomNetworkRecipe recipe = options.recipe;
  recipe.seed = options.seed;
  if (recipe.widths.empty()) recipe.widths.assign(options.layers + 1, options.neurons);
  if (!recipe.degree && !recipe.density) recipe.degree = 32;
  if (options.gain && recipe.weight) throw UsageError("--init takes gain or weight, not both");
  recipe.gain = options.gain.value_or(recipe.gain);
  if (!options.bias.empty()) {
    recipe.lowest_bias = options.bias.front();
    recipe.highest_bias = options.bias.back();
  }
  return recipe;
}

void generate_random(RandomOptions const& options) {
  RandomNetwork const network(recipe_of(options));
  auto const progress = terminal_progress("writing layers");
  auto initial = options.initial;
  bool const has_activation = !(initial.activation + initial.last_activation).empty();
  if (initial.init.empty() && has_activation)
    throw UsageError("--activation needs --init he or identity; other random networks have clipped ReLUs");
  if (initial.init.empty()) return save_network(network, options.output, progress);
  if (options.recipe.weight || options.gain || !options.bias.empty())
    throw UsageError("--init he and identity choose all weights and biases; leave gain, weight and --bias out");
  initial.cap = options.recipe.cap;
  if (initial.activation.empty()) initial.activation = "relu";
  if (initial.last_activation.empty()) initial.last_activation = "identity";
  save_network(InitialNetwork(network, recipe_of(initial, options.seed)), options.output, progress);
}

void add_random(CLI::App& generate, Action& action) {
  auto [command, options] = add_generator(generate, action, "random",
                                          "Generate a network with random edges, sparse or dense", generate_random);
  command.footer(random_footer);
  OptionGroup const shown(command);
  RandomNetworkRecipe& recipe = options.recipe;
  auto* const neurons = shown.add("--neurons", options.neurons, "neurons per layer");
  auto* const layers = shown.add("--layers", options.layers, "number of layers");
  shown
      .add("--widths", recipe.widths,
           "number of inputs, then outputs of each layer, such as 784,512,10; replaces --neurons and --layers")
      ->delimiter(',')
      ->excludes(neurons)
      ->excludes(layers);
  auto* const degree = shown.add("--degree", recipe.degree, "number of inputs that every output reads (default: 32)");
  shown.add("--density", recipe.density, "probability of every edge, 1 for a dense network; replaces --degree")
      ->excludes(degree);
  shown.add_keys("--init",
                 {number_key("gain", options.gain, "G", "uniform in +- G * sqrt(6 / inputs per output) (default: 1)"),
                  number_key("weight", recipe.weight, "W", "of every edge")},
                 std::string(init_help) + "; or weights for inference:", &options.initial.init, {"he", "identity"});
  shown
      .add("--bias", options.bias,
           "lowest and highest bias of a neuron, or one bias for all; not with --init he|identity")
      ->expected(1, 2)
      ->default_str("-0.1 0.1");
  shown.add("--cap", recipe.cap, "cap of the clipped ReLU");
  shown.add_keys("--activation", activation_keys(options.initial, "identity"),
                 "with --init he|identity: activation of all layers but the last (default: relu):",
                 &options.initial.activation, names_of(all_activations));
}

struct WeightOptions : Output {
  std::string network;
  InitialOptions initial;
};

void generate_weights(WeightOptions const& options) {
  ChallengeOptions challenge;
  std::error_code error;
  if (std::filesystem::is_directory(options.network, error)) challenge.bias = 0.0; // text stores no bias
  auto const pattern = open_network(options.network, challenge);
  save_network(InitialNetwork(*pattern, recipe_of(options.initial, options.seed)), options.output,
               terminal_progress("writing layers"));
}

void add_weights(CLI::App& generate, Action& action) {
  auto [command, options] =
      add_generator(generate, action, "weights",
                    "Generate initial weights for training, on the edges of a network; its weights and biases are lost",
                    generate_weights);
  OptionGroup const shown(command);
  shown
      .reads(options.files, "--network", options.network,
             "network file (.safetensors) or folder of nN-lK.tsv layer files with the edges")
      ->required();
  shown.add_keys("--init", {}, init_help, &options.initial.init, {"he", "identity"})->required();
  auto keys = activation_keys(options.initial, "that of the network");
  keys.push_back(number_key("cap", options.initial.cap, "C", "of clipped_relu (default: 1)"));
  shown.add_keys("--activation", keys,
                 "activation of all layers but the last (default: that of the network):", &options.initial.activation,
                 names_of(all_activations));
}

struct ImageOptions : Output {
  std::size_t neurons = 1024;
  std::size_t samples = 60000;
  bool official_survivors = false;
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
  auto [command, options] = add_generator(generate, action, "images", "Generate digit-like 0/1 images", write_images);
  OptionGroup const shown(command);
  shown.add("--neurons", options.neurons, "pixels per image, a power of two, at least 32");
  shown.add("--samples", options.samples, "number of images");
  shown.add("--official-survivors", options.official_survivors,
            "thinner strokes at 4096, 16384 and 65536 neurons, so that about as many of 60000 images survive the "
            "challenge's networks as of the official images; only for these widths and 1024");
}

struct SampleOptions : Output {
  std::size_t neurons = 1024;
  std::size_t samples = 10000;
  double density = 0.5;
};

void add_samples(CLI::App& generate, Action& action) {
  auto const write = [](SampleOptions const& options) {
    save_samples(random_samples(options.neurons, options.samples, options.density, options.seed), options.output);
  };
  auto [command, options] =
      add_generator<SampleOptions>(generate, action, "samples", "Generate samples of random values from 0 to 1", write);
  OptionGroup const shown(command);
  shown.add("--neurons", options.neurons, "neurons per sample");
  shown.add("--samples", options.samples, "number of samples");
  shown.add("--density", options.density, "probability that a neuron holds a value");
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
