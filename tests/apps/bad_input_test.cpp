#include "apps/shared_folder.hpp"
#include "io/container_edit.hpp"

#include "distribute/record_store.hpp"
#include "distribute/run_batches.hpp"
#include "io/network_file.hpp"
#include "io/sample_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::joined;
using test::run_varve;
using test::succeed;
using varve::test::read_bytes;
using varve::test::TemporaryFolder;
using varve::test::write_bytes;

/// Good files, of which each test breaks one. Outputs go to a folder of their own.
class BadInput : public test::SharedFolder<BadInput> {
public:
  static void make_files() {
    test::generate_small(good("net.safetensors"), good("img.safetensors"), 3, 20);
    for (std::string const ending : {"", ".gz", ".xz", ".zst"}) {
      succeed({"convert", good("net.safetensors"), good("net.tsv" + ending)});
      succeed({"convert", good("img.safetensors"), good("img.tsv" + ending)});
    }
  }

protected:
  static std::string good(std::string const& name) { return path(name); }
  std::string bad(std::string const& name) const { return (bad_ / name).string(); }

  /// A copy of a good file or folder.
  std::string copy(std::string const& name) const {
    std::filesystem::copy(good(name), bad(name), std::filesystem::copy_options::recursive);
    return bad(name);
  }

  /// A good file with its end cut off.
  std::string cut(std::string const& name) const {
    auto const bytes = read_bytes(good(name));
    return write_bytes(bad(name.substr(name.find('/') + 1)), bytes.substr(0, bytes.size() / 2)).string();
  }

  /// A folder of layer files, one of which is other text.
  std::string network_with(std::string const& layer, std::string const& text) const {
    auto const folder = copy("net.tsv");
    write_bytes(folder + "/" + layer, text);
    return folder;
  }

  /// Expects one sentence that holds `parts`, exit code 3, and nothing written.
  void expect_refused(std::string const& network, std::string const& input, std::vector<std::string> const& parts,
                      std::vector<std::string> const& options = {}) const {
    std::vector<std::string> words = {"infer",
                                      "--network",
                                      network,
                                      "--input",
                                      input,
                                      "--categories",
                                      out("alive.tsv"),
                                      "--predictions",
                                      out("best.tsv"),
                                      "--activations",
                                      out("last.safetensors"),
                                      "--report",
                                      out("report.json")};
    if (std::filesystem::is_directory(network)) words.insert(words.end(), {"--text", "bias=-0.2"});
    expect_sentence(run_varve(joined(words, options)), parts);
  }

  void expect_not_converted(std::string const& source, std::string const& target, std::vector<std::string> const& parts,
                            std::vector<std::string> const& options = {}) const {
    std::vector<std::string> words = {"convert", source, out(target)};
    expect_sentence(run_varve(joined(words, options)), parts);
  }

private:
  std::string out(std::string const& name) const { return (out_ / name).string(); }

  void expect_sentence(test::Ended const& ended, std::vector<std::string> const& parts) const {
    test::expect_sentence(ended, 3, parts);
    EXPECT_EQ(out_.num_entries(), 0) << "something was written";
  }

  TemporaryFolder bad_;
  TemporaryFolder out_;
};

TEST_F(BadInput, GoodFilesAreTaken) {
  succeed({"infer", "--network", good("net.safetensors"), "--input", good("img.safetensors")});
  for (std::string const ending : {"", ".gz", ".xz", ".zst"}) {
    succeed(
        {"infer", "--network", good("net.tsv" + ending), "--text", "bias=-0.2", "--input", good("img.tsv" + ending)});
  }
}

TEST_F(BadInput, MissingFiles) {
  expect_refused(bad("no.safetensors"), good("img.safetensors"), {bad("no.safetensors"), "No such file"});
  expect_refused(good("net.safetensors"), bad("no.tsv"), {bad("no.tsv"), "No such file"});
  expect_refused(good("net.safetensors"), good("img.safetensors"), {bad("no-truth.tsv"), "No such file"},
                 {"--truth", bad("no-truth.tsv")});
  expect_not_converted(bad("no.safetensors"), "x.safetensors", {bad("no.safetensors")});
  test::expect_sentence(run_varve({"info", bad("no.safetensors")}), 3);
}

