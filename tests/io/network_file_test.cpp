#include "io/network_file.hpp"

#include "core/host_threads.hpp"
#include "io/container_edit.hpp"
#include "io/files.hpp"
#include "io/random_data.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::edit;
using test::expect_holds;
using test::random_network;
using test::sentence_of;
using test::TemporaryFolder;

void write(NetworkSource const& network, fs::path const& path) {
  NetworkFileWriter writer(path, network.num_layers());
  for (std::size_t number = 0; number < network.num_layers(); ++number) writer.append(network.layer(number));
  writer.commit();
}

/// Two layers, 3 -> 2 -> 2, of four and two different weights.
Network small_network() {
  Layer first{{2, 3, {0, 3, 4}, {0, 1, 2, 1}, {1.0, 2.0, 3.0, 4.0}}, {0.5, -0.5}, Activation::clipped_relu(8.0)};
  Layer second{{2, 2, {0, 1, 2}, {0, 1}, {1.0, 2.0}}, {0.25}, Activation::relu()};
  return Network({first, second});
}

TEST(NetworkFile, RandomNetworksComeBack) {
  TemporaryFolder const folder;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    auto const network = random_network(seed);
    auto const path = folder / "network.safetensors";
    write(network, path);
    auto const back = load(NetworkFile(path));
    ASSERT_EQ(back.layers(), network.layers()) << "seed " << seed;
    EXPECT_EQ(back.name(), path.string());
  }
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(NetworkFile, ManyLayersAreReadByManyThreadsInAnyOrder) {
  TemporaryFolder const folder;
  auto const network = test::random_challenge_network(9, 30, 300, test::Values::doubles);
  write(network, folder / "network.safetensors");
  NetworkFile const file(folder / "network.safetensors");
  for_each_on_host_threads(300, [&](std::size_t turn) {
    auto const number = (turn * 77) % 300;
    if (file.layer(number) != network.layers()[number]) throw std::runtime_error("a layer differs");
  });
}

TEST(NetworkFile, HeaderHoldsAllButTheWeights) {
  TemporaryFolder const folder;
  write(small_network(), folder / "network.safetensors");
  NetworkFile const file(folder / "network.safetensors");
  auto const header = file.header(0);
  EXPECT_EQ(header.num_inputs, 3U);
  EXPECT_EQ(header.num_outputs, 2U);
  EXPECT_EQ(header.num_edges, 4U);
  EXPECT_EQ(header.bias, (std::vector{0.5, -0.5}));
  EXPECT_EQ(header.activation, Activation::clipped_relu(8.0));
}

TEST(NetworkFile, LayersWithoutOutputsOrEdgesComeBack) {
  TemporaryFolder const folder;
  Layer const no_edges{{2, 3, {0, 0, 0}, {}, {}}, {1.0}, Activation::identity()};
  Layer const shared_value_of_none{{1, 2, {0, 0}, {}, {0.5}}, {1.0}, Activation::identity()};
  Layer const leaky{{2, 1, {0, 0, 0}, {}, {}}, {1.0}, Activation::leaky_relu(0.125)};
  Layer const narrow{{1, 2, {0, 0}, {}, {}}, {1.0}, Activation::relu()};
  Layer const no_outputs{{0, 1, {0}, {}, {}}, {1.0}, Activation::relu()};
  Layer const curved{{1, 1, {0, 0}, {}, {}}, {1.0}, Activation::sigmoid()};
  Layer const other_curve{{1, 1, {0, 0}, {}, {}}, {1.0}, Activation::tanh()};
  Network const network({no_edges, shared_value_of_none, leaky, narrow, curved, other_curve, no_outputs});
  write(network, folder / "network.safetensors");
  EXPECT_EQ(load(NetworkFile(folder / "network.safetensors")).layers(), network.layers());
}

TEST(NetworkFile, StoresTheNarrowestTypes) {
  TemporaryFolder const folder;
  auto const path = folder / "network.safetensors";
  test::Generator generator(1);
  for (auto const values : {test::Values::floats, test::Values::doubles}) {
    for (std::size_t const inputs : {300U, 65536U, 65537U}) {
      Layer layer{test::random_matrix(generator, 40, 300, 0.5, values), {0.25}, Activation::relu()};
      layer.weights.num_columns = inputs;
      write(Network({layer}), path);
      EXPECT_EQ(load(NetworkFile(path)).layers().front(), layer);
      auto const arrays = test::ContainerEdit(path).arrays;
      EXPECT_EQ(arrays.at("layers.0.pointers").type, "U32");
      EXPECT_EQ(arrays.at("layers.0.indices").type, inputs > 65536 ? "U32" : "U16");
      EXPECT_EQ(arrays.at("layers.0.values").type, values == test::Values::floats ? "F32" : "F64");
      EXPECT_EQ(arrays.at("layers.0.bias").type, "F32");
    }
  }
}

