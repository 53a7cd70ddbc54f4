#include "io/challenge.hpp"

#include "io/files.hpp"
#include "io/open.hpp"
#include "io/random_data.hpp"
#include "io/text_file.hpp"

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::expect_holds;
using test::random_challenge_network;
using test::random_samples;
using test::read_bytes;
using test::sentence_of;
using test::TemporaryFolder;
using test::Values;
using test::with_bias;
using test::write_bytes;

constexpr Compression compressions[] = {Compression::none, Compression::gzip, Compression::xz, Compression::zstd};

/// The lines of a text in another order.
std::string shuffled(std::string const& text, std::uint64_t seed) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line + "\n");
  std::ranges::shuffle(lines, std::mt19937_64(seed));
  std::string result;
  for (auto const& line : lines) result += line;
  return result;
}

TEST(ChallengeNetwork, ComesBackFromEveryCompression) {
  for (auto const values : {Values::one_for_all, Values::floats, Values::doubles}) {
    auto const network = random_challenge_network(1, 70, 5, values);
    for (auto const compression : compressions) {
      TemporaryFolder const folder;
      write_challenge_network(network, folder / "net", compression);
      EXPECT_TRUE(fs::exists(folder / ("net/n70-l5.tsv" + std::string(ending_of(compression)))));
      EXPECT_EQ(load(*open_challenge_network(folder / "net", with_bias())).layers(), network.layers());
      EXPECT_EQ(folder.num_entries(), 6);
    }
  }
}

TEST(ChallengeNetwork, LinesMayComeInAnyOrder) {
  TemporaryFolder const folder;
  for (auto const values : {Values::one_for_all, Values::doubles}) {
    auto const network = random_challenge_network(2, 50, 1, values);
    fs::remove_all(folder / "net");
    write_challenge_network(network, folder / "net", Compression::none);
    auto const file = folder / "net/n50-l1.tsv";
    write_bytes(file, shuffled(read_bytes(file), 3));
    EXPECT_EQ(load(*open_challenge_network(folder / "net", with_bias())).layers(), network.layers());
  }
}

TEST(ChallengeNetwork, OptionsAreFilledIn) {
  TemporaryFolder const folder;
  fs::create_directory(folder / "neuron1024");
  write_bytes(folder / "neuron1024/n1024-l1.tsv", "1\t2\t6.250000e-02\n3\t2\t6.250000e-02\n");
  write_bytes(folder / "neuron1024/n1024-l2.tsv", "1024\t1024\t6.250000e-02\n");
  write_bytes(folder / "neuron1024/notes.txt", "not a layer");
  auto const source = open_challenge_network(folder.path());
  ASSERT_EQ(source->num_layers(), 2U);
  auto const layer = source->layer(0);
  EXPECT_EQ(layer.bias, std::vector{-0.30});
  EXPECT_EQ(layer.activation, Activation::clipped_relu(32.0));
  EXPECT_EQ(layer.num_inputs(), 1024U);
  EXPECT_TRUE(layer.weights.is_iso());
  EXPECT_EQ(layer.weights.row_pointers[1], 0U);
  EXPECT_EQ(layer.weights.column_indices, (std::vector<NeuronIndex>{0, 2}));

  ChallengeOptions options;
  options.layers = 1;
  options.cap = 5.0;
  options.bias = 0.5;
  auto const asked = open_challenge_network(folder.path(), options);
  EXPECT_EQ(asked->num_layers(), 1U);
  EXPECT_EQ(asked->layer(0).bias, std::vector{0.5});
  EXPECT_EQ(asked->layer(0).activation.cap, 5.0);
}

TEST(ChallengeNetwork, OneOfSeveralIsChosenByNeurons) {
  TemporaryFolder const folder;
  fs::create_directory(folder / "neuron1024");
  fs::create_directory(folder / "neuron4096");
  write_bytes(folder / "neuron1024/n1024-l1.tsv", "1 1 1\n");
  write_bytes(folder / "neuron4096/n4096-l1.tsv", "1 1 1\n");
  expect_holds(sentence_of<UsageError>([&] { open_challenge_network(folder.path()); }),
               "networks of 1024, 4096 neurons");
  ChallengeOptions options;
  options.neurons = 4096;
  EXPECT_EQ(open_challenge_network(folder.path(), options)->layer(0).bias, std::vector{-0.35});
  options.neurons = 512;
  expect_holds(sentence_of<InputError>([&] { open_challenge_network(folder.path(), options); }), "found none for 512");
}