/// A journal whose records are whole, but not those of a run.
TEST_F(BadInput, JournalsThatSayOtherThings) {
  auto const journal = bad("run.journal");
  succeed({"infer", "--network", good("net.safetensors"), "--input", good("img.safetensors"), "--journal", journal,
           "--predictions", bad("best.tsv"), "--activations", bad("last.safetensors")});
  std::vector<std::string> records;
  {
    RecordFile const file(journal, RecordFile::Purpose::read);
    for (std::size_t number = 0; number < file.num_records(); ++number) records.push_back(file.read(number));
  }
  auto const refuse = [&](std::size_t number, std::string const& content, std::string const& part) {
    std::filesystem::remove(journal);
    {
      RecordFile file(journal, RecordFile::Purpose::append);
      for (std::size_t record = 0; record < records.size(); ++record)
        file.append(record == number ? content : records[record]);
    }
    expect_refused(good("net.safetensors"), good("img.safetensors"), {journal, part}, {"--journal", journal});
  };
  auto head = nlohmann::ordered_json::parse(records[0]);
  head["network"] = {{"layers", 3}, {"inputs", "many"}};
  refuse(0, head.dump(), "does not say how many inputs its network has");
  head["network"] = 7;
  refuse(0, head.dump(), "does not say how many layers its network has");
  auto batch = batch_of_bytes(records[1], "");
  batch.predictions.clear();
  refuse(1, to_bytes(batch), "has other predictions than this run needs");
  batch = batch_of_bytes(records[1], "");
  batch.activations.matrix.num_columns += 1;
  refuse(1, to_bytes(batch), "has other activations than this run needs");
  batch.activations = {};
  refuse(1, to_bytes(batch), "has other activations than this run needs");
  batch.samples.second = 0;
  refuse(1, to_bytes(batch), "record 1");
}

TEST_F(BadInput, TruncatedCompressedImages) {
  for (std::string const ending : {".gz", ".xz", ".zst"}) {
    auto const images = cut("img.tsv" + ending);
    expect_refused(good("net.safetensors"), images, {images});
    expect_not_converted(images, "x.safetensors", {images}, {"--text", "neurons=32"});
  }
}

TEST_F(BadInput, TruncatedCompressedLayer) {
  for (std::string const ending : {".gz", ".xz", ".zst"}) {
    auto const folder = copy("net.tsv" + ending);
    auto const layer = "n32-l2.tsv" + ending;
    auto const bytes = read_bytes(folder + "/" + layer);
    write_bytes(folder + "/" + layer, bytes.substr(0, bytes.size() - 9));
    expect_refused(folder, good("img.safetensors"), {layer});
    expect_not_converted(folder, "x.safetensors", {layer}, {"--text", "bias=-0.2"});
    expect_not_converted(folder, "folder", {layer}, {"--text", "bias=-0.2"});
  }
}

TEST_F(BadInput, TruncatedContainers) {
  auto const network = cut("net.safetensors");
  expect_refused(network, good("img.safetensors"), {network});
  auto const images = cut("img.safetensors");
  expect_refused(good("net.safetensors"), images, {images});
}

