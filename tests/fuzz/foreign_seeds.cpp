#include "fuzz/foreign_seeds.hpp"

#include "core/config.hpp"
#include "fuzz/seed_files.hpp"
#include "io/binsparse.hpp"
#include "io/foreign_bytes.hpp"
#include "io/hdf5.hpp"
#include "io/random_data.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using fuzz::made;
using fuzz::write_bytes;
using testing::random_samples;
using testing::Values;

/// A matrix of 2 x 3 in the formats of other programs.
void write_matrices(fs::path const& folder) {
  using testing::npy;
  std::vector<float> const numbers = {1, 0, 2, 0, 0, 3};
  write_bytes(folder / "rows.npy", npy("<f4", {2, 3}, numbers));
  write_bytes(folder / "columns.npy", npy("<f4", {2, 3}, numbers, true));
  write_bytes(folder / "bytes.npy", npy("|u1", {3, 2}, std::vector<std::uint8_t>{1, 0, 1, 0, 1, 1}));
  for (std::string const name : {"csr", "csc", "coo"}) {
    bool const has_pairs = name == "coo";
    testing::ZipWriter archive;
    archive.add("format.npy", testing::npy_of("{'descr': '|S3', 'fortran_order': False, 'shape': (), }", name));
    archive.add("shape.npy", npy("<i8", {2}, std::vector<std::int64_t>{2, 2}));
    archive.add("data.npy", npy("<f4", {3}, std::vector<float>{1, 2, 0}));
    archive.add(has_pairs ? "col.npy" : "indices.npy", npy("<i4", {3}, std::vector<std::int32_t>{0, 1, 1}));
    if (has_pairs) archive.add("row.npy", npy("<i4", {3}, std::vector<std::int32_t>{0, 0, 1}));
    if (!has_pairs) archive.add("indptr.npy", npy("<i4", {3}, std::vector<std::int32_t>{0, 2, 3}));
    if (VARVE_HAVE_ZIP) write_bytes(folder / (name + ".npz"), archive.finish());
  }
  write_bytes(folder / "real.mtx", "%%MatrixMarket matrix coordinate real general\n% ours\n2 3 2\n1 3 0.5\n2 1 -1e3\n");
  write_bytes(folder / "pattern.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n");
  write_bytes(folder / "array.mtx", "%%MatrixMarket matrix array integer skew-symmetric\n3 3\n1\n0\n-2\n");
}

/// Matrices of binsparse: one in the root group, and one per group.
void write_plain_binsparse(fs::path const& folder) {
  auto const lock = hdf5::lock();
  auto const matrix = random_samples(8, 5, 6, Values::doubles).matrix;
  auto const one = folder / "one.h5";
  auto const file = hdf5::create_file(one, one);
  binsparse::write_matrix(hdf5::open_group(file.id(), "/", one.string()), matrix, one);
  auto const old = folder / "old-format.h5"; // as h5py writes it: structures without checksums
  hdf5::File const old_file(H5Fcreate(old.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  binsparse::write_matrix(hdf5::create_group(old_file.id(), "0", old), matrix, old);
  auto const pairs = folder / "pairs.h5";
  auto const other = hdf5::create_file(pairs, pairs);
  auto const group = hdf5::create_group(other.id(), "layer1", pairs);
  for (auto const* name : {"indices_0", "indices_1"})
    hdf5::write_list(group.id(), name, H5T_STD_U8LE, std::vector<std::uint64_t>{0, 1, 2}, false, pairs);
  hdf5::write_list(group.id(), "values", H5T_IEEE_F32LE, std::vector<double>{1, 2, 3}, false, pairs);
  hdf5::write_text(group.id(), "binsparse",
                   R"({"binsparse": {"version": "0.1", "format": "COO", "shape": [3, 4], "number_of_stored_values": 3,
                       "data_types": {"indices_0": "uint8", "indices_1": "uint8", "values": "float32"}}})",
                   pairs);
}

/// A list of layers and the files beside it: see layer_list.cpp.
void write_layer_lists(fs::path const& folder) {
  auto const tensors = testing::safetensors(
      R"({"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
          "h": {"dtype": "F16", "shape": [1, 2], "data_offsets": [24, 28]},
          "b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "__metadata__": {"format": "pt"}})",
      testing::bytes_of({1, 0, 2, 0, 3, 0}) + std::string("\0\x3c\0\xc0", 4));
  auto const array = testing::npy("<f8", {3, 2}, std::vector<double>{0.5, 0, 0, 0, 1, 2});
  write_bytes(folder / "tensors", R"({"file": "weights.safetensors", "layers": [{"weights": "w", "bias": "b",
    "activation": "leaky_relu", "slope": 0.1}, {"weights": "h", "activation": "tanh"}]})"
                                  "\n@\n" +
                                      tensors + "\n@\n");
  write_bytes(folder / "arrays", R"({"activation": "clipped_relu", "cap": 2, "transpose": true, "layers":
    ["weights.npy", {"weights": "weights.npy", "transpose": false, "bias": 1.5}]})"
                                 "\n@\n\n@\n" +
                                     array);
}

void write_onnx(fs::path const& folder) {
  using namespace testing;
  auto const constants = onnx_constant("w1", {3, 2}, {1, 0, 2, 0, 3, 0}) + onnx_constant("b1", {3}, {1, 2, 3}) +
                         onnx_constant("w2", {3, 2}, {1, 0, 2, 0, 3, 0}) + onnx_constant("b2", {1, 2}, {1, 2}) +
                         onnx_constant("zero", {}, {0}) + onnx_constant("six", {}, {6});
  write_bytes(folder / "chain",
              onnx_model(onnx_node("Gemm", {"x", "w1", "b1"}, "a", onnx_integer("transB", 1)) +
                         onnx_node("LeakyRelu", {"a"}, "b", onnx_real("alpha", 0.5F)) +
                         onnx_node("MatMul", {"b", "w2"}, "c") + onnx_node("Add", {"b2", "c"}, "d") +
                         onnx_node("Clip", {"d", "zero", "six"}, "e") + onnx_node("Softmax", {"e"}, "y") + constants));
  auto const constant =
      proto(5, proto(1, std::string("value")) + onnx_constant("", {2, 2}, {1, 2, 3, 4}) + proto(20, 4));
  write_bytes(folder / "constant",
              onnx_model(onnx_node("Constant", {}, "w", constant) + onnx_node("MatMul", {"x", "w"}, "y")));
}

} // namespace

void write_foreign_seeds(fs::path const& folder) {
  write_matrices(made(folder / "matrices"));
  write_plain_binsparse(made(folder / "hdf5_matrices"));
  write_layer_lists(made(folder / "layer_list"));
  write_onnx(made(folder / "onnx"));
}

} // namespace varve