TEST(NetworkFile, ReadsEveryNumberType) {
  TemporaryFolder const folder;
  auto const path = folder / "network.safetensors";
  auto const with = [&](std::string const& name, auto const& numbers) {
    write(small_network(), path);
    edit(path, [&](auto& file) { file.set("layers.0." + name, numbers); });
    EXPECT_EQ(load(NetworkFile(path)).layers(), small_network().layers());
  };
  with("pointers", std::vector<std::uint32_t>{0, 3, 4});
  with("pointers", std::vector<std::uint64_t>{0, 3, 4});
  with("indices", std::vector<std::uint16_t>{0, 1, 2, 1});
  with("indices", std::vector<std::uint32_t>{0, 1, 2, 1});
  with("values", std::vector<float>{1, 2, 3, 4});
  with("values", std::vector<double>{1, 2, 3, 4});
  with("bias", std::vector<float>{0.5, -0.5});
  with("bias", std::vector<double>{0.5, -0.5});
}

TEST(NetworkFile, LayersOfEqualWeightsShareThem) {
  TemporaryFolder const folder;
  auto const path = folder / "network.safetensors";
  SparseMatrix const square{2, 2, {0, 1, 2}, {0, 1}, {1.0, 2.0}};
  SparseMatrix const others{2, 2, {0, 1, 2}, {0, 1}, {1.0, 3.0}};
  SparseMatrix const narrow{1, 2, {0, 0}, {}, {}};
  SparseMatrix const wide{2, 1, {0, 0, 0}, {}, {}};
  Network const network({{square, {0.5}, Activation::relu()},
                         {others, {0.5}, Activation::relu()},
                         {square, {0.5, 1.5}, Activation::clipped_relu(2.0)},
                         {others, {0.25}, Activation::tanh()},
                         {narrow, {0.0}, Activation::relu()},
                         {wide, {0.0}, Activation::relu()},
                         {square, {0.5}, Activation::relu()}});
  write(network, path);
  NetworkFile const file(path);
  EXPECT_EQ(load(file).layers(), network.layers());
  EXPECT_EQ(file.header(2).bias, (std::vector{0.5, 1.5}));
  test::ContainerEdit const stored(path);
  auto const& layers = stored.description["layers"];
  for (auto const& [number, source] : {std::pair(2U, 0), std::pair(3U, 1), std::pair(6U, 0)}) {
    EXPECT_EQ(layers[number]["weights_of"], source);
    EXPECT_FALSE(stored.arrays.contains(fmt::format("layers.{}.values", number)));
  }
  for (auto const number : {0U, 1U, 4U, 5U}) EXPECT_FALSE(layers[number].contains("weights_of")) << number;
}

/// Opens the file and reads all layers.
void read(fs::path const& path) { load(NetworkFile(path)); }

/// The sentence about a changed copy of the small network, which must begin with the name of the file.
template <class Change>
std::string sentence_of_changed_network(Change const& change) {
  TemporaryFolder const folder;
  auto const path = folder / "network.safetensors";
  write(small_network(), path);
  edit(path, change);
  return test::sentence_about(path, [&] { read(path); });
}

TEST(NetworkFile, WrongSharesAreNamed) {
  auto const with = [](std::size_t layer, test::Json const& source) {
    return sentence_of_changed_network([&](auto& file) {
      file.description["layers"][layer]["weights_of"] = source;
      for (auto const* const name : {"pointers", "indices", "values"})
        file.arrays.erase(fmt::format("layers.{}.{}", layer, name));
    });
  };
  EXPECT_EQ(with(1, 0), ": layers.1: found the weights of layer 0, which has another shape, expected one of the same "
                        "shape");
  EXPECT_EQ(with(0, 0), ": layers.0: found the weights of layer 0, expected those of an earlier layer");
  EXPECT_EQ(with(0, 1), ": layers.0: found the weights of layer 1, expected those of an earlier layer");
  EXPECT_EQ(with(1, -1), ": layers.1: found the weights_of -1, expected a whole number from 0");
  EXPECT_EQ(sentence_of_changed_network([](auto& file) {
              file.description["layers"][1]["shape"] = {3, 2};
              file.description["layers"].push_back(file.description["layers"][1]);
              file.description["layers"][1] = file.description["layers"][0];
              file.description["layers"][1]["weights_of"] = 0;
            }),
            ": layer 1 takes 3 inputs, but layer 0 has 2 outputs");
}

