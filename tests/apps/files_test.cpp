#include "apps/shared_folder.hpp"

#include "io/network_file.hpp"
#include "io/open.hpp"
#include "io/sample_files.hpp"
#include "radixnet/images.hpp"
#include "radixnet/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::expect_sentence;
using test::joined;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using ::testing::Not;
using varve::test::read_bytes;
using varve::test::TemporaryFolder;

class Files : public ::testing::Test {
protected:
  std::string path(std::string const& name) const { return (folder_ / name).string(); }
  void generate_network(std::string const& name, std::vector<std::string> const& options) const {
    succeed(joined({"generate", "radixnet", "--output", path(name)}, options));
  }
  void generate_images(std::string const& name, std::vector<std::string> const& options) const {
    succeed(joined({"generate", "images", "--output", path(name)}, options));
  }
  nlohmann::json info(std::vector<std::string> const& words) const {
    return nlohmann::json::parse(succeed(joined({"info", "--json"}, words)).out);
  }

  TemporaryFolder folder_;
};

TEST_F(Files, GeneratedNetworksComeFromTheirSeed) {
  generate_network("a.safetensors", {"--neurons", "64", "--layers", "20", "--seed", "7"});
  generate_network("b.safetensors", {"--neurons", "64", "--layers", "20", "--seed", "7"});
  generate_network("c.safetensors", {"--neurons", "64", "--layers", "20", "--seed", "8"});
  auto const network = load(*open_network(path("a.safetensors")));
  EXPECT_EQ(network.layers(), load(RadixNet(64, 20, 7)).layers());
  EXPECT_EQ(network.layers(), load(*open_network(path("b.safetensors"))).layers());
  EXPECT_NE(network.layers(), load(*open_network(path("c.safetensors"))).layers());
  generate_network("a", {"--neurons", "64", "--layers", "3", "--seed", "7"});
  generate_network("b", {"--neurons", "64", "--layers", "3", "--seed", "7"});
  EXPECT_EQ(read_bytes(path("a/n64-l3.tsv")), read_bytes(path("b/n64-l3.tsv")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("a")), std::filesystem::directory_iterator()), 3);
}

TEST_F(Files, GeneratedImagesComeFromTheirSeed) {
  generate_images("a.tsv", {"--neurons", "256", "--samples", "50", "--seed", "7"});
  generate_images("b.tsv", {"--neurons", "256", "--samples", "50", "--seed", "7"});
  generate_images("c.tsv", {"--neurons", "256", "--samples", "50", "--seed", "8"});
  generate_images("a.safetensors", {"--neurons", "256", "--samples", "50", "--seed", "7"});
  EXPECT_EQ(read_bytes(path("a.tsv")), read_bytes(path("b.tsv")));
  EXPECT_NE(read_bytes(path("a.tsv")), read_bytes(path("c.tsv")));
  EXPECT_EQ(read_sample_file(path("a.safetensors")), digit_images(256, 50, 7));
}

TEST_F(Files, GeneratedRandomNetworksAreWhatTheirOptionsSay) {
  auto const layers_of = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"generate", "random", "--output", path("net.safetensors")});
    succeed(words);
    return load(*open_network(path("net.safetensors"))).layers();
  };
  RandomNetworkRecipe recipe;
  recipe.widths = {40, 50, 10};
  recipe.density = 0.5;
  recipe.seed = 7;
  EXPECT_EQ(layers_of({"--widths", "40,50,10", "--density", "0.5", "--seed", "7"}),
            load(RandomNetwork(recipe)).layers());
  recipe.widths = {64, 64, 64, 64};
  recipe.density.reset();
  recipe.degree = 32;
  EXPECT_EQ(layers_of({"--neurons", "64", "--layers", "3", "--seed", "7"}), load(RandomNetwork(recipe)).layers());
  recipe.degree = 8;
  recipe.lowest_bias = -0.5;
  recipe.highest_bias = 0.25;
  recipe.gain = 2.0;
  recipe.cap = 4.0;
  EXPECT_EQ(layers_of({"--neurons", "64", "--layers", "3", "--seed", "7", "--degree", "8", "--bias", "-0.5", "0.25",
                       "--init", "gain=2", "--cap", "4"}),
            load(RandomNetwork(recipe)).layers());
  recipe.lowest_bias = recipe.highest_bias = -0.19;
  recipe.weight = 0.0625;
  EXPECT_EQ(layers_of({"--neurons", "64", "--layers", "3", "--seed", "7", "--degree", "8", "--bias", "-0.19", "--init",
                       "weight=0.0625", "--cap", "4"}),
            load(RandomNetwork(recipe)).layers());
}

TEST_F(Files, GeneratedSamplesComeFromTheirSeed) {
  succeed({"generate", "samples", "--neurons", "100", "--samples", "20", "--density", "0.25", "--seed", "3", "--output",
           path("samples.safetensors")});
  EXPECT_EQ(read_sample_file(path("samples.safetensors")), random_samples(100, 20, 0.25, 3));
}

