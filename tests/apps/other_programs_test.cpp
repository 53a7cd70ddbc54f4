#include "apps/shared_folder.hpp"

#include "io/npy_bytes.hpp"
#include "io/open.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::expect_sentence;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using testing::npy;
using testing::read_bytes;
using testing::write_bytes;

/// The command with files of other programs: a network of two layers, 3 x 2 and 2 x 3, and four samples of two neurons,
/// of which the second and the last have no activation at the end.
class OtherProgramsCommand : public test::SharedFolder<OtherProgramsCommand> {
public:
  static void make_files() {
    write_bytes(folder() / "first.npy", npy("<f4", {3, 2}, std::vector<float>{1, 0, 0, 1, 1, 1}));
    write_bytes(folder() / "second.npy", npy("<f4", {2, 3}, std::vector<float>{1, 0, 0, 0, 2, 0}));
    write_bytes(folder() / "net.json", R"({"activation": "relu", "layers": ["first.npy", "second.npy"]})");
    write_bytes(folder() / "x.npy", npy("<f4", {4, 2}, std::vector<float>{1, 0, 0, 0, 0, 1, -1, -1}));
    write_bytes(folder() / "labels.npy", npy("<i8", {4}, std::vector<std::int64_t>{0, 0, 1, 0}));
    write_bytes(folder() / "square.npy", npy("<f4", {2, 2}, std::vector<float>{1, 1, 0, 1}));
  }
};

TEST_F(OtherProgramsCommand, ConvertMakesNetworksAndSamples) {
  succeed({"convert", path("net.json"), path("net.h5")});
  auto const network = load(*open_network(path("net.h5")));
  EXPECT_EQ(network.layers(), load(*open_network(path("net.json"))).layers());
  succeed({"convert", path("x.npy"), path("x.h5"), "--labels", path("labels.npy")});
  EXPECT_EQ(open_samples(path("x.h5"), 2), open_samples(path("x.npy"), 2));
  succeed({"convert", path("first.npy"), path("one.h5"), "--activation", "leaky_relu", "--slope", "0.5",
           "--transpose-weights"});
  EXPECT_EQ(open_network(path("one.h5"))->layer(0).num_outputs(), 2U);
  auto const agreed = run_varve({"info", path("net.h5"), "--activation", "relu"});
  expect_sentence(agreed, 2, {"--activation is for matrices of other programs"});
}

TEST_F(OtherProgramsCommand, CategoriesCountFromZeroIfAsked) {
  std::vector<std::string> const run = {"infer", "--network", path("net.json"), "--input", path("x.npy")};
  succeed(test::joined(run, {"--categories", path("one.tsv"), "--predictions", path("one-p.tsv")}));
  EXPECT_EQ(read_bytes(path("one.tsv")), "1\n3\n");
  EXPECT_EQ(read_bytes(path("one-p.tsv")), "1\t1\n2\t1\n3\t2\n4\t1\n");
  succeed(test::joined(run, {"--categories", path("zero.tsv"), "--predictions", path("zero-p.tsv"), "--zero-based"}));
  EXPECT_EQ(read_bytes(path("zero.tsv")), "0\n2\n");
  EXPECT_EQ(read_bytes(path("zero-p.tsv")), "0\t0\n1\t0\n2\t1\n3\t0\n");
  succeed(test::joined(run, {"--truth", path("zero.tsv"), "--zero-based"}));
  EXPECT_EQ(run_varve(test::joined(run, {"--truth", path("zero.tsv")})).exit_code, 3); // there is no sample 0
  std::vector<std::string> const verify = {"verify",  "--network",   path("net.json"),
                                           "--input", path("x.npy"), "--result"};
  succeed(test::joined(verify, {path("zero.tsv"), "--zero-based"}));
  succeed(test::joined(verify, {path("one.tsv")}));
}

TEST_F(OtherProgramsCommand, EvaluateTakesLabelsOfNumPy) {
  auto const ended = run_varve({"evaluate", "--network", path("net.json"), "--input", path("x.npy"), "--labels",
                                path("labels.npy"), "--top", "1"});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("accuracy  1 (4 of 4 samples)"));
}

TEST_F(OtherProgramsCommand, SquareWeightsAreRemarkedOn) {
  std::vector<std::string> const info = {"info", path("square.npy"), "--activation", "relu"};
  EXPECT_THAT(run_varve(info).err, HasSubstr("they are taken as outputs (if they are inputs: --transpose-weights)"));
  EXPECT_EQ(run_varve(test::joined(info, {"--transpose-weights"})).err, "");
}

TEST_F(OtherProgramsCommand, WhatAListNamesIsNotReplaced) {
  auto const before = read_bytes(path("second.npy"));
  auto const ended =
      run_varve({"infer", "--network", path("net.json"), "--input", path("x.npy"), "--categories", path("second.npy")});
  expect_sentence(ended, 2, {"would replace what --network"});
  EXPECT_EQ(read_bytes(path("second.npy")), before);
}

} // namespace
} // namespace varve
