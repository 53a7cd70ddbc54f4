#include "apps/shared_folder.hpp"

#include "io/open.hpp"
#include "io/sample_files.hpp"
#include "io/text_file.hpp"
#include "passes/pruned_network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::expect_sentence;
using test::joined;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using varve::test::read_bytes;
using varve::test::TemporaryFolder;
using varve::test::write_bytes;

/// The bytes of an IDX file.
std::string idx(std::vector<std::uint32_t> const& dimensions, std::string const& elements) {
  std::string bytes = {0, 0, 8, static_cast<char>(dimensions.size())};
  for (auto const dimension : dimensions) {
    for (int const shift : {24, 16, 8, 0}) bytes += static_cast<char>(dimension >> shift & 0xffU);
  }
  return bytes + elements;
}

/// Images of 2 x 2 pixels as IDX, compressed; their labels as IDX and as text; other samples.
class ConvertSamples : public test::SharedFolder<ConvertSamples> {
public:
  static void make_files() {
    TextWriter images(path("images.gz"));
    images.write(idx({3, 2, 2}, {0, 51, 0, '\xff', 0, 0, 0, 0, 102, 0, 0, 0}));
    images.commit();
    write_bytes(path("labels"), idx({3}, {7, 0, 2}));
    write_bytes(path("labels.tsv"), "7\n0\n2\n");
    write_bytes(path("four.tsv"), "7\n0\n2\n4\n");
    write_sample_file(path("outputs.safetensors"), {{3, 2, {0, 1, 1, 3}, {1, 0, 1}, {0.5, 0.25, 0.75}}, 0});
    succeed({"generate", "random", "--widths", "8,6,4", "--density", "1", "--output", path("net.safetensors")});
  }

protected:
  static test::Ended convert(std::string const& source, std::string const& target,
                             std::vector<std::string> const& options = {}) {
    return run_varve(joined({"convert", path(source), path(target)}, options));
  }

  /// Expects a sentence that holds `part`, and no output.
  static void expect_refused(int exit_code, std::string const& source, std::string const& target,
                             std::vector<std::string> const& options, std::string const& part) {
    auto const before = folder().num_entries();
    expect_sentence(convert(source, target, options), exit_code, {part}, target);
    EXPECT_EQ(folder().num_entries(), before);
  }
};

TEST_F(ConvertSamples, OneCommandReadsImagesAndLabels) {
  for (std::string const labels : {"labels", "labels.tsv"}) {
    EXPECT_EQ(convert("images.gz", "digits.safetensors", {"--labels", path(labels)}).exit_code, 0);
    auto const samples = read_sample_file(path("digits.safetensors"));
    EXPECT_EQ(samples.matrix.row_pointers, (std::vector<EdgeOffset>{0, 2, 2, 3}));
    EXPECT_EQ(samples.matrix.column_indices, (std::vector<NeuronIndex>{1, 3, 0}));
    EXPECT_EQ(samples.matrix.values, (std::vector<double>{0.2F, 1.0, 0.4F}));
    EXPECT_EQ(read_sample_labels(path("digits.safetensors")), (Labels{{7, 0, 2}, 0}));
  }
  EXPECT_EQ(convert("images.gz", "raw.tsv", {"--pixels", "raw"}).exit_code, 0);
  EXPECT_EQ(read_bytes(path("raw.tsv")), "1\t2\t51\n1\t4\t255\n3\t1\t102\n");
}

/// The line of varve infer that holds the hash of all activations.
std::string hash_of(std::string const& network, std::string const& input) {
  auto const out = succeed({"infer", "--network", network, "--input", input}).out;
  return out.substr(std::min(out.find("activations "), out.size()));
}

TEST_F(ConvertSamples, ImagesAreSamplesForEveryCommand) {
  succeed({"generate", "random", "--widths", "4,6,3", "--density", "1", "--output", path("four.safetensors")});
  EXPECT_EQ(convert("images.gz", "converted.safetensors").exit_code, 0);
  auto const hash = hash_of(path("four.safetensors"), path("images.gz"));
  EXPECT_NE(hash, "");
  EXPECT_EQ(hash, hash_of(path("four.safetensors"), path("converted.safetensors")));
  EXPECT_THAT(succeed({"info", path("images.gz")}).out, HasSubstr("3 samples of 4 neurons, 3 entries"));
  succeed({"infer", "--network", path("four.safetensors"), "--input", path("images.gz"), "--categories",
           path("alive.tsv")});
  succeed(
      {"verify", "--network", path("four.safetensors"), "--input", path("images.gz"), "--result", path("alive.tsv")});
}

