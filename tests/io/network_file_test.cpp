#include "io/network_file.hpp"

#include "core/host_threads.hpp"
#include "io/files.hpp"
#include "io/hdf5_edit.hpp"
#include "io/random_data.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using testing::expect_holds;
using testing::random_network;
using testing::sentence_of;
using testing::TemporaryFolder;

void write(NetworkSource const& network, fs::path const& path) {
  NetworkFileWriter writer(path);
  for (std::size_t number = 0; number < network.num_layers(); ++number) writer.append(network.layer(number));
  writer.commit();
}

/// Two layers, 3 -> 2 -> 2, of four and two different weights.
Network small_network() {
  Layer first{{2, 3, {0, 3, 4}, {0, 1, 2, 1}, {1.0, 2.0, 3.0, 4.0}}, {0.5, -0.5}, Activation::clipped_relu(8.0)};
  Layer second{{2, 2, {0, 1, 2}, {0, 1}, {1.0, 2.0}}, {0.25}, Activation::relu()};
  return Network({first, second});
}

std::string descriptor(std::string const& version, std::string const& rest) {
  return R"({"binsparse": {"version": ")" + version + R"(", )" + rest + "}}";
}

std::string const first_descriptor = R"("format": "CSR", "shape": [2, 3], "number_of_stored_values": 4,
    "data_types": {"pointers_to_1": "int64", "indices_1": "int32", "values": "float64"})";

TEST(NetworkFile, RandomNetworksComeBack) {
  TemporaryFolder const folder;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    auto const network = random_network(seed);
    auto const path = folder / "network.safetensors";
    write(network, path);
    auto const back = load(*open_network_file(path));
    ASSERT_EQ(back.layers(), network.layers()) << "seed " << seed;
    EXPECT_EQ(back.name(), path.string());
  }
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(NetworkFile, ManyLayersAreReadByManyThreadsInAnyOrder) {
  TemporaryFolder const folder;
  auto const network = testing::random_challenge_network(9, 30, 300, testing::Values::doubles);
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
  EXPECT_EQ(load(*open_network_file(folder / "network.safetensors")).layers(), network.layers());
}

/// The size in bytes of the stored type of a dataset.
std::size_t stored_size(fs::path const& path, std::string const& name) {
  testing::StoredDataset const dataset(path, name);
  hdf5::Datatype const type(H5Dget_type(dataset.id()));
  return H5Tget_size(type.id());
}

TEST(NetworkFile, StoresTheNarrowestTypes) {
  TemporaryFolder const folder;
  testing::Generator generator(1);
  for (auto const values : {testing::Values::floats, testing::Values::doubles}) {
    Layer const layer{testing::random_matrix(generator, 40, 300, 0.5, values), {0.0}, Activation::relu()};
    write(Network({layer}), folder / "network.safetensors");
    auto const weights = std::string("layers/000000/weights/");
    EXPECT_EQ(stored_size(folder / "network.safetensors", weights + "values"), values == testing::Values::floats ? 4U : 8U);
    EXPECT_EQ(stored_size(folder / "network.safetensors", weights + "indices_1"), 2U);
    EXPECT_EQ(stored_size(folder / "network.safetensors", weights + "pointers_to_1"), 2U);
    EXPECT_EQ(stored_size(folder / "network.safetensors", "layers/000000/bias"), 8U);
  }
}

TEST(NetworkFile, LargeIndicesAreCompressed) {
  TemporaryFolder const folder;
  SparseMatrix matrix{1000, 5000, {0}, {}, {0.5}};
  for (NeuronIndex row = 0; row < 1000; ++row) {
    for (NeuronIndex edge = 0; edge < 32; ++edge) matrix.column_indices.push_back((row % 4) + edge * 128);
    matrix.row_pointers.push_back(matrix.column_indices.size());
  }
  Network const network({{matrix, {-0.5}, Activation::relu()}});
  write(network, folder / "network.safetensors");
  EXPECT_LT(fs::file_size(folder / "network.safetensors"), 16000U) << "64000 bytes of indices without compression";
  EXPECT_EQ(load(*open_network_file(folder / "network.safetensors")).layers(), network.layers());
}

TEST(NetworkFile, ReadsEveryNumberType) {
  TemporaryFolder const folder;
  auto const path = folder / "network.safetensors";
  auto const network = small_network();
  for (auto const index : {H5T_STD_U8LE, H5T_STD_U16BE, H5T_STD_U32LE, H5T_STD_U64LE, H5T_STD_I32LE, H5T_STD_I64BE}) {
    for (auto const value : {H5T_IEEE_F32LE, H5T_IEEE_F64BE, H5T_STD_I8LE, H5T_STD_I64LE, H5T_STD_U16LE}) {
      write(network, path);
      testing::replace_list(path, "layers/000000/weights/pointers_to_1", index, {0, 3, 4});
      testing::replace_list(path, "layers/000000/weights/indices_1", index, {0, 1, 2, 1});
      testing::replace_list(path, "layers/000000/weights/values", value, {1, 2, 3, 4});
      EXPECT_EQ(load(*open_network_file(path)).layers(), network.layers());
    }
  }
}

