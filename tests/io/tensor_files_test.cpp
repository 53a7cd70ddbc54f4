#include "io/files.hpp"
#include "io/foreign_bytes.hpp"
#include "io/onnx.hpp"
#include "io/open.hpp"
#include "io/safetensors.hpp"

#include <cstdlib>
#include <string>
#include <vector>

/// Networks in safetensors and ONNX.
namespace varve {
namespace {

using namespace testing;

std::string const header = R"({"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
  "h": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [24, 28]}, "b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
  "__metadata__": {"format": "pt"}})";
std::string const data = bytes_of({1, 0, 2, 0, 3, 0}) + std::string("\x80\x3f\x00\xc0", 4);

TEST(Safetensors, TensorsAreLayers) {
  TemporaryFolder const folder;
  auto const tensors = write_bytes(folder / "model.safetensors", safetensors(header, data));
  EXPECT_TRUE(is_safetensors(tensors));
  SafetensorsFile const file(tensors);
  EXPECT_EQ(file.matrix("w", false), (SparseMatrix{2, 3, {0, 2, 3}, {0, 2, 1}, {1, 2, 3}}));
  EXPECT_EQ(file.matrix("w", true), (SparseMatrix{3, 2, {0, 1, 2, 3}, {0, 1, 0}, {1, 3, 2}}));
  EXPECT_EQ(file.matrix("h", false), (SparseMatrix{1, 2, {0, 2}, {0, 1}, {1, -2}}));
  EXPECT_EQ(file.list("b"), (std::vector<double>{1, 0}));
  write_bytes(folder / "model.json", R"({"file": "model.safetensors", "activation": "relu",
    "layers": [{"weights": "w", "bias": "b"}, {"weights": "h", "activation": "sigmoid"}]})");
  auto const network = open_network(folder / "model.json");
  EXPECT_EQ(network->layer(0), (Layer{file.matrix("w", false), {1, 0}, Activation::relu()}));
  EXPECT_EQ(network->layer(1).activation, Activation::sigmoid());
  expect_holds(sentence_of<UsageError>([&] { open_network(tensors); }), "list them in a JSON file and give that");
}

TEST(Safetensors, BrokenFilesAreRefusedInSentences) {
  TemporaryFolder const folder;
  auto const sentence = [&](std::string const& bytes) {
    auto const path = write_bytes(folder / "broken", bytes);
    return sentence_about(path, [&] { SafetensorsFile(path).matrix("w", false); });
  };
  EXPECT_EQ(sentence(safetensors("{}", "")), ": found no tensor \"w\", expected one among its 0");
  expect_holds(sentence(safetensors(header, data.substr(1))), "found data_offsets outside the file");
  EXPECT_EQ(sentence(safetensors(R"({"w": {"dtype": "F8", "shape": [1, 1], "data_offsets": [0, 1]}})", "x"))
                .find(": tensor \"w\": found elements of the type \"F8\""),
            0U);
  EXPECT_EQ(sentence(safetensors(R"({"w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 4]}})", "1234")),
            ": tensor \"w\": found 4 bytes, expected 8 for its shape (1, 2)");
  EXPECT_EQ(sentence(safetensors(R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", "1234")),
            ": tensor \"w\": found 1 dimensions, expected 2");
  EXPECT_EQ(sentence(safetensors(R"({"w": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]},
                                     "w": {"dtype": "F32", "shape": [1, 1], "data_offsets": [4, 8]}})",
                                 "12345678")),
            ": found the JSON key \"w\" twice in one object, expected it once");
  EXPECT_EQ(sentence(little_endian(1000, 8) + "{}"), ": found a header of 1000 bytes, expected no more than 2");
  EXPECT_EQ(sentence("{}"), ": found no safetensors file, expected one");
}