TEST_F(BadInput, LinesOfImages) {
  struct Case {
    std::string text, line;
    std::vector<std::string> parts;
  };
  std::vector<Case> const cases = {
      {"1\t1\t1\n2\t5\n3\t1\t1\n", "2", {"2 columns", "image, pixel, value"}},
      {"1\t1\t1\n2\t5", "2", {"2 columns"}},
      {"1\t1\t1\n2\t5\t", "2", {"2 columns"}},
      {"1\t1\t1\t1\n", "1", {"4 columns"}},
      {"1\t1\t1\n0\t5\t1\n", "2", {"image \"0\"", "from 1"}},
      {"1\t1\t1\n1\t2\t1\n5\t0\t1\n", "3", {"pixel \"0\"", "1 to 32"}},
      {"1\t33\t1\n", "1", {"pixel \"33\"", "1 to 32"}},
      {"-1\t3\t1\n", "1", {"image \"-1\""}},
      {"99999999999999999999999\t3\t1\n", "1", {"image"}},
      {"1\t3\tnan\n", "1", {"value \"nan\"", "finite"}},
      {"1\t3\tinf\n", "1", {"value \"inf\"", "finite"}},
      {"1\t3\tone\n", "1", {"value \"one\""}},
      {"1\t3\t1\n\n1\t3\t1\n", "3", {"a second time"}},
      {std::string("1\t3\t1\n\0\x01\x02\n", 10), "2", {"\\x00"}},
  };
  for (auto const& [text, line, parts] : cases) {
    SCOPED_TRACE(text);
    auto const images = write_bytes(bad("img.tsv"), text).string();
    auto all = parts;
    all.push_back(images + ":" + line + ":");
    expect_refused(good("net.safetensors"), images, all);
  }
}

TEST_F(BadInput, LinesOfLayers) {
  struct Case {
    std::string text, line;
    std::vector<std::string> parts;
  };
  std::vector<Case> const cases = {
      {"1\t1\t0.0625\n2\t5\n", "2", {"2 columns", "input, output, weight"}},
      {"0\t1\t0.0625\n", "1", {"input \"0\"", "1 to 32"}},
      {"1\t33\t0.0625\n", "1", {"output \"33\"", "1 to 32"}},
      {"1\t3\tNaN\n", "1", {"weight \"NaN\"", "finite"}},
      {"1\t3\t1e999\n", "1", {"weight \"1e999\""}},
      {"1\t3\t1\n2\t3\t1\n1\t3\t1\n", "3", {"a second time"}},
  };
  for (auto const& [text, line, parts] : cases) {
    SCOPED_TRACE(text);
    std::filesystem::remove_all(bad("net.tsv"));
    auto const folder = network_with("n32-l3.tsv", text);
    auto all = parts;
    all.push_back(folder + "/n32-l3.tsv:" + line + ":");
    expect_refused(folder, good("img.safetensors"), all);
    expect_not_converted(folder, "x.safetensors", all, {"--text", "bias=-0.2"});
  }
}

TEST_F(BadInput, FoldersThatHoldNoNetwork) {
  std::filesystem::create_directory(bad("empty"));
  expect_refused(bad("empty"), good("img.safetensors"), {bad("empty"), "nN-lK.tsv"});
  auto const gap = copy("net.tsv");
  std::filesystem::remove(gap + "/n32-l2.tsv");
  expect_refused(gap, good("img.safetensors"), {"n32-l2.tsv", "missing"});
  auto const doubled = copy("net.tsv.gz");
  write_bytes(doubled + "/n32-l1.tsv", "1\t1\t1\n");
  expect_refused(doubled, good("img.safetensors"), {"n32-l1.tsv", "n32-l1.tsv.gz"});
}

TEST_F(BadInput, LayersThatDoNotFitTogether) {
  auto const layer_of = [](std::size_t inputs, std::size_t outputs) {
    Layer layer;
    layer.weights.num_rows = outputs;
    layer.weights.num_columns = inputs;
    layer.weights.row_pointers.assign(outputs + 1, 0);
    return layer;
  };
  NetworkFileWriter writer(bad("whole.safetensors"), 2);
  writer.append(layer_of(32, 20));
  writer.append(layer_of(20, 32));
  writer.commit();
  test::ContainerEdit file(bad("whole.safetensors"));
  file.description["layers"][1]["shape"] = {32, 32};
  file.write(bad("misfit.safetensors"));
  std::vector<std::string> const parts = {bad("misfit.safetensors"),
                                          "layer 1 takes 32 inputs, but layer 0 has 20 outputs"};
  expect_refused(bad("misfit.safetensors"), good("img.safetensors"), parts);
  expect_not_converted(bad("misfit.safetensors"), "x.safetensors", parts);
  EXPECT_EQ(run_varve({"info", bad("misfit.safetensors")}).exit_code, 3);
}