TEST(NetworkFile, MissingPiecesAreNamed) {
  for (std::string const name : {"layers.1.pointers", "layers.1.indices", "layers.1.values", "layers.0.bias"}) {
    EXPECT_EQ(sentence_of_changed_network([&](auto& file) { file.arrays.erase(name); }),
              " has no array \"" + name + "\"");
  }
  auto const without = [](char const* key) {
    return sentence_of_changed_network([&](auto& file) { file.description["layers"][0].erase(key); });
  };
  EXPECT_EQ(without("shape"), ": layers.0: found the shape not there, expected [rows, columns]");
  EXPECT_EQ(without("activation"), ": layers.0: found no activation, expected the name of one");
  EXPECT_EQ(without("cap"), ": layers.0: found no cap, expected a number");
  for (auto const& layers : {test::Json(), test::Json::array(), test::Json(2)}) {
    EXPECT_EQ(sentence_of_changed_network([&](auto& file) { file.description["layers"] = layers; }),
              ": found no layers in \"layers\", expected at least one");
  }
  EXPECT_EQ(sentence_of_changed_network([](auto& file) { file.description["layers"].erase(1); }),
            ": found the array \"layers.1.bias\", expected those that its description names");
}

TEST(NetworkFile, WrongDescriptionsAreNamed) {
  auto const with = [](char const* key, test::Json const& value) {
    return sentence_of_changed_network([&](auto& file) { file.description[key] = value; });
  };
  auto const with_member = [](char const* key, test::Json const& value) {
    return sentence_of_changed_network([&](auto& file) { file.description["layers"][0][key] = value; });
  };
  EXPECT_EQ(with("kind", "samples"), ": found the kind \"samples\", expected \"network\"");
  EXPECT_EQ(with("kind", 1), ": found the kind 1, expected \"network\"");
  for (test::Json const& version : {test::Json(2), test::Json(1.7), test::Json("1")})
    EXPECT_EQ(with("version", version), ": found the version " + version.dump() + ", expected 1");
  EXPECT_EQ(with("shape", {3, 2}), ": found the key \"shape\", expected one of kind, version, layers");
  EXPECT_EQ(with("layers", {1}), ": layers.0: found no JSON object, expected one for each layer");
  EXPECT_EQ(with("training", 1), ": training: found no JSON object, expected one with steps and moments");
  EXPECT_EQ(with_member("activation", "step"),
            ": layers.0: found the activation \"step\", expected one of \"identity\", \"relu\", \"clipped_relu\", "
            "\"leaky_relu\", \"sigmoid\", \"tanh\", \"softplus\"");
  for (std::string const name : {"leaky_relu", "relu", "identity"}) {
    expect_holds(with_member("activation", name),
                 ": layers.0: found the key \"cap\", expected one of shape, activation, weights_of");
  }
  EXPECT_EQ(with_member("cap", -1), ": layers.0: the cap is -1, expected a positive finite number");
  EXPECT_EQ(with_member("cap", "8"), ": layers.0: found no cap, expected a number");
  EXPECT_EQ(with_member("shape", {2, 2}), ": layer 0: row 0 has column index 2, expected 0 to 1");
  EXPECT_EQ(with_member("shape", {3, 3}), ": layers.0.bias: found the shape 2, expected 1 or 3");
  EXPECT_EQ(with_member("shape", {2, 4294967296}),
            ": layers.0: found the shape 2 x 4294967296, expected no more than 4294967295");
}

TEST(NetworkFile, TheValuesSayWhetherOneIsShared) {
  TemporaryFolder const folder;
  auto const path = folder / "network.safetensors";
  write(small_network(), path);
  edit(path, [](auto& file) { file.set("layers.1.values", std::vector<float>{0.25}); });
  EXPECT_EQ(load(NetworkFile(path)).layers()[1].weights.values, std::vector{0.25});
}

