#include "apps/shared_folder.hpp"

#include "io/open.hpp"
#include "radixnet/network.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::expect_sentence;
using test::joined;
using test::run_varve;
using test::succeed;
using varve::test::read_bytes;
using varve::test::TemporaryFolder;

class InitialWeightsCommand : public ::testing::Test {
protected:
  std::string path(std::string const& name) const { return (folder_ / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(InitialWeightsCommand, GeneratedNetworksAreReadyToTrain) {
  auto const layers_of = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "generate");
    words.insert(words.end(), {"--output", path("start.safetensors")});
    succeed(words);
    return load(*open_network(path("start.safetensors"))).layers();
  };
  RandomNetworkRecipe random;
  random.widths = {40, 50, 50, 10};
  random.density = 0.2;
  random.seed = 7;
  InitialRecipe recipe{InitialWeights::he, Activation::relu(), Activation::identity(), 7};
  EXPECT_EQ(layers_of({"random", "--widths", "40,50,50,10", "--density", "0.2", "--seed", "7", "--init", "he"}),
            load(InitialNetwork(RandomNetwork(random), recipe)).layers());
  recipe = {InitialWeights::identity, Activation::clipped_relu(3.0), Activation::tanh(), 7};
  EXPECT_EQ(layers_of({"random", "--widths", "40,50,50,10", "--density", "0.2", "--seed", "7", "--init", "identity",
                       "--activation", "clipped_relu", "--cap", "3", "--activation", "last=tanh"}),
            load(InitialNetwork(RandomNetwork(random), recipe)).layers());
  recipe = {InitialWeights::he, Activation::leaky_relu(0.2), Activation::identity(), 7};
  EXPECT_EQ(layers_of({"random", "--widths", "40,50,50,10", "--density", "0.2", "--seed", "7", "--init", "he",
                       "--activation", "leaky_relu", "--activation", "slope=0.2"}),
            load(InitialNetwork(RandomNetwork(random), recipe)).layers());

  succeed({"generate", "radixnet", "--neurons", "64", "--layers", "3", "--output", path("net.safetensors")});
  auto const source = load(*open_network(path("net.safetensors")));
  recipe = {InitialWeights::identity, std::nullopt, std::nullopt, 9};
  EXPECT_EQ(layers_of({"weights", "--network", path("net.safetensors"), "--init", "identity", "--seed", "9"}),
            load(InitialNetwork(source, recipe)).layers());
  succeed({"generate", "radixnet", "--neurons", "64", "--layers", "3", "--output", path("text")});
  recipe = {InitialWeights::identity, Activation::clipped_relu(5.0), Activation::identity(), 9};
  EXPECT_EQ(layers_of({"weights", "--network", path("text"), "--init", "identity", "--seed", "9", "--activation",
                       "clipped_relu,cap=5,last=identity"}),
            load(InitialNetwork(source, recipe)).layers());
  for (auto const& activation : {Activation::sigmoid(), Activation::softplus()}) {
    recipe = {InitialWeights::he, activation, Activation::identity(), 1};
    EXPECT_EQ(layers_of({"weights", "--network", path("net.safetensors"), "--init", "he", "--activation",
                         entry_of(activation.kind).name, "--activation", "last=identity"}),
              load(InitialNetwork(source, recipe)).layers());
  }
}

TEST_F(InitialWeightsCommand, InitialWeightsThatMakeNoSenseAreRefused) {
  succeed({"generate", "radixnet", "--neurons", "64", "--layers", "2", "--output", path("net.safetensors")});
  auto const bytes = read_bytes(path("net.safetensors"));
  std::vector<std::vector<std::string>> const wrong = {
      {"random", "--init", "zeros"},
      {"random", "--init", "he", "--bias", "0"},
      {"random", "--init", "he", "--init", "weight=1"},
      {"random", "--init", "he", "--init", "gain=1"},
      {"random", "--activation", "relu"},
      {"random", "--init", "he", "--activation", "swish"},
      {"random", "--init", "he", "--activation", "leaky_relu", "--activation", "slope=1"},
      {"random", "--init", "he", "--activation", "clipped_relu", "--cap", "-1"},
      {"random", "--widths", "40,30", "--degree", "3", "--init", "identity"},
      {"weights", "--network", path("net.safetensors")},
      {"weights", "--init", "he"},
  };
  for (auto const& words : wrong) {
    expect_sentence(run_varve(joined(joined({"generate"}, words), {"--output", path("start.safetensors")})), 2, {},
                    ::testing::PrintToString(words));
  }
  expect_sentence(run_varve({"generate", "weights", "--network", path("net.safetensors"), "--init", "he", "--output",
                             path("net.safetensors")}),
                  2, {"would replace what --network"});
  expect_sentence(run_varve({"generate", "weights", "--network", path("no.safetensors"), "--init", "he", "--output",
                             path("x.safetensors")}),
                  3, {"no.safetensors"});
  EXPECT_EQ(read_bytes(path("net.safetensors")), bytes);
  EXPECT_EQ(folder_.num_entries(), 1);
}

} // namespace
} // namespace varve