TEST_F(BadInput, NumbersInANetworkFile) {
  auto const network = copy("net.safetensors");
  test::ContainerEdit const whole(network);
  auto edit = whole;
  edit.set("layers.1.bias", std::vector<double>(32, std::numeric_limits<double>::quiet_NaN()));
  edit.write(network);
  expect_refused(network, good("img.safetensors"), {network, "layer 1", "nan"});
  edit = whole;
  edit.description["layers"][2]["cap"] = -1.0;
  edit.write(network);
  expect_refused(network, good("img.safetensors"), {network, "layers.2", "cap"});
  edit = whole;
  edit.arrays.erase("layers.0.values");
  edit.write(network);
  expect_refused(network, good("img.safetensors"), {network, "no array \"layers.0.values\""});
}

TEST_F(BadInput, ImagesForAnotherWidth) {
  succeed({"generate", "images", "--neurons", "64", "--samples", "5", "--output", bad("wide.safetensors")});
  expect_refused(good("net.safetensors"), bad("wide.safetensors"), {bad("wide.safetensors"), "64", "32"});
  succeed({"convert", bad("wide.safetensors"), bad("wide.tsv")});
  expect_refused(good("net.safetensors"), bad("wide.tsv"), {bad("wide.tsv") + ":", "1 to 32"});
}

TEST_F(BadInput, FilesOfAnotherKind) {
  expect_refused(good("img.safetensors"), good("img.safetensors"),
                 {good("img.safetensors"), "the kind \"samples\", expected \"network\""});
  expect_refused(good("net.safetensors"), good("net.safetensors"),
                 {good("net.safetensors"), "the kind \"network\", expected \"samples\""});
  auto const text = write_bytes(bad("notes.txt"), "a note\n").string();
  expect_refused(text, good("img.safetensors"), {text});
  expect_refused(good("net.safetensors"), text, {text + ":1:"});
  expect_refused(good("net.safetensors"), good("net.tsv"), {good("net.tsv")}); // a folder
}

TEST_F(BadInput, FilesOfOtherProgramsAreForThePythonPackage) {
  for (auto const& [begin, what] :
       {std::pair("\x89HDF\r\n\x1a\n", "an HDF5 file"), std::pair("\x93NUMPY\x01", "an array of NumPy"),
        std::pair("PK\x03\x04", "a zip archive, as those of SciPy")}) {
    auto const file = write_bytes(bad("other"), begin + std::string(100, 'x')).string();
    auto const sentence = file + " is " + what + ", which Varve's Python package reads: varve-convert " + file;
    expect_refused(file, good("img.safetensors"), {sentence});
    expect_refused(good("net.safetensors"), file, {sentence});
    expect_not_converted(file, "x.safetensors", {sentence});
    test::expect_sentence(run_varve({"info", file}), 3, {sentence});
  }
  auto const text = write_bytes(bad("model.onnx"), "a model\n").string();
  expect_refused(text, good("img.safetensors"), {text + " is not a network", "varve-convert " + text});
}

TEST_F(BadInput, Truth) {
  auto const truth = bad("truth.tsv");
  auto const refused = [&](std::string const& text, std::vector<std::string> const& parts) {
    write_bytes(truth, text);
    expect_refused(good("net.safetensors"), good("img.safetensors"), parts, {"--truth", truth});
  };
  refused("3\nfour\n", {truth + ":2:", "four"});
  refused("0\n", {truth + ":1:"});
  refused("3\n5\n3\n", {truth + ":3:", "second time"});
  refused("3\n21\n", {truth, "21", "20"});
}

} // namespace
} // namespace varve