TEST(NetworkFile, LayersThatDoNotFitAreSeenWhenOpened) {
  TemporaryFolder const folder;
  auto const path = folder / "network.safetensors";
  write(small_network(), path);
  edit(path, [](auto& file) { file.description["layers"][1]["shape"] = {2, 5}; });
  EXPECT_EQ(sentence_of<InputError>([&] { NetworkFile{path}; }),
            path.string() + ": layer 1 takes 5 inputs, but layer 0 has 2 outputs");
}

TEST(NetworkFile, WrongContentsAreNamed) {
  auto const with = [](std::string const& name, auto const& numbers) {
    return sentence_of_changed_network([&](auto& file) { file.set("layers.0." + name, numbers); });
  };
  using Columns = std::vector<std::uint16_t>;
  using Pointers = std::vector<std::uint32_t>;
  using Reals = std::vector<double>;
  auto const nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(with("values", Reals{1, nan, 3, 4}), ": layer 0: entry 1 has the value nan, expected a finite number");
  EXPECT_EQ(with("values", Reals{1, 2, 3}), ": layers.0.values: found the shape 3, expected 1 or 4");
  EXPECT_EQ(with("indices", Columns{1, 0, 2, 1}),
            ": layer 0: row 0 has column index 0 after 1; indices must ascend and be distinct");
  EXPECT_EQ(with("indices", Columns{0, 1, 3, 1}), ": layer 0: row 0 has column index 3, expected 0 to 2");
  EXPECT_EQ(with("indices", Pointers{0, 4294967295, 2, 1}),
            ": layer 0: row 0 has column index 4294967295, expected 0 to 2");
  EXPECT_EQ(with("indices", std::vector<float>{0, 1, 2, 1}),
            ": layers.0.indices: found numbers of the type F32, expected U16 or U32");
  EXPECT_EQ(with("pointers", Pointers{1, 3, 4}), ": layers.0: found the first pointer 1, expected 0");
  EXPECT_EQ(with("pointers", Pointers{0, 9, 4}),
            ": layers.0: found the pointer 4 after 9 at row 1, expected ascending numbers");
  EXPECT_EQ(with("pointers", Pointers{0, 3, 3}),
            ": layers.0: found the last pointer 3, expected 4, the number of entries");
  EXPECT_EQ(with("pointers", Pointers{0, 4}), ": layers.0.pointers: found the shape 2, expected 3");
  EXPECT_EQ(with("bias", Reals{1, 2, 3}), ": layers.0.bias: found the shape 3, expected 1 or 2");
  EXPECT_EQ(with("bias", Reals{1, nan}), ": layer 0: the bias of output 1 is nan, expected a finite number");
}

/// A checkpoint of the small network after three epochs.
TrainingRecord some_record(std::size_t num_moments) {
  TrainingRecord record{R"({"rate": 0.5})", "{}", {{}, 7}, std::vector<double>(33, -1.0)};
  auto const network = small_network();
  for (auto const& layer : network.layers()) {
    record.optimizer.layers.push_back({std::vector(num_moments, std::vector<double>(layer.num_edges(), 0.1)),
                                       std::vector(num_moments, std::vector<double>(layer.bias.size(), 0.25))});
  }
  return record;
}

TEST(Checkpoint, ComesBackWithItsRecordAndItsBestNetwork) {
  TemporaryFolder const folder;
  auto const path = folder / "checkpoint.safetensors";
  auto best = small_network().layers();
  best[0].weights.values[0] = 0.1;
  Network const best_network(best);
  for (std::size_t const num_moments : {0U, 1U, 2U}) {
    for (auto const* const stored : {static_cast<Network const*>(nullptr), &best_network}) {
      auto record = some_record(num_moments);
      if (num_moments == 0) record.history.clear();
      NetworkFileWriter(path, small_network(), record, stored).commit();
      NetworkFile const file(path);
      EXPECT_EQ(load(file).layers(), small_network().layers());
      EXPECT_EQ(file.training_record(), record);
      ASSERT_EQ(file.best() != nullptr, stored != nullptr);
      EXPECT_EQ(stored == nullptr || load(*file.best()).layers() == best, true);
    }
  }
  write(small_network(), path);
  EXPECT_EQ(NetworkFile(path).best(), nullptr);
  EXPECT_EQ(test::sentence_about(path, [&] { NetworkFile(path).training_record(); }),
            " is not a checkpoint: its description has no \"training\", as of those that varve train writes");
}

