#include "core/config.hpp"
#include "io/files.hpp"
#include "io/layer_list.hpp"
#include "io/matrix_file.hpp"
#include "io/open.hpp"
#include "io/sample_file.hpp"

#include <cstdlib>
#include <string>

/// Files that NumPy, SciPy and h5py write, and files of Varve that they read back.
namespace varve {
namespace {

using testing::expect_holds;
using testing::sentence_about;
using testing::sentence_of;
using testing::TemporaryFolder;
using testing::write_bytes;

ChallengeOptions with_activation(std::string const& name) {
  ChallengeOptions options;
  options.activation = name;
  return options;
}

/// Runs a script in the folder.
void run_python(TemporaryFolder const& folder, std::string const& script) {
  write_bytes(folder / "script.py", script);
  auto const command = "cd '" + folder.path().string() + "' && '" VARVE_PYTHON "' script.py";
  ASSERT_EQ(std::system(command.c_str()), 0);
}

/// Writes one matrix of 5 x 7 in all formats, and as Varve's own file.
std::string const writing_python = R"(
import json, h5py, numpy, scipy.io, scipy.sparse
matrix = scipy.sparse.random(5, 7, density=0.4, random_state=3, format="csr", dtype=numpy.float32)
matrix.data = numpy.ceil(matrix.data * 64) / 64 # few digits, which all writers write exactly
matrix = matrix + scipy.sparse.csr_matrix(([-2.5], ([1], [2])), shape=(5, 7), dtype=numpy.float32)
matrix.sum_duplicates()
numpy.save("dense.npy", matrix.toarray())
numpy.save("fortran.npy", numpy.asfortranarray(matrix.toarray().astype(numpy.float64)))
for name in ("csr", "csc", "coo"):
    for compressed in (False, True):
        scipy.sparse.save_npz(f"{name}-{compressed}.npz", matrix.asformat(name), compressed=compressed)
reversed_rows = matrix.copy()
for row in range(5):
    part = slice(matrix.indptr[row], matrix.indptr[row + 1])
    reversed_rows.indices[part] = matrix.indices[part][::-1]
    reversed_rows.data[part] = matrix.data[part][::-1]
scipy.sparse.save_npz("unsorted.npz", reversed_rows)
scipy.io.mmwrite("sparse.mtx", matrix)
scipy.io.mmwrite("array.mtx", matrix.toarray())

def write_binsparse(group, matrix, name):
    matrix = matrix.asformat(name.lower())
    if name == "COO":
        arrays = {"indices_0": matrix.row, "indices_1": matrix.col, "values": matrix.data}
    else:
        arrays = {"pointers_to_1": matrix.indptr, "indices_1": matrix.indices, "values": matrix.data}
    for key, array in arrays.items():
        group[key] = array
    group.attrs["binsparse"] = json.dumps({"binsparse": {"version": "0.1", "format": name, "shape": matrix.shape,
        "number_of_stored_values": matrix.nnz, "data_types": {key: str(array.dtype) for key, array in arrays.items()}}})
for name in ("CSR", "CSC", "COO"):
    with h5py.File(f"{name}.h5", "w") as file:
        write_binsparse(file, matrix, name)
with h5py.File("layers.h5", "w") as file:
    for number in range(11):
        write_binsparse(file.create_group(f"layer{number}"), matrix if number == 0 else
                        scipy.sparse.identity(5, dtype=numpy.float32) * (number + 1), "CSC")
    file["some bias"] = [1.0, 2.0, 3.0, 4.0, 5.0]
with h5py.File("own.h5", "w") as file:
    file.attrs.update(format="varve-samples", version=1)
    write_binsparse(file.create_group("samples"), matrix, "CSR")
)";

TEST(OtherPrograms, EveryFormatGivesTheSameMatrix) {
  TemporaryFolder const folder;
  run_python(folder, writing_python);
  auto const own = read_sample_file(folder / "own.h5").matrix;
  ASSERT_EQ(own.num_rows, 5U);
  ASSERT_GT(own.num_entries(), 10U);
  for (std::string const name :
       {"dense.npy", "fortran.npy", "csr-False.npz", "csr-True.npz", "csc-False.npz", "csc-True.npz", "coo-False.npz",
        "coo-True.npz", "unsorted.npz", "sparse.mtx", "array.mtx", "CSR.h5", "CSC.h5", "COO.h5"}) {
    SCOPED_TRACE(name);
    if (!VARVE_HAVE_ZIP && name.ends_with(".npz")) continue; // io_without_zip has its test
    auto const path = folder / name;
    auto const format = matrix_format(path);
    ASSERT_TRUE(format.has_value());
    EXPECT_EQ(read_matrix(path, *format), own);
    EXPECT_TRUE(holds_samples(path));
    EXPECT_EQ(open_samples(path, 7).matrix, own);
    EXPECT_EQ(open_samples(path, 7, SampleRange{1, 4}), (SampleSet{rows_of(own, 1, 4), 1}));
    auto const options = with_activation("tanh");
    EXPECT_FALSE(holds_samples(path, options));
    auto const network = open_network(path, options);
    ASSERT_EQ(network->num_layers(), 1U);
    EXPECT_EQ(network->layer(0), (Layer{own, {0.0}, Activation::tanh()}));
    EXPECT_EQ(orientation_note(*network), "");
  }
}

TEST(OtherPrograms, GroupsOfAFileAreLayersInTheOrderOfTheirNumbers) {
  TemporaryFolder const folder;
  run_python(folder, writing_python);
  auto const path = folder / "layers.h5";
  EXPECT_FALSE(holds_samples(path));
  auto const network = open_network(path, with_activation("relu"));
  ASSERT_EQ(network->num_layers(), 11U);
  EXPECT_EQ(network->layer(0).weights, read_sample_file(folder / "own.h5").matrix);
  for (std::size_t number = 1; number < 11; ++number)
    EXPECT_EQ(network->layer(number).weights.value(0), static_cast<double>(number + 1));
  write_bytes(folder / "list.json", R"({"file": "layers.h5", "activation": "leaky_relu", "slope": 0.25,
    "layers": [{"weights": "layer0", "bias": "some bias"}, {"weights": "layer4", "activation": "identity"}]})");
  auto const listed = open_network(folder / "list.json");
  EXPECT_EQ(listed->layer(0).bias, (std::vector<double>{1, 2, 3, 4, 5}));
  EXPECT_EQ(listed->layer(0).activation, Activation::leaky_relu(0.25));
  EXPECT_EQ(listed->layer(1).activation, Activation::identity());
  EXPECT_EQ(listed->layer(1).weights.value(0), 5.0);
}