TEST_F(Files, NetworksConvertToEveryFormatAndBack) {
  generate_network("net.safetensors", {"--neurons", "64", "--layers", "7", "--bias", "-0.25", "--cap", "16"});
  auto const layers = load(*open_network(path("net.safetensors"))).layers();
  for (std::string const name :
       {"plain", "text.tsv", "text.tsv.gz", "text.tsv.xz", "text.tsv.zst", "copy.safetensors"}) {
    succeed({"convert", path("net.safetensors"), path(name)});
    bool const is_text = name != "copy.safetensors"; // text stores neither bias nor cap
    std::vector<std::string> const extra =
        is_text ? std::vector<std::string>{"--text", "bias=-0.25,cap=16"} : std::vector<std::string>{};
    succeed(joined({"convert", path(name), path("back-" + name + ".safetensors")}, extra));
    EXPECT_EQ(load(*open_network(path("back-" + name + ".safetensors"))).layers(), layers) << name;
  }
  EXPECT_TRUE(std::filesystem::exists(path("text.tsv.zst/n64-l7.tsv.zst")));
}

TEST_F(Files, SamplesConvertToEveryFormatAndBack) {
  generate_images("img.safetensors", {"--neurons", "256", "--samples", "40", "--seed", "2"});
  auto const samples = read_sample_file(path("img.safetensors"));
  for (std::string const name : {"img.tsv", "img.tsv.gz", "img.tsv.xz", "img.tsv.zst", "copy.safetensors"}) {
    succeed({"convert", path("img.safetensors"), path(name)});
    succeed({"convert", path(name), path("back.safetensors"), "--text", "neurons=256"});
    EXPECT_EQ(read_sample_file(path("back.safetensors")), samples) << name;
  }
}

TEST_F(Files, ConvertRefusesWhatTextCannotHold) {
  Layer layer;
  layer.weights.num_rows = 2;
  layer.weights.num_columns = 3;
  layer.weights.row_pointers = {0, 1, 1};
  layer.weights.column_indices = {2};
  layer.weights.values = {0.5};
  NetworkFileWriter writer(path("wide.safetensors"), 1);
  writer.append(layer);
  writer.commit();
  for (std::string const name : {"text", "text.tsv.gz"}) {
    expect_sentence(run_varve({"convert", path("wide.safetensors"), path(name)}), 2, {"layer 0"});
  }
  auto const ended = run_varve({"convert", path("wide.safetensors"), path("net.png")});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("net.png"));
  EXPECT_EQ(folder_.num_entries(), 1);
}

TEST_F(Files, ConvertReplacesFilesButNoFolders) {
  generate_network("net.safetensors", {"--neurons", "32", "--layers", "2"});
  generate_network("net.safetensors", {"--neurons", "32", "--layers", "3"});
  EXPECT_EQ(open_network(path("net.safetensors"))->num_layers(), 3U);
  succeed({"convert", path("net.safetensors"), path("text")});
  auto const ended = run_varve({"convert", path("net.safetensors"), path("text")});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("already holds files"));
}