TEST(Checkpoint, WhatIsWrongIsNamed) {
  TemporaryFolder const folder;
  auto const path = folder / "checkpoint.safetensors";
  auto const network = small_network();
  auto const after = [&](auto const& change) {
    NetworkFileWriter(path, network, some_record(2), &network).commit();
    edit(path, change);
    return test::sentence_about(path, [&] { NetworkFile(path).training_record(); });
  };
  auto const with = [&](char const* key, test::Json const& value) {
    return after([&](auto& file) { file.description["training"][key] = value; });
  };
  EXPECT_EQ(with("steps", -1), ": training: found the steps -1, expected a whole number from 0");
  EXPECT_EQ(with("moments", 3), ": training: found 3 moments, expected 0 to 2");
  EXPECT_EQ(with("moments", 1), ": found the array \"training.0.bias.1\", expected those that its description names");
  EXPECT_EQ(with("epochs", 1), ": training: found the key \"epochs\", expected one of steps, moments");
  EXPECT_EQ(after([](auto& file) { file.set("training.recipe", std::vector<float>{1}); }),
            ": training.recipe: found numbers of the type F32, expected U8");
  EXPECT_EQ(after([](auto& file) {
              file.arrays["history"].shape = {11, 3};
            }),
            ": training: found a history of another shape, expected 11 numbers for each epoch");
  EXPECT_EQ(after([](auto& file) { file.description.erase("training"); }),
            ": found the key \"best\", expected one of kind, version, layers");
  for (std::string const name : {"training.progress", "training.1.weights.1", "best.0.bias"})
    EXPECT_EQ(after([&](auto& file) { file.arrays.erase(name); }), " has no array \"" + name + "\"");
}

TEST(NetworkFile, OtherFilesAreRefused) {
  TemporaryFolder const folder;
  auto const missing = folder / "missing.safetensors";
  EXPECT_EQ(sentence_of<InputError>([&] { read(missing); }),
            missing.string() + " cannot be read: No such file or directory");
  auto const text = test::write_bytes(folder / "text.safetensors", "1\t2\t3\n");
  EXPECT_EQ(sentence_of<InputError>([&] { read(text); }),
            text.string() + ": found no header of 0 bytes in a file of 6, expected a safetensors file of Varve");
}

TEST(NetworkFileWriter, LeavesNothingBehindWhenItFails) {
  TemporaryFolder const folder;
  auto const layers = small_network().layers();
  {
    NetworkFileWriter writer(folder / "network.safetensors", 2);
    writer.append(layers[0]);
    EXPECT_THROW(writer.commit(), std::logic_error);
    expect_holds(sentence_of<InputError>([&] { writer.append(layers[0]); }), "layer 1 takes 3 inputs");
    auto broken = layers[1];
    broken.weights.values[0] = std::nan("");
    expect_holds(sentence_of<InputError>([&] { writer.append(broken); }), "layer 1: entry 0 has the value nan");
  }
  EXPECT_EQ(folder.num_entries(), 0);
  EXPECT_THROW(NetworkFileWriter(folder / "network.safetensors", 0).commit(), std::logic_error);
  EXPECT_THROW(NetworkFileWriter(folder / "no/network.safetensors", 1), ResourceError);
  EXPECT_EQ(folder.num_entries(), 0);
}

/// Writes a network of 400 kB where no file may grow beyond 64 kB; 7 if that gives the error that it must and leaves no
/// file.
[[noreturn]] void write_onto_full_disk() {
  rlimit const limit{1 << 16, 1 << 16};
  bool is_refused = setrlimit(RLIMIT_FSIZE, &limit) != 0;
  std::signal(SIGXFSZ, SIG_IGN);
  {
    TemporaryFolder const folder;
    auto const path = folder / "network.safetensors";
    try {
      write(test::random_challenge_network(1, 500, 1, test::Values::doubles), path);
    } catch (ResourceError const& error) {
      is_refused = std::string(error.what()).starts_with(path.string() + " cannot be written");
    }
    is_refused = is_refused && folder.num_entries() == 0;
  }
  std::exit(is_refused ? 7 : 8);
}

TEST(NetworkFileWriter, FullDiskIsAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe"); // host threads of the tests before wait in this process
  EXPECT_EXIT(write_onto_full_disk(), ::testing::ExitedWithCode(7), "");
}

} // namespace
} // namespace varve