TEST(NetworkFile, ReadsBothVersionsAndBothKindsOfText) {
  TemporaryFolder const folder;
  auto const path = folder / "network.safetensors";
  for (std::string const version : {"0.1", "0.1.0"}) {
    for (bool const variable : {false, true}) {
      write(small_network(), path);
      testing::replace_text(path, "/", "format", "varve-network", variable);
      testing::replace_text(path, "layers/000000", "activation", "clipped_relu", variable);
      testing::replace_text(path, "layers/000000/weights", "binsparse", descriptor(version, first_descriptor),
                            variable);
      EXPECT_EQ(load(*open_network_file(path)).layers(), small_network().layers());
    }
  }
}

/// Opens the file and reads all layers.
void read(fs::path const& path) { load(*open_network_file(path)); }

/// The sentence about a changed copy of the small network, which must begin with the name of the file.
template <class Change>
std::string sentence_after(Change const& change) {
  TemporaryFolder const folder;
  auto const path = folder / "network.safetensors";
  write(small_network(), path);
  change(path);
  return testing::sentence_about(path, [&] { read(path); });
}

TEST(NetworkFile, MissingPiecesAreNamed) {
  auto const without = [](std::string const& name) {
    return sentence_after([&](fs::path const& path) { testing::remove_link(path, name); });
  };
  EXPECT_EQ(without("layers"), ": found no group \"layers\", expected one");
  EXPECT_EQ(without("layers/000000"), ": layer 0: found no group \"000000\", expected one");
  EXPECT_EQ(without("layers/000001/weights"), ": layer 1: found no group \"weights\", expected one");
  EXPECT_EQ(without("layers/000001/bias"), ": layer 1: found no dataset \"bias\", expected one");
  EXPECT_EQ(without("layers/000001/weights/values"), ": layer 1: found no dataset \"values\", expected one");
  EXPECT_EQ(without("layers/000000/weights/indices_1"), ": layer 0: found no dataset \"indices_1\", expected one");
  EXPECT_EQ(without("layers/000000/weights/pointers_to_1"),
            ": layer 0: found no dataset \"pointers_to_1\", expected one");

  auto const without_attribute = [](std::string const& object, std::string const& name) {
    return sentence_after([&](fs::path const& path) { testing::remove_attribute(path, object, name); });
  };
  EXPECT_EQ(without_attribute("/", "format"), ": found no attribute \"format\", expected one");
  EXPECT_EQ(without_attribute("/", "version"), ": found no attribute \"version\", expected one");
  EXPECT_EQ(without_attribute("layers/000001", "activation"),
            ": layer 1: found no attribute \"activation\", expected one");
  EXPECT_EQ(without_attribute("layers/000000", "cap"), ": layer 0: found no attribute \"cap\", expected one");
  EXPECT_EQ(without_attribute("layers/000000/weights", "binsparse"),
            ": layer 0: found no attribute \"binsparse\", expected one");
}

TEST(NetworkFile, WrongAttributesAreNamed) {
  auto const with_text = [](std::string const& object, std::string const& name, std::string const& text) {
    return sentence_after([&](fs::path const& path) { testing::replace_text(path, object, name, text); });
  };
  auto const with_number = [](std::string const& object, std::string const& name, double number) {
    return sentence_after([&](fs::path const& path) { testing::replace_number(path, object, name, number); });
  };
  EXPECT_EQ(with_text("/", "format", "varve-samples"),
            ": found the format \"varve-samples\", expected \"varve-network\"");
  EXPECT_EQ(with_number("/", "format", 1), ": found no text in the attribute \"format\", expected some");
  EXPECT_EQ(with_number("/", "version", 2), ": found version 2 of the format, expected 1");
  EXPECT_EQ(with_number("/", "version", 1.7),
            ": found 1.7 in the attribute \"version\", expected a whole number from 0");
  EXPECT_EQ(with_text("/", "version", "1"), ": found no number in the attribute \"version\", expected one");
  EXPECT_EQ(with_text("layers/000000", "activation", "step"),
            ": layer 0: found the activation \"step\", expected one of \"identity\", \"relu\", "
            "\"clipped_relu\", \"leaky_relu\", \"sigmoid\", \"tanh\"");
  EXPECT_EQ(with_text("layers/000000", "activation", "leaky_relu"),
            ": layer 0: found a cap beside the activation \"leaky_relu\", which has none; expected \"clipped_relu\"");
  EXPECT_EQ(with_text("layers/000000", "activation", "relu"),
            ": layer 0: found a cap beside the activation \"relu\", which has none; expected \"clipped_relu\"");
  EXPECT_EQ(with_text("layers/000000", "activation", "identity"),
            ": layer 0: found a cap beside the activation \"identity\", which has none; expected \"clipped_relu\"");
  EXPECT_EQ(with_number("layers/000000", "cap", -1), ": layer 0: the cap is -1, expected a positive finite number");
  EXPECT_EQ(with_number("layers/000000", "cap", std::nan("")),
            ": layer 0: the cap is nan, expected a positive finite number");
}