TEST_F(ConvertSamples, AnswersComeAlongUnlessTheyAreReplacedOrLeftOut) {
  EXPECT_EQ(
      convert("images.gz", "all.safetensors", {"--labels", path("labels"), "--targets", path("outputs.safetensors")})
          .exit_code,
      0);
  EXPECT_EQ(convert("all.safetensors", "copy.safetensors").exit_code, 0);
  EXPECT_EQ(read_sample_labels(path("copy.safetensors")), (Labels{{7, 0, 2}, 0}));
  EXPECT_EQ(to_set(open_sample_file(path("copy.safetensors"), std::nullopt, SamplePart::targets)->read(0, 3)),
            read_sample_file(path("outputs.safetensors")));
  EXPECT_EQ(read_bytes(path("copy.safetensors")), read_bytes(path("all.safetensors")));
  EXPECT_THAT(succeed({"info", path("all.safetensors")}).out, HasSubstr("labels 0 to 7, targets of 2 outputs"));
  auto const json = nlohmann::json::parse(succeed({"info", "--json", path("all.safetensors")}).out);
  EXPECT_EQ(json["largest_label"], 7);
  EXPECT_EQ(json["targets"], 2);

  write_bytes(path("others.tsv"), "1\n1\n1\n");
  EXPECT_EQ(convert("all.safetensors", "others.safetensors", {"--labels", path("others.tsv")}).exit_code, 0);
  EXPECT_EQ(read_sample_labels(path("others.safetensors")), (Labels{{1, 1, 1}, 0}));
  EXPECT_EQ(read_sample_header(path("others.safetensors")).num_targets, 2U);
  EXPECT_EQ(convert("outputs.safetensors", "later.safetensors", {"--targets", path("all.safetensors")}).exit_code, 0);
  EXPECT_EQ(read_sample_header(path("later.safetensors")).num_targets,
            2U); // the targets of all.safetensors, not its samples

  EXPECT_EQ(convert("all.safetensors", "bare.safetensors", {"--samples-only"}).exit_code, 0);
  EXPECT_FALSE(read_sample_header(path("bare.safetensors")).has_labels);
  EXPECT_FALSE(read_sample_header(path("bare.safetensors")).num_targets);
  EXPECT_EQ(convert("all.safetensors", "bare.tsv", {"--samples-only"}).exit_code, 0);
}

TEST_F(ConvertSamples, WhatDoesNotFitIsRefused) {
  ASSERT_EQ(convert("images.gz", "labelled.safetensors", {"--labels", path("labels")}).exit_code, 0);
  expect_refused(3, "images.gz", "x.safetensors", {"--labels", path("four.tsv")},
                 "found labels of the samples 1:4, expected labels of the samples 1:3");
  expect_refused(3, "images.gz", "x.safetensors", {"--labels", path("outputs.safetensors")}, "has no labels");
  expect_refused(3, "images.gz", "x.safetensors", {"--labels", path("images.gz")}, "which holds images");
  expect_refused(3, "labels", "x.safetensors", {}, "which holds labels");
  expect_refused(3, "images.gz", "x.safetensors", {"--targets", path("missing.safetensors")}, "missing.safetensors");
  expect_refused(3, "images.gz", "x.safetensors", {"--targets", path("labels.tsv")}, "labels.tsv");
  expect_refused(2, "labelled.safetensors", "x.tsv", {}, "x.tsv is text, which has no place for labels");
  expect_refused(2, "images.gz", "x.tsv.gz", {"--targets", path("outputs.safetensors")}, "has no place for targets");
  expect_refused(2, "labelled.safetensors", "x.safetensors", {"--pixels", "raw"}, "--pixels is for IDX images");
  expect_refused(3, "images.gz", "x.safetensors", {"--text", "neurons=5"}, "holds samples of 4 neurons");
  expect_refused(2, "images.gz", "x.safetensors", {"--pixels", "grey"}, "grey");
  expect_refused(2, "images.gz", "labels", {"--labels", path("labels")}, "would replace what --labels");
  expect_refused(2, "images.gz", "outputs.safetensors", {"--targets", path("outputs.safetensors")},
                 "would replace what --targets");
  expect_refused(2, "net.safetensors", "x.safetensors", {"--labels", path("labels")}, "--labels is for samples");
  expect_refused(2, "net.safetensors", "x.safetensors", {"--samples-only"}, "--samples-only is for samples");
  expect_refused(2, "images.gz", "x.safetensors", {"--prune", "0.5"}, "only a network can be pruned");
  expect_refused(2, "images.gz", "x.safetensors", {"--samples-only", "--labels", path("labels")}, "--samples-only");
}

TEST_F(ConvertSamples, NetworksArePruned) {
  auto const network = load(*open_network(path("net.safetensors")));
  for (std::string const over : {"layer", "network"}) {
    EXPECT_EQ(
        convert("net.safetensors", "small.safetensors", {"--prune", "0.25", "--prune", std::string("over=") + over})
            .exit_code,
        0);
    PrunedNetwork const pruned(network, 0.25, over == "layer" ? PruneScope::layer : PruneScope::network);
    EXPECT_EQ(load(*open_network(path("small.safetensors"))).layers(), load(pruned).layers());
    EXPECT_EQ(load(*open_network(path("small.safetensors"))).num_edges(), 18U); // a quarter of 48 + 24 places
  }
  for (std::string const density : {"0", "-0.5", "1.5", "nan", "few"})
    expect_refused(2, "net.safetensors", "x.safetensors", {"--prune", density}, "--prune");
  expect_refused(2, "net.safetensors", "x.safetensors", {"--prune", "over=layer"}, "--prune");
  expect_refused(2, "net.safetensors", "x.safetensors", {"--prune", "0.5", "--reduce"}, "--reduce");
  expect_refused(2, "net.safetensors", "x.safetensors", {"--prune", "0.5", "--prune", "over=half"}, "half");
}

} // namespace
} // namespace varve
