#include "io/open.hpp"

#include "io/files.hpp"
#include "io/network_file.hpp"
#include "io/random_data.hpp"
#include "io/sample_file.hpp"

#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::expect_holds;
using test::random_challenge_network;
using test::random_network;
using test::random_samples;
using test::sentence_of;
using test::TemporaryFolder;
using test::Values;
using test::with_bias;

TEST(Open, NetworksComeBackThroughEveryEnding) {
  for (std::string const name : {"net", "net.tsv", "net.tsv.gz", "net.tsv.xz", "net.tsv.zst", "net.safetensors"}) {
    TemporaryFolder const folder;
    auto const network = random_challenge_network(4, 20, 7, Values::doubles);
    std::vector<std::size_t> steps;
    save_network(network, folder / name, [&](std::size_t done, std::size_t total) {
      EXPECT_EQ(total, 7U);
      steps.push_back(done);
    });
    EXPECT_EQ(steps, (std::vector<std::size_t>{1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(load(*open_network(folder / name, with_bias())).layers(), network.layers()) << name;
    auto const ending = name.substr(3).starts_with(".tsv") ? name.substr(3) : std::string(".tsv");
    EXPECT_EQ(fs::is_directory(folder / name), name != "net.safetensors");
    EXPECT_EQ(fs::exists(folder / name / ("n20-l7" + ending)), fs::is_directory(folder / name));
  }
}

TEST(Open, SamplesComeBackThroughEveryEnding) {
  for (std::string const ending : {".tsv", ".tsv.gz", ".tsv.xz", ".tsv.zst", ".safetensors"}) {
    TemporaryFolder const folder;
    auto const samples = random_samples(4, 50, 20, Values::floats);
    save_samples(samples, folder / ("samples" + ending));
    EXPECT_EQ(open_samples(folder / ("samples" + ending), 20), samples);
    EXPECT_EQ(open_samples(folder / ("samples" + ending), 20, SampleRange{10, 30}), samples_of(samples, 10, 30));
  }
}

TEST(Open, GeneralNetworksGoIntoContainersOnly) {
  TemporaryFolder const folder;
  auto const network = random_network(4);
  save_network(network, folder / "net.safetensors");
  EXPECT_EQ(load(*open_network(folder / "net.safetensors")).layers(), network.layers());
  expect_holds(sentence_of<UsageError>([&] { save_network(network, folder / "net.tsv.gz"); }),
               "write a .safetensors file instead");
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(Open, AFileMayBeRewrittenWhileItIsRead) {
  TemporaryFolder const folder;
  auto const network = random_network(9);
  save_network(network, folder / "net.safetensors");
  save_network(*open_network(folder / "net.safetensors"), folder / "net.safetensors");
  EXPECT_EQ(load(*open_network(folder / "net.safetensors")).layers(), network.layers());
}

TEST(Open, OptionsMayRepeatButNotContradictAFile) {
  TemporaryFolder const folder;
  auto const path = folder / "net.safetensors";
  save_network(random_challenge_network(4, 20, 3, Values::floats), path);
  ChallengeOptions const equal{20, 3, -0.25, 32.0};
  EXPECT_EQ(open_network(path, equal)->num_layers(), 3U);
  auto const sentence = [&](ChallengeOptions const& options) {
    return sentence_of<UsageError>([&] { open_network(path, options); });
  };
  EXPECT_EQ(sentence({{}, 2, {}, {}}), "the number of layers 2 was asked for, but " + path.string() + " says 3");
  EXPECT_EQ(sentence({21, {}, {}, {}}),
            "the number of inputs of layer 0 21 was asked for, but " + path.string() + " says 20");
  expect_holds(sentence({{}, {}, -0.5, {}}), "the bias of layer 0 -0.5 was asked for");
  expect_holds(sentence({{}, {}, {}, 16.0}), "the cap of layer 0 16 was asked for");
  save_network(Network({{{1, 1, {0, 1}, {0}, {1.0}}, {0.0}, Activation::relu()}}), path);
  expect_holds(sentence({{}, {}, {}, 16.0}), "has no clipped relu");
}

TEST(Open, WhatIsNotExpectedIsNamed) {
  TemporaryFolder const folder;
  auto const text = test::write_bytes(folder / "text.tsv", "1\t1\t1\n");
  save_samples(random_samples(1, 5, 4, Values::floats), folder / "samples.safetensors");
  save_network(random_network(1), folder / "net.safetensors");

  expect_holds(sentence_of<InputError>([&] { open_network(folder / "missing"); }), "No such file or directory");
  EXPECT_EQ(sentence_of<InputError>([&] { open_network(text); }),
            text.string() +
                " is not a network: expected a .safetensors file of Varve, or a folder of nN-lK.tsv files; of ONNX "
                "models and others, varve-convert " +
                text.string() + " NAME.safetensors makes one");
  expect_holds(sentence_of<InputError>([&] { open_network(folder / "samples.safetensors"); }),
               ": found the kind \"samples\", expected \"network\"");
  expect_holds(sentence_of<InputError>([&] { open_samples(folder / "net.safetensors", 4); }),
               ": found the kind \"network\", expected \"samples\"");
  expect_holds(sentence_of<InputError>([&] { open_samples(folder.path(), 4); }), "is a folder, expected a file");
  expect_holds(sentence_of<InputError>([&] { open_samples(folder / "missing.safetensors", 4); }),
               "No such file or directory");
  EXPECT_EQ(sentence_of<InputError>([&] { open_samples(folder / "samples.safetensors", 6); }),
            (folder / "samples.safetensors").string() + " holds samples of 4 neurons, the network has 6 inputs");
}

TEST(Open, FilesAreKnownByTheirContent) {
  TemporaryFolder const folder;
  auto const samples = random_samples(1, 5, 4, Values::floats);
  save_samples(samples, folder / "samples.safetensors");
  save_network(random_network(1), folder / "net.safetensors");
  fs::rename(folder / "samples.safetensors", folder / "samples.tsv");
  fs::rename(folder / "net.safetensors", folder / "net");
  EXPECT_EQ(open_samples(folder / "samples.tsv", 4), samples);
  EXPECT_EQ(load(*open_network(folder / "net")).layers(), random_network(1).layers());
  EXPECT_TRUE(holds_samples(folder / "samples.tsv"));
  EXPECT_TRUE(holds_samples(test::write_bytes(folder / "text", "1\t1\t1\n")));
  for (std::string const name : {"net", "missing", "."}) EXPECT_FALSE(holds_samples(folder / name)) << name;
}

TEST(Open, FilesOfOtherProgramsAreNamed) {
  TemporaryFolder const folder;
  for (auto const& [bytes, what] : {std::pair<std::string, std::string>{"\x89HDF\r\n\x1a\n rest", "an HDF5 file"},
                                    {"\x93NUMPY rest", "an array of NumPy"},
                                    {"PK\x03\x04 rest", "a zip archive, as those of SciPy"}}) {
    for (std::string const name : {"x", "x.safetensors"}) {
      auto const path = test::write_bytes(folder / name, bytes);
      auto const expected =
          " is " + what + ", which Varve's Python package reads: varve-convert " + path.string() + " NAME.safetensors";
      EXPECT_EQ(test::sentence_about(path, [&] { open_network(path); }), expected);
      EXPECT_EQ(test::sentence_about(path, [&] { open_samples(path, 4); }), expected);
      EXPECT_FALSE(holds_samples(path));
    }
  }
}

TEST(Open, UnknownEndingsAreRefused) {
  TemporaryFolder const folder;
  auto const network = random_challenge_network(4, 20, 1, Values::floats);
  expect_holds(sentence_of<UsageError>([&] { save_network(network, folder / "net.zip"); }), "unknown ending");
  expect_holds(sentence_of<UsageError>([&] { save_network(network, folder / "net.gz"); }), "unknown ending");
  expect_holds(sentence_of<UsageError>([&] { save_samples({}, folder / "samples.txt"); }), "unknown ending");
  expect_holds(sentence_of<UsageError>([&] { save_samples({}, folder / "samples"); }), "unknown ending");
  EXPECT_EQ(folder.num_entries(), 0);
}

} // namespace
} // namespace varve