TEST(NetworkFile, WrongDescriptorsAreNamed) {
  auto const with = [](std::string const& text) {
    return sentence_after(
        [&](fs::path const& path) { testing::replace_text(path, "layers/000001/weights", "binsparse", text); });
  };
  std::string const types = R"("data_types": {"values": "float32"})";
  EXPECT_EQ(with("{"), ": layer 1: found a binsparse descriptor that is no JSON object, expected one");
  EXPECT_EQ(with("[1]"), ": layer 1: found a binsparse descriptor that is no JSON object, expected one");
  expect_holds(with(descriptor("0.2", types)), ": layer 1: found \"version\": \"\"0.2\"\" in the binsparse descriptor");
  expect_holds(with(descriptor("0.1", R"("format": "CSC")")), "\"format\"");
  expect_holds(with(descriptor("0.1", R"("format": "CSR")")), "found no \"shape\" in the binsparse descriptor");
  expect_holds(with(descriptor("0.1", R"("format": "CSR", "shape": [2])")), "expected two numbers");
  expect_holds(with(descriptor("0.1", R"("format": "CSR", "shape": [2, -2])")),
               "expected a number from 0 to 4294967295");
  expect_holds(with(descriptor("0.1", R"("format": "CSR", "shape": [2, 2], "number_of_stored_values": 1.5)")),
               "expected a number from 0 to");
  expect_holds(with(descriptor("0.1", R"("format": "CSR", "shape": [2, 2], "number_of_stored_values": 2)")),
               "expected an object that names the type of the values");
  std::string const shape = R"("format": "CSR", "shape": [2, 2], "number_of_stored_values": )";
  expect_holds(with(descriptor("0.1", shape + R"(2, "data_types": {"values": "complex[float32]"})")),
               "expected real numbers");
  EXPECT_EQ(with(descriptor("0.1", shape + "3, " + types)),
            ": layer 1: found the last row pointer 2, expected the number of stored values, 3");
  EXPECT_EQ(
      with(descriptor("0.1", R"("format": "CSR", "shape": [2, 2], "number_of_stored_values": 268435456, )" + types)),
      ": layer 1: found 268435456 stored values in a matrix of the shape 2 x 2, expected each entry of a matrix once");
  expect_holds(with(descriptor("0.1", "\"format\": " + std::string(40000, '['))), "nests 40002 deep");
  expect_holds(sentence_after([](fs::path const& path) {
                 testing::replace_text(path, "layers/000001/weights", "binsparse", std::string(65537, ' '), true);
               }),
               "more than 65536 bytes in the attribute \"binsparse\"");
  EXPECT_EQ(with(descriptor("0.1", R"("format": "CSR", "shape": [3, 2], "number_of_stored_values": 2, )" + types)),
            ": layer 1: found 3 numbers in pointers_to_1, expected 4 as the descriptor says");
}

TEST(NetworkFile, TheValuesSayWhetherOneIsSharedNotTheDescriptor) {
  TemporaryFolder const folder;
  auto const path = folder / "network.safetensors";
  write(small_network(), path);
  auto const weights = small_network().layers()[1].weights;
  auto const shape =
      fmt::format(R"("format": "CSR", "shape": [2, 2], "number_of_stored_values": {}, )", weights.num_entries());
  auto const group = std::string("layers/000001/weights");
  testing::replace_text(path, group, "binsparse",
                        descriptor("0.1", shape + R"("data_types": {"values": "iso[float32]"})"));
  EXPECT_EQ(load(*open_network_file(path)).layers()[1].weights, weights);
  testing::replace_text(path, group, "binsparse", descriptor("0.1", shape + R"("data_types": {"values": "float32"})"));
  testing::replace_list(path, group + "/values", H5T_IEEE_F32LE, {0.25});
  EXPECT_EQ(load(*open_network_file(path)).layers()[1].weights.values, std::vector{0.25});
}

