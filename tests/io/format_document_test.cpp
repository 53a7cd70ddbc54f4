#include "io/files.hpp"
#include "io/open.hpp"
#include "io/sample_file.hpp"
#include "io/targets.hpp"

#include <cstdlib>
#include <string>

namespace varve {
namespace {

using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

/// The first block of Python in the document of the formats.
std::string documented_python() {
  auto const document = read_bytes(VARVE_FORMAT_DOCUMENT);
  std::string const fence = "```python\n";
  auto const begin = document.find(fence);
  if (begin == std::string::npos) return {};
  auto const end = document.find("```", begin + fence.size());
  return document.substr(begin + fence.size(), end - begin - fence.size());
}

TEST(FormatDocument, ItsPythonWritesWhatVarveReads) {
  TemporaryFolder const folder;
  auto const script = documented_python();
  ASSERT_FALSE(script.empty());
  write_bytes(folder / "example.py", script);
  auto const command = "cd '" + folder.path().string() + "' && '" VARVE_PYTHON "' example.py";
  ASSERT_EQ(std::system(command.c_str()), 0);

  auto const network = load(*open_network(folder / "network.h5"));
  ASSERT_EQ(network.layers().size(), 3U);
  for (auto const& layer : network.layers()) {
    EXPECT_EQ(layer.num_inputs(), 8U);
    EXPECT_EQ(layer.num_outputs(), 8U);
    EXPECT_EQ(layer.num_edges(), 32U);
    EXPECT_EQ(layer.bias, std::vector{-0.25});
    EXPECT_EQ(layer.activation, Activation::clipped_relu(32.0));
  }
  auto const samples = open_samples(folder / "samples.h5", 8);
  EXPECT_EQ(samples.num_samples(), 5U);
  EXPECT_EQ(samples.matrix.num_entries(), 20U);
  EXPECT_EQ(read_sample_labels(folder / "samples.h5"), (Labels{{3, 0, 7, 2, 0}, 0}));
  EXPECT_EQ(open_targets(folder / "samples.h5", 8, {0, 5}, OtherSamples::refused)->num_entries(), 20U);
}

/// Python that reads files of ours with h5py and scipy and checks their sums.
std::string const reading_python = R"(
import json, h5py, numpy, scipy.sparse
def read(group):
    head = json.loads(group.attrs["binsparse"])["binsparse"]
    values = numpy.broadcast_to(group["values"][()], head["number_of_stored_values"])
    for name in ("pointers_to_1", "indices_1"):
        assert head["data_types"][name] == str(group[name].dtype)
    return scipy.sparse.csr_array((values, group["indices_1"][()], group["pointers_to_1"][()]), shape=head["shape"])
with h5py.File("network.h5") as file:
    assert file.attrs["format"].decode() == "varve-network" and file.attrs["version"] == 1
    weights = read(file["layers/000000/weights"]).toarray()
    assert (weights == [[0.5, 0, 0.5], [0, 0.5, 0]]).all(), weights
    assert file["layers/000000/bias"][()].tolist() == [1.5, -2.5]
    assert file["layers/000000"].attrs["cap"] == 4.0
with h5py.File("samples.h5") as file:
    assert file.attrs["first_sample"] == 9
    assert (read(file["samples"]).toarray() == [[0.1, 0], [0, 3]]).all()
    assert file["labels"][()].tolist() == [4, 1] and file["labels"].dtype == "uint32"
    assert (read(file["targets"]).toarray() == [[0, 0, 0.5], [0, 0, 0]]).all()
)";

TEST(FormatDocument, PythonReadsWhatVarveWrites) {
  TemporaryFolder const folder;
  Layer const layer{{2, 3, {0, 2, 3}, {0, 2, 1}, {0.5}}, {1.5, -2.5}, Activation::clipped_relu(4.0)};
  save_network(Network({layer}), folder / "network.h5");
  SampleFileWriter writer(folder / "samples.h5", 2);
  writer.append({{2, 2, {0, 1, 2}, {0, 1}, {0.1, 3.0}}, 9});
  writer.append_labels({{4, 1}, 9});
  writer.append_targets({{2, 3, {0, 1, 1}, {2}, {0.5}}, 9});
  writer.commit();
  write_bytes(folder / "read.py", reading_python);
  auto const command = "cd '" + folder.path().string() + "' && '" VARVE_PYTHON "' read.py";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

} // namespace
} // namespace varve