TEST(ChallengeNetwork, MissingPiecesAreNamed) {
  TemporaryFolder const folder;
  expect_holds(sentence_of<InputError>([&] { open_challenge_network(folder / "missing"); }), "No such file");
  expect_holds(sentence_of<InputError>([&] { open_challenge_network(folder.path()); }), "holds no layer files");
  write_bytes(folder / "n64-l1.tsv", "1 1 1\n");
  write_bytes(folder / "n64-l3.tsv", "1 1 1\n");
  expect_holds(sentence_of<InputError>([&] { open_challenge_network(folder.path(), with_bias()); }),
               (folder / "n64-l2.tsv").string() + " (or .gz, .xz, .zst) is missing");
  write_bytes(folder / "n64-l2.tsv", "1 1 1\n");
  expect_holds(sentence_of<UsageError>([&] { open_challenge_network(folder.path()); }), "give the bias");
  auto options = with_bias();
  options.layers = 4;
  expect_holds(sentence_of<InputError>([&] { open_challenge_network(folder.path(), options); }), "n64-l4.tsv");
  write_bytes(folder / "n64-l2.tsv.gz", "");
  expect_holds(sentence_of<InputError>([&] { open_challenge_network(folder.path(), with_bias()); }),
               "holds both n64-l2.tsv and n64-l2.tsv.gz");
}

TEST(ChallengeNetwork, SenselessOptionsAreRefused) {
  auto const sentence = [](auto const& set) {
    ChallengeOptions options;
    set(options);
    return sentence_of<UsageError>([&] { open_challenge_network("anywhere", options); });
  };
  expect_holds(sentence([](auto& options) { options.neurons = 0; }), "0 neurons");
  expect_holds(sentence([](auto& options) { options.layers = 0; }), "0 layers");
  expect_holds(sentence([](auto& options) { options.cap = -1.0; }), "the cap -1");
  expect_holds(sentence([](auto& options) { options.bias = std::numeric_limits<double>::infinity(); }), "the bias inf");
}

/// The sentence about a layer file with this text, without its path.
std::string layer_sentence(std::string const& text) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "n64-l1.tsv", text);
  auto const source = open_challenge_network(folder.path(), with_bias());
  return test::sentence_about(path, [&] { source->layer(0); });
}

TEST(ChallengeNetwork, WrongLinesAreNamed) {
  std::string const good = "1\t2\t0.0625\n";
  EXPECT_EQ(layer_sentence(good + "3\t4"), ":2: found 2 columns in \"3\\t4\", expected 3: input, output, weight");
  EXPECT_EQ(layer_sentence(good + "3\n" + good), ":2: found 1 column in \"3\", expected 3: input, output, weight");
  EXPECT_EQ(layer_sentence(good + "3\t4\t1\t5\n"),
            ":2: found 4 columns in \"3\\t4\\t1\\t5\", expected 3: input, output, weight");
  EXPECT_EQ(layer_sentence("\n0\t4\t1\n"), ":2: found input \"0\", expected a number from 1 to 64");
  EXPECT_EQ(layer_sentence("# x\n%\n1\t65\t1\n"), ":3: found output \"65\", expected a number from 1 to 64");
  EXPECT_EQ(layer_sentence("-1\t4\t1\n"), ":1: found input \"-1\", expected a number from 1 to 64");
  EXPECT_EQ(layer_sentence("1.5\t4\t1\n"), ":1: found input \"1.5\", expected a number from 1 to 64");
  EXPECT_EQ(layer_sentence("99999999999999999999\t4\t1\n"),
            ":1: found input \"99999999999999999999\", expected a number from 1 to 64");
  EXPECT_EQ(layer_sentence("1\tten\t1\n"), ":1: found output \"ten\", expected a number from 1 to 64");
  EXPECT_EQ(layer_sentence("1\t1\tNaN\n"), ":1: found weight \"NaN\", expected a finite number");
  EXPECT_EQ(layer_sentence("1\t1\t-inf\r\n"), ":1: found weight \"-inf\", expected a finite number");
  EXPECT_EQ(layer_sentence("1\t1\t1e999\n"), ":1: found weight \"1e999\", expected a finite number");
  EXPECT_EQ(layer_sentence("1\t1\t1x\n"), ":1: found weight \"1x\", expected a finite number");
  EXPECT_EQ(layer_sentence("1\t1\t\x01\n"), ":1: found weight \"\\x01\", expected a finite number");
  EXPECT_EQ(layer_sentence("1\t2\t1\n5\t2\t1\n\n1\t2\t3\n"),
            ":4: found input 1, output 2 a second time, expected each pair once");
}

TEST(ChallengeNetwork, LineNumbersCountThroughBlocks) {
  std::string text;
  for (int round = 0; round < 300; ++round) {
    for (int input = 1; input <= 64; ++input) {
      for (int output = 1; output <= 64; ++output) text += "# 0123456789\n";
    }
  }
  ASSERT_GT(text.size(), 3 * TextReader::default_block_size);
  EXPECT_EQ(layer_sentence(text + "1\t0\t1\n"), ":1228801: found output \"0\", expected a number from 1 to 64");
}

TEST(ChallengeNetwork, HarmlessVariantsAreAccepted) {
  TemporaryFolder const folder;
  write_bytes(folder / "n64-l1.tsv", "% comment\r\n\r\n2 1 0.5\r\n  3  \t 1 0.25 \n# end\n1\t1\t1e-1");
  auto const layer = open_challenge_network(folder.path(), with_bias())->layer(0);
  EXPECT_EQ(layer.weights.column_indices, (std::vector<NeuronIndex>{0, 1, 2}));
  EXPECT_EQ(layer.weights.values, (std::vector{0.1, 0.5, 0.25}));
}