TEST(NetworkFile, LayersThatDoNotFitAreSeenWhenOpened) {
  TemporaryFolder const folder;
  auto const path = folder / "network.safetensors";
  write(small_network(), path);
  testing::replace_text(path, "layers/000001/weights", "binsparse",
                        descriptor("0.1", R"("format": "CSR", "shape": [2, 5], "number_of_stored_values": 2,
                                             "data_types": {"values": "float32"})"));
  EXPECT_EQ(sentence_of<InputError>([&] { open_network_file(path); }),
            path.string() + ": layer 1 takes 5 inputs, but layer 0 has 2 outputs");
}

TEST(NetworkFile, WrongContentsAreNamed) {
  auto const with = [](std::string const& name, hid_t stored, std::vector<double> const& numbers) {
    return sentence_after(
        [&](fs::path const& path) { testing::replace_list(path, "layers/000000/" + name, stored, numbers); });
  };
  auto const nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(with("weights/values", H5T_IEEE_F64LE, {1, nan, 3, 4}),
            ": layer 0: entry 1 has the value nan, expected a finite number");
  EXPECT_EQ(with("weights/values", H5T_IEEE_F64LE, {1, 2, 3}),
            ": layer 0: found 3 numbers in values, expected 4 as the descriptor says");
  EXPECT_EQ(with("weights/indices_1", H5T_STD_I32LE, {1, 0, 2, 1}),
            ": layer 0: row 0 has column index 0 after 1; indices must ascend and be distinct");
  EXPECT_EQ(with("weights/indices_1", H5T_STD_I32LE, {0, 1, 3, 1}),
            ": layer 0: row 0 has column index 3, expected 0 to 2");
  EXPECT_EQ(with("weights/indices_1", H5T_STD_I32LE, {-1, 1, 2, 1}),
            ": layer 0: indices_1: found -1 at position 0, expected no negative number");
  expect_holds(with("weights/indices_1", H5T_STD_U64LE, {0, 1, 4294967297.0, 1}), "row 0 has column index 4294967295");
  expect_holds(with("weights/indices_1", H5T_STD_I64LE, {0, 1, 4294967297.0, 1}), "row 0 has column index 4294967295");
  EXPECT_EQ(with("weights/indices_1", H5T_IEEE_F32LE, {0, 1, 2, 1}),
            ": layer 0: indices_1: found a type that is no integer, expected integers");
  EXPECT_EQ(with("weights/pointers_to_1", H5T_STD_I32LE, {1, 3, 4}),
            ": layer 0: found the first row pointer 1, expected 0");
  EXPECT_EQ(with("weights/pointers_to_1", H5T_STD_I32LE, {0, 9, 4}),
            ": layer 0: found the row pointer 9 after row 0, expected 0 to 4");
  EXPECT_EQ(with("weights/pointers_to_1", H5T_STD_I32LE, {0, 3, 3}),
            ": layer 0: found the last row pointer 3, expected the number of stored values, 4");
  EXPECT_EQ(with("bias", H5T_IEEE_F64LE, {1, 2, 3}), ": layer 0: found 3 biases, expected 1 or 2");
  EXPECT_EQ(with("bias", H5T_IEEE_F64LE, {1, nan}), ": layer 0: the bias of output 1 is nan, expected a finite number");
}

TEST(NetworkFile, OtherFilesAreRefused) {
  TemporaryFolder const folder;
  auto const missing = folder / "missing.safetensors";
  EXPECT_EQ(sentence_of<InputError>([&] { read(missing); }),
            missing.string() + " cannot be read: No such file or directory");
  auto const text = testing::write_bytes(folder / "text.safetensors", "1\t2\t3\n");
  expect_holds(sentence_of<InputError>([&] { read(text); }), text.string() + " is no whole HDF5 file");
}

TEST(NetworkFileWriter, LeavesNothingBehindWhenItFails) {
  TemporaryFolder const folder;
  auto const layers = small_network().layers();
  {
    NetworkFileWriter writer(folder / "network.safetensors");
    writer.append(layers[0]);
    expect_holds(sentence_of<InputError>([&] { writer.append(layers[0]); }), "layer 1 takes 3 inputs");
    auto broken = layers[1];
    broken.weights.values[0] = std::nan("");
    expect_holds(sentence_of<InputError>([&] { writer.append(broken); }), "layer 1: entry 0 has the value nan");
  }
  EXPECT_EQ(folder.num_entries(), 0);
  EXPECT_THROW(NetworkFileWriter(folder / "network.safetensors").commit(), std::logic_error);
  EXPECT_THROW(NetworkFileWriter(folder / "no/network.safetensors"), ResourceError);
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
      write(testing::random_challenge_network(1, 500, 1, testing::Values::doubles), path);
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
