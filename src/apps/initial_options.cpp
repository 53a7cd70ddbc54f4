#include "apps/initial_options.hpp"

#include "apps/options.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

namespace varve {
namespace {

std::optional<Activation> activation_of(std::optional<std::string> const& name, InitialOptions const& options) {
  if (!name) return std::nullopt;
  auto const& entry = *find_activation(*name);
  return make_activation(entry, entry.value == &Activation::cap ? options.cap : options.slope);
}

} // namespace

CLI::Option* add_initial_options(CLI::App& command, InitialOptions& options, InitialDefaults const& defaults) {
  OptionGroup const shown(command);
  auto* const init = shown.add("--init", options.init,
                               "initial weights for training, biases 0: he (random, so that activations keep their "
                               "size from layer to layer) or identity (in layers with as many inputs as outputs 1 on "
                               "the diagonal and small numbers elsewhere: for hundreds and thousands of layers)",
                               CLI::IsMember({"he", "identity"}));
  CLI::IsMember const is_activation(activation_names());
  shown
      .add("--activation", options.activation,
           "with --init: activation of all layers but the last (default: " + defaults.activation + ")", is_activation)
      ->needs(init);
  shown
      .add("--last-activation", options.last_activation,
           "with --init: activation of the last layer; identity for classes, because the softmax belongs to the loss "
           "(default: " +
               defaults.last_activation + ")",
           is_activation)
      ->needs(init);
  shown.add("--slope", options.slope, "with --init: slope of leaky_relu below zero")->needs(init);
  return init;
}

InitialRecipe recipe_of(InitialOptions const& options, std::uint64_t seed) {
  InitialRecipe recipe;
  recipe.weights = parse_initial_weights(options.init.value_or("he"));
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

} // namespace varve