TEST(ChallengeNetwork, TextRefusesWhatItCannotHold) {
  auto const sentence = [](auto const& change) {
    TemporaryFolder const folder;
    auto layers = random_challenge_network(1, 8, 3, Values::floats).layers();
    change(layers);
    auto const found =
        sentence_of<UsageError>([&] { write_challenge_network(Network(layers), folder / "net", Compression::none); });
    EXPECT_EQ(folder.num_entries(), 0);
    expect_holds(found, "write a .safetensors file instead");
    return found;
  };
  expect_holds(sentence([](auto& layers) { layers[1].bias = {-0.5}; }), "layer 1 has a bias of -0.5");
  expect_holds(sentence([](auto& layers) { layers[2].activation.cap = 7; }), "layer 2 has the cap 7, expected 32");
  expect_holds(sentence([](auto& layers) { layers[1].activation = Activation::relu(); }),
               "layer 1 has no clipped relu");
  expect_holds(sentence([](auto& layers) {
                 test::Generator generator(5);
                 layers[2].weights = test::random_matrix(generator, 9, 8, 0.5, Values::floats);
               }),
               "layer 2 has 8 inputs and 9 outputs");
}

TEST(ChallengeSamples, ComeBackFromEveryCompressionAndOrder) {
  for (auto const values : {Values::one_for_all, Values::floats, Values::doubles}) {
    auto const samples = random_samples(3, 90, 40, values);
    for (auto const compression : compressions) {
      TemporaryFolder const folder;
      auto const path = folder / (std::string("images.tsv") + ending_of(compression));
      save_samples(samples, path);
      EXPECT_EQ(read_challenge_samples(path, 40), samples);
      auto const mixed = write_bytes(folder / "mixed.tsv", shuffled(read_text(path), 4));
      EXPECT_EQ(read_challenge_samples(mixed, 40), samples);
      EXPECT_EQ(read_challenge_samples(mixed, 40, SampleRange{7, 30}), samples_of(samples, 7, 30));
    }
  }
}

TEST(ChallengeSamples, ManyBlocksAreParsedAsOne) {
  TemporaryFolder const folder;
  auto const samples = random_samples(5, 9000, 500, Values::one_for_all);
  save_samples(samples, folder / "images.tsv.gz");
  ASSERT_GT(read_text(folder / "images.tsv.gz").size(), 3 * TextReader::default_block_size);
  EXPECT_EQ(read_challenge_samples(folder / "images.tsv.gz", 500), samples);

  auto const bytes = read_bytes(folder / "images.tsv.gz");
  auto const cut = write_bytes(folder / "cut.tsv.gz", bytes.substr(0, bytes.size() - 100));
  EXPECT_EQ(sentence_of<InputError>([&] { read_challenge_samples(cut, 500); }),
            cut.string() + " is truncated: the file ends before its gzip data does");
}

TEST(ChallengeSamples, AreCountedByTheLargestImage) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "images.tsv", "2\t1\t1\n2\t4\t1\n5\t3\t0\n");
  auto const samples = read_challenge_samples(path, 4);
  EXPECT_EQ(samples.num_samples(), 5U);
  EXPECT_EQ(samples.matrix.column_indices, (std::vector<NeuronIndex>{0, 3})) << "a pixel of value 0 is no entry";
  auto const range = read_challenge_samples(path, 4, SampleRange{1, 8});
  EXPECT_EQ(range.num_samples(), 7U);
  EXPECT_EQ(range.first_sample, 1U);
  EXPECT_EQ(range.matrix.row_size(0), 2U);
  EXPECT_EQ(read_challenge_samples(write_bytes(folder / "none.tsv", ""), 4).num_samples(), 0U);
}

TEST(ChallengeSamples, WrongInputIsNamed) {
  TemporaryFolder const folder;
  auto const path = folder / "images.tsv";
  auto const sentence = [&](std::string const& text) {
    write_bytes(path, text);
    return sentence_of<InputError>([&] { read_challenge_samples(path, 4); }).substr(path.string().size());
  };
  EXPECT_EQ(sentence("1\t1\t1\n1\t5\t1\n"), ":2: found pixel \"5\", expected a number from 1 to 4");
  EXPECT_EQ(sentence("0\t1\t1\n"), ":1: found image \"0\", expected a number from 1 to 1073741824");
  EXPECT_EQ(sentence("1\t1\n"), ":1: found 2 columns in \"1\\t1\", expected 3: image, pixel, value");
  EXPECT_EQ(sentence("1\t1\tnan\n"), ":1: found value \"nan\", expected a finite number");
  EXPECT_EQ(sentence("3\t1\t1\n1\t1\t1\n3\t1\t1\n"),
            ":3: found image 3, pixel 1 a second time, expected each pair once");
  write_bytes(path, "7\t1\t1\n");
  expect_holds(sentence_of<UsageError>([&] {
                 read_challenge_samples(path, 4, SampleRange{7, 9});
               }),
               "the samples 8:9 were asked for");
  expect_holds(sentence_of<UsageError>([&] {
                 read_challenge_samples(path, 4, SampleRange{3, 2});
               }),
               "the samples 4:2 were asked for");
}

} // namespace
} // namespace varve
