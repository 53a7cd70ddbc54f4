#include "io/layer_list.hpp"

#include "io/files.hpp"
#include "io/natural_order.hpp"
#include "io/npy_bytes.hpp"
#include "io/open.hpp"

#include <string>
#include <vector>

namespace varve {
namespace {

using testing::expect_holds;
using testing::npy;
using testing::sentence_about;
using testing::sentence_of;
using testing::TemporaryFolder;
using testing::write_bytes;

std::string weights(std::uint64_t rows, std::uint64_t columns, float value) {
  return npy("<f4", {rows, columns}, std::vector<float>(rows * columns, value));
}

/// Weights of 2 x 3, then 4 x 2.
TemporaryFolder const& fill(TemporaryFolder const& folder) {
  write_bytes(folder / "a10.npy", weights(4, 2, 2));
  write_bytes(folder / "a9.npy", weights(2, 3, 1));
  write_bytes(folder / "bias.npy", npy("<f8", {4}, std::vector<double>{1, 2, 3, 4}));
  return folder;
}

TEST(LayerList, DescribesWeightsBiasesAndActivations) {
  TemporaryFolder const folder;
  fill(folder);
  write_bytes(folder / "network.json", R"( {"activation": "clipped_relu", "cap": 2, "layers":
    ["a9.npy", {"weights": "a10.npy", "bias": "bias.npy", "activation": "sigmoid"}]})");
  for (auto const& path : {folder.path(), folder / "network.json"}) {
    EXPECT_TRUE(is_layer_list(path));
    EXPECT_FALSE(holds_samples(path));
    auto const network = open_network(path);
    ASSERT_EQ(network->num_layers(), 2U);
    EXPECT_EQ(network->layer(0), (Layer{{2, 3, {0, 3, 6}, {0, 1, 2, 0, 1, 2}, {1}}, {0}, Activation::clipped_relu(2)}));
    EXPECT_EQ(network->layer(1).bias, (std::vector<double>{1, 2, 3, 4}));
    EXPECT_EQ(network->layer(1).activation, Activation::sigmoid());
  }
  EXPECT_EQ(layer_list_files(folder.path()),
            (std::vector<std::filesystem::path>{folder / "network.json", folder / "a9.npy", folder / "a10.npy",
                                                folder / "bias.npy"}));
  auto const before = network_checksum(folder.path());
  write_bytes(folder / "bias.npy", npy("<f8", {4}, std::vector<double>{1, 2, 3, 5}));
  EXPECT_NE(network_checksum(folder.path()), before);
}

TEST(LayerList, AFolderOfMatricesTakesWhatOptionsSay) {
  TemporaryFolder const folder;
  write_bytes(folder / "a10.npy", weights(4, 2, 2));
  write_bytes(folder / "a9.npy", weights(2, 3, 1));
  ChallengeOptions options;
  options.activation = "leaky_relu";
  options.slope = 0.5;
  options.bias = -1.0;
  auto const network = open_network(folder.path(), options);
  EXPECT_EQ(network->layer(0).num_inputs(), 3U);
  EXPECT_EQ(network->layer(1).num_outputs(), 4U);
  EXPECT_EQ(network->layer(1).bias, std::vector<double>{-1});
  EXPECT_EQ(network->layer(1).activation, Activation::leaky_relu(0.5));
  expect_holds(sentence_of<UsageError>([&] { open_network(folder.path()); }),
               "holds weights, but nothing says which activation follows them; add --activation");
  options.layers = 3;
  EXPECT_EQ(sentence_of<UsageError>([&] { open_network(folder.path(), options); }),
            "the number of layers 3 was asked for, but " + folder.path().string() + " says 2");
}

TEST(LayerList, HiddenFilesOfAFolderAreNoLayers) {
  TemporaryFolder const folder;
  write_bytes(folder / "a1.npy", weights(2, 3, 1));
  write_bytes(folder / ".a2.npy", weights(7, 5, 1));
  ChallengeOptions options;
  options.activation = "relu";
  EXPECT_EQ(open_network(folder.path(), options)->num_layers(), 1U);
}

TEST(LayerList, BiasesAmongTheMatricesOfAFolderAreNamed) {
  TemporaryFolder const folder;
  fill(folder);
  ChallengeOptions options;
  options.activation = "relu";
  EXPECT_EQ(sentence_about(folder.path(), [&] { open_network(folder.path(), options); }),
            ": layer 2: found a list of 4 numbers in " + (folder / "bias.npy").string() +
                ", expected a matrix of weights (the biases of layers are named in a JSON list of layers, "
                "network.json)");
}

TEST(LayerList, OrientationIsAskedForAndNoted) {
  TemporaryFolder const folder;
  write_bytes(folder / "1.npy", npy("<f4", {3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6}));
  write_bytes(folder / "2.npy", weights(2, 4, 2));
  ChallengeOptions options;
  options.activation = "relu";
  EXPECT_EQ(sentence_about(folder.path(), [&] { open_network(folder.path(), options); }),
            ": layer 1 takes 4 inputs, but layer 0 has 3 outputs; they fit if the rows of the weights are inputs: add "
            "--transpose-weights");
  options.transposes_weights = true;
  EXPECT_EQ(open_network(folder.path(), options)->layer(0).weights,
            (SparseMatrix{2, 3, {0, 3, 6}, {0, 1, 2, 0, 1, 2}, {1, 3, 5, 2, 4, 6}}));
  auto const square = write_bytes(folder / "square", weights(2, 2, 1));
  EXPECT_EQ(orientation_note(*open_network(square, options)), "");
  options.transposes_weights = false;
  expect_holds(orientation_note(*open_network(square, options)), "nothing tells whether");
  write_bytes(folder / "list.json", R"({"transpose": false, "activation": "relu", "layers": ["square"]})");
  EXPECT_EQ(orientation_note(*open_network(folder / "list.json")), "");
}

TEST(LayerList, BrokenListsAreRefusedInSentences) {
  TemporaryFolder const folder;
  fill(folder);
  auto const sentence = [&](std::string const& text) {
    auto const path = write_bytes(folder / "list.json", text);
    return sentence_about(path, [&] { open_network(path); });
  };
  EXPECT_EQ(sentence("{"), ": found no JSON object, expected one that lists layers");
  EXPECT_EQ(sentence("{}"), ": found no \"layers\" that is a list, expected one with at least one layer");
  EXPECT_EQ(sentence(R"({"layers": [3]})"), ": layer 0: found \"3\", expected a JSON object or the name of a file");
  EXPECT_EQ(sentence(R"({"layers": ["a9.npy", {}], "activation": "relu"})"),
            ": layer 1: found no \"weights\", expected the name of a file, tensor or group");
  for (auto const* const text : {R"({"layers": ["a9.npy\u0000.h5"], "activation": "relu"})",
                                 R"({"file": "a9.npy\u0000", "layers": ["a"], "activation": "relu"})",
                                 R"({"file": "a9.npy", "layers": ["a\u0000"], "activation": "relu"})",
                                 R"({"layers": [{"weights": "a9.npy", "bias": "bias.npy\u0000"}]})"})
    expect_holds(sentence(text), ", expected one without NUL characters");
  expect_holds(sentence(R"({"layers": ["a9.npy"], "activations": "relu"})"), ": found the key \"activations\"");
  expect_holds(sentence(R"({"layers": ["a9.npy"], "activation": "gelu"})"), ": layer 0: found the activation \"gelu\"");
  EXPECT_EQ(sentence(R"({"layers": ["a9.npy"], "activation": "relu", "slope": 0.5})"),
            ": layer 0: found a slope for the activation relu, which has none");
  EXPECT_EQ(sentence(R"({"layers": ["a9.npy"], "activation": "leaky_relu"})"),
            ": layer 0: found no slope for the activation leaky_relu, expected one");
  EXPECT_EQ(sentence(R"({"layers": [{"weights": "a9.npy", "bias": "bias.npy"}], "activation": "relu"})"),
            ": layer 0: 4 biases for 2 outputs (expected one each, or one for all)");
  EXPECT_EQ(sentence(R"({"layers": ["a9.npy", "a9.npy"], "activation": "relu"})"),
            ": layer 1 takes 3 inputs, but layer 0 has 2 outputs");
  expect_holds(sentence(R"({"layers": ["list.json"], "activation": "relu"})"), ": layer 0: found no matrix in");
  EXPECT_EQ(sentence(R"({"file": "a9.npy", "layers": ["x"], "activation": "relu"})"),
            ": layer 0: found the name \"x\" of a part of " + (folder / "a9.npy").string() +
                ", which holds one matrix");
}

TEST(LayerList, NamesAreOrderedByTheirNumbers) {
  EXPECT_TRUE(comes_before("layer2", "layer10"));
  EXPECT_FALSE(comes_before("layer10", "layer2"));
  EXPECT_TRUE(comes_before("layer", "layer0"));
  EXPECT_TRUE(comes_before("a9b", "b1"));
  EXPECT_TRUE(comes_before("x1y2", "x01y3"));
  EXPECT_TRUE(comes_before("x01", "x1") != comes_before("x1", "x01"));
  EXPECT_FALSE(comes_before("x1", "x1"));
}

} // namespace
} // namespace varve