std::string const constants = onnx_constant("w1", {3, 2}, {1, 0, 2, 0, 3, 0}) + onnx_constant("b1", {3}, {1, 2, 3}) +
                              onnx_constant("w2", {3, 2}, {1, 0, 2, 0, 3, 0}) + onnx_constant("b2", {1, 2}, {1, 2}) +
                              onnx_constant("zero", {}, {0}) + onnx_constant("six", {}, {6});

TEST(Onnx, ChainsOfFullyConnectedLayersAreRead) {
  TemporaryFolder const folder;
  auto const path = write_bytes(folder / "model.onnx",
                                onnx_model(onnx_node("Gemm", {"x", "w1", "b1"}, "a", onnx_integer("transB", 1)) +
                                           onnx_node("LeakyRelu", {"a"}, "b", onnx_real("alpha", 0.5F)) +
                                           onnx_node("MatMul", {"b", "w2"}, "c") + onnx_node("Add", {"b2", "c"}, "d") +
                                           onnx_node("Clip", {"d", "zero", "six"}, "e") +
                                           onnx_node("Gemm", {"e", "w2"}, "f", onnx_integer("transB", 1)) +
                                           onnx_node("Softmax", {"f"}, "y") + constants));
  EXPECT_TRUE(is_onnx(path));
  EXPECT_FALSE(holds_samples(path));
  auto const network = open_network(path);
  ASSERT_EQ(network->num_layers(), 3U);
  SparseMatrix const rows = {3, 2, {0, 1, 2, 3}, {0, 0, 0}, {1, 2, 3}};
  EXPECT_EQ(network->layer(0), (Layer{rows, {1, 2, 3}, Activation::leaky_relu(0.5)}));
  EXPECT_EQ(network->layer(1), (Layer{{2, 3, {0, 3, 3}, {0, 1, 2}, {1, 2, 3}}, {1, 2}, Activation::clipped_relu(6)}));
  EXPECT_EQ(network->layer(2), (Layer{rows, {0}, Activation::identity()}));
  ChallengeOptions options;
  options.layers = 2;
  expect_holds(sentence_of<UsageError>([&] { open_network(path, options); }), "says 3");
}

TEST(Onnx, SoftmaxIsLeftOutOnlyIfItGoesOverTheOutputs) {
  TemporaryFolder const folder;
  auto const model = [&](std::string const& attributes) {
    auto const gemm = onnx_node("Gemm", {"x", "w1"}, "a", onnx_integer("transB", 1));
    return write_bytes(folder / "model.onnx",
                       onnx_model(gemm + onnx_node("Softmax", {"a"}, "y", attributes) + constants));
  };
  auto const minus_one = std::uint64_t(-1);
  for (auto const& attributes : {std::string(), onnx_integer("axis", 1), onnx_integer("axis", minus_one)})
    EXPECT_EQ(read_onnx(model(attributes)).num_layers(), 1U);
  auto const zero_left_out = proto(5, proto(1, std::string("axis")) + proto(20, 2)); // as writers of proto3 do
  for (auto const& attributes : {onnx_integer("axis", 0), onnx_integer("axis", minus_one - 1), zero_left_out}) {
    auto const path = model(attributes);
    expect_holds(sentence_about(path, [&] { read_onnx(path); }), ": found the operation \"Softmax\" with the axis ");
  }
}

