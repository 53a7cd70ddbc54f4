#include "core/error.hpp"
#include "distribute/record_store.hpp"
#include "distribute/run_batches.hpp"
#include "fuzz/seed_files.hpp"
#include "io/categories.hpp"
#include "io/dense_file.hpp"
#include "io/network_file.hpp"
#include "io/open.hpp"
#include "io/random_data.hpp"
#include "io/sample_file.hpp"
#include "io/text_file.hpp"
#include "receipts/inference_receipt.hpp"
#include "training/training_receipt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

/// Writes what each fuzz target begins with, by Varve's own writers:  fuzz_seeds FOLDER  makes FOLDER/TARGET.
namespace varve {
namespace {

namespace fs = std::filesystem;
using fuzz::made;
using fuzz::write_bytes;
using test::random_challenge_network;
using test::random_samples;
using test::Values;

std::string bytes_of(fs::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A folder of layer files as one input: see network_text.cpp.
void write_network_texts(fs::path const& folder) {
  for (std::string const ending : {".tsv", ".tsv.gz", ".tsv.xz", ".tsv.zst"}) {
    auto const source = folder.parent_path() / ("network" + ending);
    fs::remove_all(source);
    save_network(random_challenge_network(1, 12, 2, Values::floats), source);
    std::string input;
    for (std::string const layer : {"n12-l1.tsv", "n12-l2.tsv"}) {
      auto const name = layer + ending.substr(4);
      input += (input.empty() ? "@" : "\n@") + name + "\n" + bytes_of(source / name);
    }
    write_bytes(folder / ("network" + ending), input);
    fs::remove_all(source);
  }
}

/// The first byte says what is asked of the text: see sample_text.cpp.
void write_sample_texts(fs::path const& folder) {
  auto const path = folder.parent_path() / "samples.tsv";
  save_samples(random_samples(2, 8, 64, Values::doubles), path);
  auto const text = bytes_of(path);
  for (char const request : {'\0', '\2', '\3', '\4', '\5'})
    write_bytes(folder / fmt::format("doubles-{}", int{request}), request + text);
  save_samples(random_samples(3, 6, 1, Values::one_for_all), path);
  write_bytes(folder / "one-neuron", '\1' + bytes_of(path));
  fs::remove(path);
}

void write_compressed(fs::path const& folder, char const* ending) {
  save_samples(random_samples(4, 20, 64, Values::doubles), folder / fmt::format("doubles.tsv{}", ending));
  save_samples(random_samples(5, 200, 64, Values::one_for_all), folder / fmt::format("ones.tsv{}", ending));
  std::vector<SampleIndex> const samples = {0, 2, 3, 11};
  write_categories(folder / fmt::format("categories.tsv{}", ending), samples);
  auto const once = bytes_of(folder / fmt::format("categories.tsv{}", ending));
  write_bytes(folder / fmt::format("two-members.tsv{}", ending), once + once);
  TextWriter empty(folder / fmt::format("empty.tsv{}", ending));
  empty.commit();
}

/// Rectangular layers with each activation, one bias and many.
Network rectangular_network() {
  test::Generator generator(2);
  std::vector<Layer> layers;
  layers.push_back({test::random_matrix(generator, 9, 12, 0.3, Values::doubles), std::vector<double>(9, 0.5),
                    Activation::identity()});
  layers.push_back({test::random_matrix(generator, 7, 9, 0.3, Values::floats), {-0.5}, Activation::relu()});
  layers.push_back({test::random_matrix(generator, 5, 7, 0.3, Values::one_for_all), std::vector<double>(5, 0.25),
                    Activation::clipped_relu(1.5)});
  return Network(std::move(layers));
}

void write_networks(fs::path const& folder) {
  auto const network = rectangular_network();
  save_network(network, folder / "rectangular.safetensors");
  save_network(random_challenge_network(3, 12, 2, Values::one_for_all), folder / "ones.safetensors");
  auto shared = random_challenge_network(6, 12, 2, Values::doubles).layers();
  shared.push_back(shared.front());
  save_network(Network(shared), folder / "shared.safetensors");
  TrainingRecord record{R"({"rate":0.5})", R"({"epoch":1})", {{}, 7}, std::vector<double>(22, -1.0)};
  for (auto const& layer : network.layers()) {
    record.optimizer.layers.push_back(
        {{std::vector<double>(layer.num_edges(), 0.1)}, {std::vector<double>(layer.bias.size(), 0.25)}});
  }
  auto const best = random_challenge_network(7, 12, 1, Values::floats);
  NetworkFileWriter(folder / "checkpoint.safetensors", network, record, &best).commit();
}

/// The bytes of an IDX file: its dimensions and its elements.
std::string idx(std::vector<std::uint32_t> const& dimensions, std::string const& elements) {
  std::string bytes = {0, 0, 8, static_cast<char>(dimensions.size())};
  for (auto const dimension : dimensions) {
    for (int const shift : {24, 16, 8, 0}) bytes += static_cast<char>(dimension >> shift & 0xffU);
  }
  return bytes + elements;
}

void write_idx_images(fs::path const& folder) {
  std::string const pixels = {0, 1, 0, 0, 0, 127, 0, 0, 0, 0, 0, 0, 5, 6, 7, 8, 9, 10, 0, 0, 0, 0, '\xff', 0};
  write_bytes(folder / "images", idx({4, 2, 3}, pixels));
  write_bytes(folder / "one-dimension-more", idx({2, 2, 2, 3}, pixels));
  write_bytes(folder / "none", idx({0, 2, 3}, ""));
  TextWriter compressed(folder / "images.gz");
  compressed.write(idx({4, 6}, pixels));
  compressed.commit();
}

/// The first byte says whether there may be labels of more than five samples: see labels.cpp.
void write_labels(fs::path const& folder) {
  write_bytes(folder / "text", std::string(1, '\0') + "# classes\n3\n0\n\n9\n4294967294\n1\n");
  write_bytes(folder / "more", "\1" + std::string("3\n0\n9\n4\n1\n7\n"));
  write_bytes(folder / "idx", std::string(1, '\0') + idx({5}, "abcde"));
  write_bytes(folder / "more-idx", '\1' + idx({6}, "abcdef"));
}

/// Samples with labels and targets.
void write_answers(fs::path const& path) {
  auto const writer = create_sample_file(path, 12);
  writer->append(random_samples(4, 8, 12, Values::doubles));
  writer->append_labels({{0, 1, 2, 3, 4, 5, 6, 7}, 0});
  writer->append_targets(random_samples(5, 8, 3, Values::floats));
  writer->commit();
}

void write_samples(fs::path const& folder) {
  write_answers(folder / "answers.safetensors");
  save_samples(random_samples(2, 8, 12, Values::doubles), folder / "doubles.safetensors");
  save_samples(random_samples(3, 300, 12, Values::one_for_all), folder / "ones.safetensors");
}

void write_matrices(fs::path const& folder) {
  std::vector<float> numbers(6 * 5);
  for (std::size_t place = 0; place < numbers.size(); ++place)
    numbers[place] = 0.25F * static_cast<float>(place) - 3.0F;
  std::vector<double> const doubles(numbers.begin(), numbers.end());
  DenseFileWriter narrow(folder / "floats.safetensors", 6, 5, Precision::single_precision);
  narrow.write({0, 6, 0, 5}, numbers.data());
  narrow.commit();
  DenseFileWriter wide(folder / "doubles.safetensors", 5, 6, Precision::double_precision);
  wide.write({0, 5, 0, 6}, doubles.data());
  wide.commit();
}

void write_matrix_markets(fs::path const& folder) {
  std::string const banner = "%%MatrixMarket matrix ";
  write_bytes(folder / "coordinate", banner + "coordinate real general\n% a note\n3 4 3\n1 1 0.5\n3 4 -2\n3 1 1e3\n");
  write_bytes(folder / "pattern", banner + "coordinate pattern symmetric\n3 3 2\n1 1\n3 1\n");
  write_bytes(folder / "array", banner + "array integer general\n2 3\n1\n0\n-3\n4\n5\n6\n");
  write_bytes(folder / "skew", banner + "array real skew-symmetric\n3 3\n1\n2.5\n-3\n");
  TextWriter compressed(folder / "matrix.gz");
  compressed.write(banner + "coordinate unsigned-integer general\n2 2 1\n2 2 7\n");
  compressed.commit();
}

FinishedBatch finished_batch(SampleIndex first, SampleIndex last) {
  FinishedBatch batch;
  batch.samples = {first, last};
  batch.activation_hash = 12345;
  batch.live_edges = 67.0;
  batch.live_samples = {first};
  batch.predictions.assign(last - first, 3);
  batch.activations = random_samples(first + 1, last - first, 4, Values::doubles);
  batch.activations.first_sample = first;
  return batch;
}

/// Once as a file, once as the list of records of which journal.cpp makes one.
void write_journals(fs::path const& folder) {
  auto const path = folder / "journal";
  {
    RecordStore journal(path, 0, 1);
    journal.resume({{"samples", 100}}, {});
    journal.begin({{"layers", 2}, {"inputs", 12}, {"outputs", 4}, {"edges", 57}});
    for (auto const& batch : {finished_batch(0, 8), finished_batch(8, 16)}) journal.add(batch.samples, to_bytes(batch));
  }
  std::string records;
  RecordFile const file(path, RecordFile::Purpose::read);
  for (std::size_t number = 0; number < file.num_records(); ++number) {
    auto const content = file.read(number);
    records += static_cast<char>(content.size() % 256);
    records += static_cast<char>(content.size() / 256);
    records += content;
  }
  write_bytes(folder / "records", records);
}

void write_command_lines(fs::path const& folder) {
  std::vector<std::string> const lines = {
      "infer\n--network\nnet.safetensors\n--input\nimages.safetensors\n--categories\nalive.tsv\n--report\nreport.json",
      "infer\n--network=n\n--input=i\n--samples\n5:10\n--tuning\nrepeat-input=3\n--batch\n100\n--text\ncap=32,bias=-0."
      "3",
      "infer\n--network=n\n--input=i\n--tuning\nformats=csr,cones,schedule=static\n--reductions\nnone\n--memory\nhost="
      "0.5",
      "infer\n--network=n\n--input=i\n--tuning\nkernel=fused\n--edge-order\nbalanced\n--split\nsamples\n--tuning=share-"
      "devices=on",
      "generate\nradixnet\n--neurons\n1024\n--layers\n120\n--seed\n7\n--output\nnet.safetensors",
      "generate\nrandom\n--widths\n784,512,10\n--density\n0.6\n--bias\n-0.1\n0.1\n--output\nnet.safetensors",
      "generate\nimages\n--neurons\n1024\n--samples\n60000\n--output\nimages.safetensors",
      "generate\nsamples\n--neurons\n256\n--samples\n10000\n--density\n0.5\n--output\nvalues.safetensors",
      "generate\nrandom\n--widths\n784,512,10\n--density\n0.05\n--init\nhe\n--activation\nsigmoid\n--output\nnet."
      "safetensors",
      "generate\nweights\n--network\nnet.safetensors\n--init\nidentity\n--activation\nclipped_relu,cap=2\n--"
      "output\nstart.safetensors",
      "convert\n--reduce\nnet.safetensors\nsmall.safetensors",
      "convert\n--prune\n0.05,over=network\nnet.safetensors\nsmall.safetensors",
      "convert\nimages.gz\ndigits.safetensors\n--labels\nlabels.gz\n--pixels\nraw",
      "evaluate\n--network\nn\n--input\ni\n--labels\nl\n--loss\nmean-square\n--top\n3\n--report\nreport.json",
      "info\nnet.safetensors\n--plan\n--json\n--precision\ndouble",
      "--version",
      "infer\n--help"};
  for (std::size_t number = 0; number < lines.size(); ++number)
    write_bytes(folder / fmt::format("line-{}", number), lines[number]);
}

void write_receipts(fs::path const& folder) {
  InferenceReceipt receipt;
  receipt.network = sha256("network");
  receipt.precision = "float";
  receipt.edge_order = "balanced";
  receipt.made_by = {{"program", "a test"}};
  for (std::string const name : {"none", "one", "two"}) {
    receipt.seal();
    write_receipt(folder / (name + ".json"), receipt);
    receipt.reductions.emplace_back("merge_neurons");
    receipt.leaves.push_back({sha256(name), sha256("output")});
  }
  receipt.seal();
  write_proof(folder / "proof.json", proof_of(receipt, 1));
  TrainingReceipt training;
  training.recipe = {{"seed", 1}};
  training.every = 2;
  for (std::uint64_t const step : {2U, 4U, 5U})
    training.states.push_back({step, sha256("order"), {sha256("weights"), {}}, {{}, sha256("moments")}});
  write_bytes(folder / "training.json", to_json(training));
}

void write_seeds(fs::path const& folder) {
  write_network_texts(made(folder / "network_text"));
  write_sample_texts(made(folder / "sample_text"));
  std::vector<SampleIndex> const samples = {0, 2, 3, 11, 59999};
  write_categories(made(folder / "categories") / "categories.tsv", samples);
  write_labels(made(folder / "labels"));
  write_idx_images(made(folder / "idx_images"));
  write_compressed(made(folder / "gzip"), ".gz");
  write_compressed(made(folder / "xz"), ".xz");
  write_compressed(made(folder / "zstd"), ".zst");
  write_networks(made(folder / "network_file"));
  write_samples(made(folder / "sample_file"));
  write_matrices(made(folder / "dense_file"));
  write_matrix_markets(made(folder / "matrix_market"));
  write_journals(made(folder / "journal"));
  write_receipts(made(folder / "receipt"));
  write_command_lines(made(folder / "command_line"));
}

} // namespace
} // namespace varve

int main(int num_arguments, char** arguments) {
  if (num_arguments != 2) {
    std::fputs("fuzz_seeds FOLDER: writes what each fuzz target begins with\n", stderr);
    return 2;
  }
  try {
    varve::write_seeds(arguments[1]);
    return 0;
  } catch (std::exception const& failure) {
    fmt::print(stderr, "fuzz_seeds: {}\n", failure.what());
    return 4;
  }
}