TEST(OtherPrograms, ReadBackWhatVarveMakesOfTheirFiles) {
  TemporaryFolder const folder;
  run_python(folder, writing_python);
  save_samples(open_samples(folder / (VARVE_HAVE_ZIP ? "csc-True.npz" : "CSC.h5"), std::nullopt),
               folder / "samples.h5");
  save_network(*open_network(folder / "COO.h5", with_activation("relu")), folder / "network.h5");
  run_python(folder, R"(
import h5py, scipy.sparse
expected = scipy.sparse.load_npz("csr-True.npz").toarray()
for name, place in (("samples.h5", "samples"), ("network.h5", "layers/000000/weights")):
    with h5py.File(name) as file:
        group = file[place]
        found = scipy.sparse.csr_array((group["values"][()], group["indices_1"][()], group["pointers_to_1"][()]), shape=(5, 7))
        assert (found.toarray() == expected).all(), name
)");
}

TEST(OtherPrograms, EntriesThatAreNotStoredMustBeZero) {
  TemporaryFolder const folder;
  run_python(folder, R"(
import json, h5py, numpy
def write(name, fill, value):
    with h5py.File(name, "w") as file:
        file["pointers_to_1"], file["indices_1"], file["values"] = [0, 1, 1], [1], [2.0]
        descriptor = {"version": "0.1", "format": "CSR", "shape": [2, 2], "number_of_stored_values": 1,
                      "data_types": {"pointers_to_1": "int64", "indices_1": "int64", "values": "float64"}}
        if fill is not None:
            descriptor["fill"] = fill
        if value is not None:
            file["fill_value"] = [value]
        file.attrs["binsparse"] = json.dumps({"binsparse": descriptor})
write("zero.h5", True, 0.0)
write("unused.h5", False, 7.0)
write("seven.h5", True, 7.0)
write("missing.h5", True, None)
write("word.h5", "yes", 0.0)
)");
  for (std::string const name : {"zero.h5", "unused.h5"})
    EXPECT_EQ(open_samples(folder / name, 2).matrix, (SparseMatrix{2, 2, {0, 1, 1}, {1}, {2}})) << name;
  auto const sentence = [&](std::string const& name) {
    return sentence_about(folder / name, [&] { open_samples(folder / name, 2); });
  };
  EXPECT_EQ(sentence("seven.h5"), ": found the fill value 7, expected 0 for all entries that are not stored");
  expect_holds(sentence("missing.h5"), "fill_value");
  expect_holds(sentence("word.h5"), "\"fill\": ");
}