TEST_F(Files, InfoOfANetwork) {
  generate_network("net.safetensors", {"--neurons", "64", "--layers", "7"});
  auto const text = succeed({"info", path("net.safetensors")}).out;
  for (char const* const word : {"7 layers", "64 inputs", "64 outputs", "14336 edges", "64 -> 64"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
  auto const json = info({path("net.safetensors")});
  EXPECT_EQ(json["kind"], "network");
  EXPECT_EQ(json["layers"], 7);
  EXPECT_EQ(json["inputs"], 64);
  EXPECT_EQ(json["outputs"], 64);
  EXPECT_EQ(json["edges"], 7 * 64 * 32);
  EXPECT_EQ(json["degree"]["min"], 32);
  EXPECT_EQ(json["degree"]["max"], 32);
  EXPECT_EQ(json["dead_samples_stay_dead"], true);
  ASSERT_EQ(json["per_layer"].size(), 7U);
  EXPECT_EQ(json["per_layer"][0]["edges"], 64 * 32);
  EXPECT_EQ(json["per_layer"][0]["equal_weights"], true);
  EXPECT_GE(json["per_layer"][0]["pattern_groups"], 1);
  EXPECT_GE(json["per_layer"][0]["distinct_neurons"], 1);
}

TEST_F(Files, InfoExplainsThePlan) {
  generate_network("net.safetensors", {"--neurons", "64", "--layers", "7"});
  generate_images("img.safetensors", {"--neurons", "64", "--samples", "4"});
  std::vector<std::string> const command{"info",   path("net.safetensors"), "--plan", "--backend",
                                         "serial", "--reductions",          "none"};
  auto const text = succeed(command).out;
  for (char const* const word :
       {"layers 0-6: fused kernel, pattern blocks of ", "share whole input lists", "B of weights on serial"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
  EXPECT_THAT(text, Not(HasSubstr("0.000"))) << "few bytes are not none";
  auto const json =
      info({path("net.safetensors"), "--plan", "--backend", "serial", "--precision", "double", "--reductions", "none"});
  EXPECT_EQ(json["precision"], "double");
  ASSERT_EQ(json["choices"].size(), 1U);
  EXPECT_EQ(json["choices"][0]["edges"], 7 * 64 * 32);
  EXPECT_EQ(json["choices"][0]["last_layer"], 6);
  EXPECT_EQ(info({path("net.safetensors"), "--plan", "--backend", "serial"})["reductions"]["neurons_before"], 7 * 64);
  EXPECT_EQ(run_varve({"info", path("img.safetensors"), "--plan"}).exit_code, 2);
}

/// The lines of a text that say what is done with which layers.
std::vector<std::string> plan_lines(std::string const& text) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("plan      ")) line.erase(0, 10);
    if (line.starts_with("layer")) found.push_back(line);
  }
  return found;
}

TEST_F(Files, InfoExplainsThePlanThatInferCarriesOut) {
  generate_network("net.safetensors", {"--neurons", "1024", "--layers", "12"});
  for (std::string const samples : {"90", "20", "1"}) {
    generate_images("img.safetensors", {"--neurons", "1024", "--samples", samples});
    for (std::string const reductions : {"none", "auto"}) {
      std::vector<std::string> const options{
          "--input", path("img.safetensors"), "--reductions", reductions, "--backend", "serial"};
      auto info = options;
      info.insert(info.begin(), {"info", path("net.safetensors"), "--plan"});
      auto infer = options;
      infer.insert(infer.begin(), {"infer", "--network", path("net.safetensors")});
      auto const explained = plan_lines(succeed(info).out);
      EXPECT_FALSE(explained.empty());
      EXPECT_EQ(explained, plan_lines(succeed(infer).out)) << samples << " " << reductions;
    }
  }
}

TEST_F(Files, InfoSaysWhichEdgesAreOrdered) {
  succeed({"generate", "random", "--neurons", "300", "--layers", "3", "--degree", "16", "--output",
           path("random.safetensors")});
  EXPECT_THAT(succeed({"info", path("random.safetensors"), "--plan", "--backend", "serial"}).out,
              HasSubstr("edges of 3 layers ordered against bank conflicts: 1."));
  auto const json = info({path("random.safetensors"), "--plan", "--backend", "serial"});
  EXPECT_EQ(json["edge_order"]["layers"], 3);
  EXPECT_GT(json["edge_order"]["wavefronts_ascending"], json["edge_order"]["wavefronts"]);
}

TEST_F(Files, AReducedNetworkIsSmallerAndHasTheSameOutputs) {
  generate_network("net.safetensors", {"--neurons", "256", "--layers", "9"});
  generate_images("img.safetensors", {"--neurons", "256", "--samples", "60"});
  EXPECT_THAT(succeed({"convert", "--reduce", path("net.safetensors"), path("small.safetensors")}).out,
              HasSubstr("neurons from 2304 to "));
  auto const small = open_network(path("small.safetensors"));
  EXPECT_EQ(small->layer(0).num_inputs(), 256U);
  EXPECT_EQ(small->layer(2).num_outputs(), 16U);
  EXPECT_EQ(small->layer(8).num_outputs(), 256U);
  succeed({"infer", "--network", path("net.safetensors"), "--input", path("img.safetensors"), "--reductions", "none",
           "--categories", path("alive.tsv")});
  EXPECT_THAT(succeed({"infer", "--network", path("small.safetensors"), "--input", path("img.safetensors"), "--truth",
                       path("alive.tsv")})
                  .out,
              HasSubstr("truth: match"));
  EXPECT_EQ(run_varve({"convert", "--reduce", path("img.safetensors"), path("img2.safetensors")}).exit_code, 2);
}

TEST_F(Files, InfoOfATextNetworkAsksForTheBias) {
  generate_network("text", {"--neurons", "64", "--layers", "2"});
  auto const ended = run_varve({"info", path("text")});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("bias"));
  EXPECT_EQ(info({path("text"), "--text", "bias=0.5"})["dead_samples_stay_dead"], false);
  EXPECT_EQ(info({path("text"), "--text", "bias=0.5,layers=1"})["layers"], 1);
}

TEST_F(Files, InfoOfSamples) {
  generate_images("img.safetensors", {"--neurons", "256", "--samples", "40", "--seed", "2"});
  generate_images("img.tsv", {"--neurons", "256", "--samples", "40", "--seed", "2"});
  auto const samples = digit_images(256, 40, 2);
  auto const json = info({path("img.safetensors")});
  EXPECT_EQ(json["kind"], "samples");
  EXPECT_EQ(json["samples"], 40);
  EXPECT_EQ(json["neurons"], 256);
  EXPECT_EQ(json["entries"], samples.matrix.num_entries());
  EXPECT_EQ(json["equal_values"], true);
  EXPECT_THAT(succeed({"info", path("img.safetensors")}).out, HasSubstr("40 samples of 256 neurons"));
  EXPECT_EQ(info({path("img.tsv"), "--text", "neurons=256"})["entries"], samples.matrix.num_entries());
  EXPECT_EQ(run_varve({"info", path("img.tsv")}).exit_code, 2);
}

} // namespace
} // namespace varve