TEST(Onnx, GemmWithoutABiasTakesThatOfAnAdd) {
  TemporaryFolder const folder;
  auto const gemm = onnx_node("Gemm", {"x", "w1"}, "a", onnx_integer("transB", 1));
  auto const path = write_bytes(folder / "model.onnx", onnx_model(gemm + onnx_node("Add", {"a", "b1"}, "b") +
                                                                  onnx_node("Relu", {"b"}, "y") + constants));
  auto const layer = read_onnx(path).layer(0);
  EXPECT_EQ(layer.bias, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(layer.activation, Activation::relu());
  auto const with_bias = onnx_node("Gemm", {"x", "w1", "b1"}, "a", onnx_integer("transB", 1));
  write_bytes(path, onnx_model(with_bias + onnx_node("Add", {"a", "b1"}, "y") + constants));
  expect_holds(sentence_about(path, [&] { read_onnx(path); }), "with no MatMul or Gemm without a bias before it");
}

TEST(Onnx, HalvesInIntegersAreRead) {
  TemporaryFolder const folder;
  auto const model = [&](std::string const& type_and_numbers) {
    auto const weights = proto(5, proto(1, 2) + proto(1, 1) + proto(8, std::string("w")) + type_and_numbers);
    return write_bytes(folder / "model.onnx",
                       onnx_model(onnx_node("Gemm", {"x", "w"}, "y", onnx_integer("transB", 1)) + weights));
  };
  SparseMatrix const expected = {2, 1, {0, 1, 2}, {0, 0}, {1, -2}};
  auto const halves = proto_number(0x3c00) + proto_number(0xc000);
  auto const brain_floats = proto_number(0x3f80) + proto_number(0xc000);
  EXPECT_EQ(read_onnx(model(proto(2, 10) + proto(5, halves))).layer(0).weights, expected);
  EXPECT_EQ(read_onnx(model(proto(2, 10) + proto(5, 0x3c00) + proto(5, 0xc000))).layer(0).weights, expected);
  EXPECT_EQ(read_onnx(model(proto(2, 16) + proto(5, brain_floats))).layer(0).weights, expected);
  auto const path = model(proto(2, 10) + proto(5, proto_number(0x3c00) + proto_number(0x10000)));
  expect_holds(sentence_about(path, [&] { read_onnx(path); }),
               "found the number 65536 in the int32_data of a constant");
}

TEST(Onnx, FieldsOfAModelMayComeInAnyOrder) {
  TemporaryFolder const folder;
  auto const gemm = onnx_node("Gemm", {"x", "w1"}, "y", onnx_integer("transB", 1));
  auto const ordered = onnx_model(gemm + constants);
  auto const graph = ordered.substr(2);
  auto const imports = proto(8, proto(2, 17));
  auto const path = write_bytes(folder / "model", graph + ordered.substr(0, 2));
  EXPECT_TRUE(is_onnx(path));
  EXPECT_EQ(open_network(path)->num_layers(), 1U);
  for (auto const& other :
       {imports + graph, graph + proto(1, 0), imports + proto(1, 7), (graph + proto(1, 7)).substr(0, graph.size()),
        graph + "xy" + proto(1, 7), std::string("20\t5\t0.5\n"), std::string("2\t5\t0.5\n22\t5\t0.5\n"), std::string()})
    EXPECT_FALSE(is_onnx(write_bytes(path, other)));
}

TEST(Onnx, AttributesThatAreEmptyAreZero) { // as writers of proto3 leave them
  TemporaryFolder const folder;
  auto const empty = [](std::string const& name, std::uint64_t type) {
    return proto(5, proto(1, name) + proto(20, type));
  };
  auto const path = folder / "model.onnx";
  auto const gemm = onnx_node("Gemm", {"x", "w1"}, "a", onnx_integer("transB", 1));
  write_bytes(path, onnx_model(gemm + onnx_node("LeakyRelu", {"a"}, "y", empty("alpha", 1)) + constants));
  expect_holds(sentence_about(path, [&] { read_onnx(path); }), "the slope is 0");
  write_bytes(path,
              onnx_model(gemm + onnx_node("Clip", {"a"}, "y", empty("min", 1) + onnx_real("max", 6)) + constants, 10));
  EXPECT_EQ(read_onnx(path).layer(0).activation, Activation::clipped_relu(6));
  for (std::string const name : {"alpha", "beta"}) {
    write_bytes(path, onnx_model(onnx_node("Gemm", {"x", "w1", "b1"}, "y", empty(name, 1)) + constants));
    expect_holds(sentence_about(path, [&] { read_onnx(path); }), "alpha or beta, expected 1 for both");
  }
}

TEST(Onnx, WhatTheTablesDoNotKnowIsRefused) {
  TemporaryFolder const folder;
  auto const path = folder / "model.onnx";
  auto const sentence = [&](std::string const& nodes, std::uint64_t version = 17) {
    write_bytes(path, onnx_model(nodes + constants, version));
    return sentence_about(path, [&] { read_onnx(path); });
  };
  auto const gemm = onnx_node("Gemm", {"x", "w1"}, "a", onnx_integer("transB", 1));
  auto const clip = [&](std::string const& attributes) { return gemm + onnx_node("Clip", {"a"}, "y", attributes); };
  expect_holds(sentence(onnx_node("Gemm", {"x", "w1"}, "y", onnx_integer("alpha", 2))),
               "with the attribute \"alpha\" of the type 2, expected the type 1");
  expect_holds(sentence(clip(onnx_real("min", 0) + onnx_integer("max", 3)), 10), "attribute \"max\" of the type 2");
  expect_holds(sentence(clip(onnx_real("min", 0)), 11), "with the attribute \"min\", expected none of this name");
  expect_holds(sentence(gemm + onnx_node("Relu", {"a"}, "y", onnx_real("alpha", 1))), "with the attribute \"alpha\"");
  expect_holds(sentence(onnx_node("Gemm", {"x", "w1"}, "y", onnx_real("beta", 1) + onnx_real("beta", 1))),
               "two attributes \"beta\" of a node");
  expect_holds(sentence(gemm + onnx_node("Relu", {"a", "b1"}, "y")), "with 2 inputs, expected 1 at most");
  auto const constant = proto(5, proto(1, std::string("value")) + onnx_constant("", {2}, {1, 2}) + proto(20, 4));
  expect_holds(sentence(onnx_node("Constant", {}, "b1", constant) + gemm), "the output \"b1\", a name given before");
  expect_holds(sentence(gemm + onnx_node("Relu", {"a"}, "a")), "the output \"a\", a name given before");
  for (std::uint64_t const version : {0, 1, 6, 29, 999})
    expect_holds(sentence(gemm, version),
                 "found version " + std::to_string(version) + " of ONNX's operations, expected one");
  auto const model = onnx_model(gemm + onnx_node("Relu", {"a"}, "y") + constants);
  auto const imports = proto(8, proto(2, 17));
  write_bytes(path, model.substr(0, model.size() - imports.size()));
  expect_holds(sentence_about(path, [&] { read_onnx(path); }), "no version of ONNX's operations (opset_import)");
  write_bytes(path, model + imports);
  expect_holds(sentence_about(path, [&] { read_onnx(path); }), "two versions of ONNX's operations");
  write_bytes(path, model + proto(8, proto(1, std::string("ai.onnx.ml")) + proto(2, 3)));
  EXPECT_EQ(read_onnx(path).num_layers(), 1U);
  auto const outside = proto(5, proto(1, 3) + proto(1, 2) + proto(2, 1) + proto(8, std::string("w")) + proto(14, 1));
  expect_holds(sentence(onnx_node("Gemm", {"x", "w"}, "y") + outside),
               "in this file (torch.onnx.export: external_data=False)");
}

TEST(Onnx, EverythingElseIsNamedInASentence) {
  TemporaryFolder const folder;
  auto const sentence = [&](std::string const& nodes) {
    auto const path = write_bytes(folder / "broken.onnx", onnx_model(nodes + constants));
    return sentence_about(path, [&] { read_onnx(path); });
  };
  auto const gemm = onnx_node("Gemm", {"x", "w1"}, "a", onnx_integer("transB", 1));
  expect_holds(sentence(onnx_node("Conv", {"x", "w1"}, "y")), ": found the operation \"Conv\", expected one of Gemm");
  expect_holds(sentence(gemm + onnx_node("Relu", {"x"}, "y")), "with the input \"x\", expected \"a\"");
  expect_holds(sentence(gemm + onnx_node("Relu", {"a"}, "b") + onnx_node("Tanh", {"b"}, "y")),
               "one activation per layer");
  expect_holds(sentence(gemm + onnx_node("Softmax", {"a"}, "b") + onnx_node("Relu", {"b"}, "y")), "behind Softmax");
  expect_holds(sentence(gemm), "ends with \"a\", expected \"y\"");
  expect_holds(sentence(onnx_node("Gemm", {"x", "w1"}, "y", onnx_real("alpha", 2))), "alpha or beta, expected 1");
  expect_holds(sentence(onnx_node("Gemm", {"x", "z"}, "y")), "with the input \"z\" that is no constant");
  expect_holds(sentence(onnx_node("Gemm", {"x", "b1"}, "y")), "weights of 1 dimensions");
  expect_holds(sentence(onnx_node("Gemm", {"x", "w1", "b1"}, "y")), "a bias of the shape (3), expected 1 or 2 numbers");
  expect_holds(sentence(gemm + onnx_node("Clip", {"a", "six"}, "y")), "another lower limit than 0");
  expect_holds(sentence(gemm + onnx_node("Gemm", {"a", "w1"}, "y", onnx_integer("transB", 1))),
               "layer 1 takes 2 inputs, but layer 0 has 3 outputs");
  EXPECT_EQ(sentence(""), ": found a model without Gemm and MatMul, expected at least one");
  auto const cut = write_bytes(folder / "cut.onnx", onnx_model(gemm + constants).substr(0, 100));
  expect_holds(sentence_about(cut, [&] { read_onnx(cut); }), "no message of Protocol Buffers");
}

/// Writes a model by the package onnx, and its weights by NumPy.
#ifdef VARVE_PYTHON_HAS_ONNX
std::string const onnx_python = R"(
import numpy, onnx
from onnx import helper, numpy_helper, TensorProto
rng = numpy.random.default_rng(1)
w1 = rng.normal(size=(6, 4)).astype(numpy.float32)
w2 = rng.normal(size=(6, 3)).astype(numpy.float32)
b1 = rng.normal(size=6).astype(numpy.float32)
nodes = [helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], transB=1), helper.make_node("Relu", ["a"], ["b"]),
         helper.make_node("MatMul", ["b", "w2"], ["y"])]
graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
    [numpy_helper.from_array(w1, "w1"), numpy_helper.from_array(b1, "b1"),
     helper.make_tensor("w2", TensorProto.FLOAT, w2.shape, w2.flatten())])
onnx.save(helper.make_model(graph), "model.onnx")
numpy.save("w1.npy", w1)
numpy.save("w2.npy", w2.T)
del graph.initializer[2]
w2 = w2.astype(numpy.float16)
graph.initializer.append(helper.make_tensor("w2", TensorProto.FLOAT16, w2.shape, w2.flatten()))
onnx.save(helper.make_model(graph), "halves.onnx")
numpy.save("halves.npy", w2.T)
)";

TEST(Onnx, ReadsWhatThePackageOnnxWrites) {
  TemporaryFolder const folder;
  write_bytes(folder / "script.py", onnx_python);
  auto const command = "cd '" + folder.path().string() + "' && '" VARVE_PYTHON "' script.py";
  ASSERT_EQ(std::system(command.c_str()), 0);
  auto const network = open_network(folder / "model.onnx");
  ASSERT_EQ(network->num_layers(), 2U);
  EXPECT_EQ(network->layer(0).weights, open_samples(folder / "w1.npy", 4).matrix);
  EXPECT_EQ(network->layer(1).weights, open_samples(folder / "w2.npy", 6).matrix);
  EXPECT_EQ(network->layer(0).bias.size(), 6U);
  EXPECT_EQ(open_network(folder / "halves.onnx")->layer(1).weights, open_samples(folder / "halves.npy", 6).matrix);
}
#endif

} // namespace
} // namespace varve