TEST(OtherPrograms, WhatSciPyWritesButVarveDoesNotReadIsNamed) {
  TemporaryFolder const folder;
  run_python(folder, R"(
import numpy, scipy.io, scipy.sparse, warnings, zipfile
matrix = scipy.sparse.identity(4, format="dia")
scipy.sparse.save_npz("dia.npz", matrix)
numpy.savez("arrays.npz", a=numpy.ones(3), b=numpy.ones(3))
scipy.sparse.save_npz("complex.npz", scipy.sparse.csr_matrix(numpy.array([[1j]])))
twice = scipy.sparse.coo_matrix(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2))
scipy.sparse.save_npz("twice.npz", twice)
scipy.sparse.save_npz("members.npz", scipy.sparse.csr_matrix(numpy.eye(2)))
warnings.simplefilter("ignore") # zipfile warns of the name that is there already
with zipfile.ZipFile("members.npz", "a") as archive, archive.open("data.npy", "w") as member:
    numpy.save(member, numpy.array([3.0, 4.0]))
scipy.io.mmwrite("complex.mtx", numpy.array([[1j]]))
scipy.io.mmwrite("symmetric.mtx", scipy.sparse.csr_matrix(numpy.array([[1.0, 2.0], [2.0, 0.0]])), symmetry="symmetric")
scipy.io.mmwrite("unsigned.mtx", scipy.sparse.csr_matrix(numpy.array([[0, 2], [2**40, 0]], dtype=numpy.uint64)))
with open("unsigned2.mtx", "w") as file:
    file.write("%%MatrixMarket matrix coordinate unsigned-integer general\n2 2 1\n1 2 +3\n")
with open("signs.mtx", "w") as file:
    file.write("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 +-5\n")
for name, text in [("cut.mtx", "1 2 90"), ("whole.mtx", "1 2 900\n% an end")]:
    with open(name, "w") as file:
        file.write("%%MatrixMarket matrix coordinate real general\n2 2 1\n" + text)
scipy.io.mmwrite("pattern.mtx", scipy.sparse.csr_matrix(numpy.array([[1.0, 1.0], [0.0, 1.0]])), field="pattern")
)");
  auto const sentence = [&](std::string const& name) {
    return sentence_about(folder / name, [&] { open_samples(folder / name, std::nullopt); });
  };
  if (VARVE_HAVE_ZIP) {
    EXPECT_EQ(sentence("dia.npz"), ": found SciPy's sparse format \"dia\", expected csr, csc or coo (SciPy: tocsr())");
    expect_holds(sentence("arrays.npz"), "expected a sparse matrix of SciPy (scipy.sparse.save_npz)");
    expect_holds(sentence("complex.npz"), ": data.npy: found elements of NumPy's type \"<c16\"");
    EXPECT_EQ(
        sentence("twice.npz"),
        ": found row 0, column 1 (both from 0) a second time, expected each entry once (SciPy: call sum_duplicates())");
    EXPECT_EQ(sentence("members.npz"), ": found two members of the name \"data.npy\", expected one");
  }
  expect_holds(sentence("complex.mtx"), "expected values of the kind real, integer or, with coordinate, pattern");
  EXPECT_EQ(open_samples(folder / "symmetric.mtx", 2).matrix, (SparseMatrix{2, 2, {0, 2, 3}, {0, 1, 0}, {1, 2, 2}}));
  EXPECT_EQ(open_samples(folder / "unsigned.mtx", 2).matrix,
            (SparseMatrix{2, 2, {0, 1, 2}, {1, 0}, {2, 1099511627776}}));
  EXPECT_EQ(open_samples(folder / "unsigned2.mtx", 2).matrix, (SparseMatrix{2, 2, {0, 1, 1}, {1}, {3}}));
  EXPECT_EQ(sentence("cut.mtx"),
            ":3: found \"1 2 90\" at the end of the file, expected a line break behind it, without "
            "which the file may have been cut");
  EXPECT_EQ(open_samples(folder / "whole.mtx", 2).matrix, (SparseMatrix{2, 2, {0, 1, 1}, {1}, {900}}));
  EXPECT_EQ(sentence("signs.mtx"), ":3: found \"1 2 +-5\", expected a number");
  EXPECT_EQ(open_samples(folder / "pattern.mtx", 2).matrix, (SparseMatrix{2, 2, {0, 2, 3}, {0, 1, 1}, {1}}));
}

} // namespace
} // namespace varve
