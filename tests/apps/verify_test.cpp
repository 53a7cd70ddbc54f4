#include "apps/shared_folder.hpp"

#include "io/categories.hpp"
#include "io/network_file.hpp"
#include "io/open.hpp"
#include "io/sample_files.hpp"
#include "reference/tie_network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::Ended;
using test::expect_sentence;
using test::joined;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using ::testing::Not;
using varve::test::read_bytes;
using varve::test::write_bytes;

/// A network of 256 neurons and 12 layers, 150 images of which some survive, and what varve infer says of them.
class Verify : public test::SharedFolder<Verify> {
public:
  static void make_files() {
    test::generate_medium(path("net.safetensors"), path("img.safetensors"), 150);
    succeed({"infer", "--network", path("net.safetensors"), "--input", path("img.safetensors"), "--categories",
             path("alive.tsv"), "--activations", path("last.safetensors")});
  }

protected:
  static Ended verify(std::string const& result, std::vector<std::string> const& options = {}) {
    std::vector<std::string> words = {
        "verify", "--network", path("net.safetensors"), "--input", path("img.safetensors"), "--result", path(result)};
    return run_varve(joined(words, options));
  }
};

TEST_F(Verify, AgreesWithWhatInferWrites) {
  auto const num_alive = read_categories(path("alive.tsv")).size();
  ASSERT_GE(num_alive, 10U);
  for (std::string const result : {"alive.tsv", "last.safetensors"}) {
    for (std::vector<std::string> const& options : {std::vector<std::string>{}, {"--exact"}}) {
      auto const ended = verify(result, options);
      EXPECT_EQ(ended.exit_code, 0) << ended.err << ended.out;
      EXPECT_THAT(ended.out, HasSubstr("result    150 of 150 samples agree\n"));
      EXPECT_THAT(ended.out, HasSubstr("survivors " + std::to_string(num_alive) + "\n"));
      EXPECT_THAT(ended.out, HasSubstr("margin    the least is "));
      EXPECT_EQ(ended.out.find("values    off by ") != std::string::npos, result == "last.safetensors");
      EXPECT_THAT(ended.out, HasSubstr(options.empty() ? "plain loops in double" : "exact arithmetic"));
    }
  }
}

TEST_F(Verify, CategoriesCountFromOne) {
  // Two outputs, the second of which doubles; of four samples the second and the last have no activation at the end.
  NetworkFileWriter writer(path("four.safetensors"), 1);
  writer.append({{2, 2, {0, 1, 2}, {0, 1}, {1.0, 2.0}}, {0.0}, Activation::relu()});
  writer.commit();
  write_sample_file(path("four-samples.safetensors"), {{4, 2, {0, 1, 1, 2, 4}, {0, 1, 0, 1}, {1, 1, -1, -1}}, 0});
  std::vector<std::string> const infer = {"infer", "--network", path("four.safetensors"), "--input",
                                          path("four-samples.safetensors")};
  succeed(joined(infer, {"--categories", path("one.tsv"), "--predictions", path("one-p.tsv")}));
  EXPECT_EQ(read_bytes(path("one.tsv")), "1\n3\n");
  EXPECT_EQ(read_bytes(path("one-p.tsv")), "1\t1\n2\t1\n3\t2\n4\t1\n");
  test::write_bytes(path("zero.tsv"), "0\n2\n");
  EXPECT_EQ(run_varve(joined(infer, {"--truth", path("zero.tsv")})).exit_code, 3); // there is no sample 0
  std::vector<std::string> const verify = {
      "verify", "--network", path("four.safetensors"), "--input", path("four-samples.safetensors"), "--result"};
  succeed(joined(verify, {path("one.tsv")}));
}

TEST_F(Verify, CallsNothingCertainThatUnderflowOfASlopeDecides) {
  Layer scales;
  scales.weights = {1, 1, {0, 1}, {0}, {-1.0}};
  scales.activation = Activation::leaky_relu(1e-300);
  Layer revives = scales;
  revives.weights.values = {-1e300};
  revives.activation = Activation::relu();
  NetworkFileWriter writer(path("tiny.safetensors"), 2);
  writer.append(scales);
  writer.append(revives);
  writer.commit();
  write_sample_file(path("tiny-samples.safetensors"), {{1, 1, {0, 1}, {0}, {1e-30}}, 0});
  write_bytes(path("tiny.tsv"), ""); // dead, as a run in double says; in exact arithmetic 1e-30 is left
  auto const ended = run_varve({"verify", "--network", path("tiny.safetensors"), "--input",
                                path("tiny-samples.safetensors"), "--result", path("tiny.tsv"), "--exact"});
  EXPECT_EQ(ended.exit_code, 1) << ended.err << ended.out;
  EXPECT_THAT(ended.out, HasSubstr("certain   0 of 1"));
}

TEST_F(Verify, SaysThatAResultHasAnotherWidthThanTheOutputs) {
  write_sample_file(path("wide.safetensors"), {{150, 300, std::vector<EdgeOffset>(151, 0), {}, {}}, 0});
  expect_sentence(verify("wide.safetensors"), 3,
                  {"wide.safetensors holds samples of 300 neurons, the network has 256 outputs"});
}

TEST_F(Verify, NamesTheSamplesOfATamperedResult) {
  auto alive = read_categories(path("alive.tsv"));
  SampleIndex const lost = alive[3];
  SampleIndex added = 0;
  while (std::ranges::binary_search(alive, added)) ++added;
  std::erase(alive, lost);
  alive.push_back(added);
  std::ranges::sort(alive);
  write_categories(path("tampered.tsv"), alive);
  for (std::vector<std::string> const& options : {std::vector<std::string>{}, {"--exact"}}) {
    auto const ended = verify("tampered.tsv", options);
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_EQ(ended.err, "");
    EXPECT_THAT(ended.out, HasSubstr("result    148 of 150 samples agree\n"));
    EXPECT_THAT(ended.out, HasSubstr("sample " + std::to_string(lost + 1) + ": expected alive, found dead\n"));
    EXPECT_THAT(ended.out, HasSubstr("sample " + std::to_string(added + 1) + ": expected dead, found alive\n"));
  }
}

TEST_F(Verify, NamesTheSamplesOfTamperedActivations) {
  auto const last = read_sample_file(path("last.safetensors"));
  auto const first_alive = read_categories(path("alive.tsv")).front();
  auto const entry = last.matrix.row_pointers[first_alive];
  auto tampered = last;
  tampered.matrix.values.resize(last.matrix.num_entries());
  for (EdgeOffset i = 0; i < last.matrix.num_entries(); ++i) tampered.matrix.values[i] = last.matrix.value(i);
  tampered.matrix.values[entry] *= 0.9;
  save_samples(tampered, path("tampered.safetensors"));
  auto const named = "sample " + std::to_string(first_alive + 1) + ": expected alive, found alive; activations off by ";
  auto const ended = verify("tampered.safetensors", {"--exact"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.out, HasSubstr(named));
  EXPECT_THAT(ended.out, HasSubstr("result    149 of 150 samples agree\n"));
  EXPECT_EQ(verify("tampered.safetensors").exit_code, 1);
  EXPECT_EQ(verify("tampered.safetensors", {"--tolerance", "0.2"}).exit_code, 0);

  tampered.matrix.values[entry] = 0.0;
  save_samples(tampered, path("tampered.safetensors"));
  EXPECT_THAT(verify("tampered.safetensors", {"--tolerance", "2"}).out,
              HasSubstr("other sets of nonzeros in 1 samples"));
}

TEST_F(Verify, TakesAPartOfTheSamples) {
  for (std::string const result : {"alive.tsv", "last.safetensors"}) {
    auto const ended = verify(result, {"--samples", "31:90", "--exact"});
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("60 samples (31:90)"));
    EXPECT_THAT(ended.out, HasSubstr("60 of 60 samples agree"));
  }
}

TEST_F(Verify, RefusesResultsOfOtherSamples) {
  auto const refused = [](Ended const& ended, std::string const& sentence) {
    expect_sentence(ended, 3, {sentence}, ended.out);
  };
  write_bytes(path("beyond.tsv"), "3\n151\n");
  refused(verify("beyond.tsv"), "beyond.tsv names sample 151, but the input holds samples 1:150");
  auto const last = read_sample_file(path("last.safetensors"));
  save_samples(samples_of(last, 0, 149), path("part.safetensors"));
  refused(verify("part.safetensors"), "part.safetensors holds samples 1:149, expected 1:150");
  refused(verify("part.safetensors", {"--samples", "100:150"}),
          "part.safetensors holds samples 1:149, expected 100:150");
  EXPECT_EQ(verify("part.safetensors", {"--samples", "100:149"}).exit_code, 0);
  auto other = last;
  other.matrix.num_columns = 300;
  save_samples(other, path("wide.safetensors"));
  refused(verify("wide.safetensors"), "wide.safetensors");
  refused(verify("missing.tsv"), "missing.tsv");
  write_bytes(path("nonsense.tsv"), "one\n");
  refused(verify("nonsense.tsv"), "nonsense.tsv:1: found");
}

TEST_F(Verify, SaysWhichWayTiesFall) {
  // Three equal neurons; merged, their weights are added up first, which decides the tie the other way, in double too.
  auto const& tie = test::kTies.front();
  save_network(test::network_of(tie), path("tie.safetensors"));
  save_samples(test::sample_of(tie), path("tie_sample.safetensors"));
  auto const survivors = [](std::string const& reductions) {
    succeed({"infer", "--network", path("tie.safetensors"), "--input", path("tie_sample.safetensors"), "--precision",
             "double", "--reductions", reductions, "--categories", path("tie_" + reductions + ".tsv")});
    return read_categories(path("tie_" + reductions + ".tsv")).size();
  };
  EXPECT_EQ(survivors("none"), 0U);
  EXPECT_EQ(survivors("auto"), 1U);
  auto const verify_tie = [](std::string const& result, std::vector<std::string> const& options) {
    std::vector<std::string> words = {
        "verify",   "--network", path("tie.safetensors"), "--input", path("tie_sample.safetensors"),
        "--result", path(result)};
    return run_varve(joined(words, options));
  };
  auto const merged = verify_tie("tie_auto.tsv", {"--exact"});
  EXPECT_EQ(merged.exit_code, 0) << "the exact sum is just above 0";
  EXPECT_THAT(merged.out, HasSubstr("certain   0 of 1 samples regardless of the rounding in double, 0 in float"));
  EXPECT_THAT(merged.out, HasSubstr("sample 1: alive, margin 3.61e-17; in double dead, in float dead"));
  EXPECT_EQ(verify_tie("tie_none.tsv", {"--exact"}).exit_code, 1);
  EXPECT_EQ(verify_tie("tie_none.tsv", {}).exit_code, 0) << "plain loops say the same";
  EXPECT_EQ(verify_tie("tie_auto.tsv", {}).exit_code, 1);
}

TEST_F(Verify, FindsTheOfficialTruthExact) {
  std::string const golden = VARVE_GOLDEN_DIR;
  auto const ended = succeed({"verify", "--network", golden + "/neuron1024", "--text", "layers=120", "--input",
                              golden + "/sparse-images-1024.tsv.gz", "--result",
                              golden + "/neuron1024-l120-categories.tsv", "--exact"});
  EXPECT_THAT(ended.out, HasSubstr("survivors 7\n"));
  EXPECT_THAT(ended.out, HasSubstr("result    600 of 600 samples agree\n"));
  EXPECT_THAT(ended.out, Not(HasSubstr("near ")));
}

TEST_F(Verify, ExplainsItself) {
  auto const help = succeed({"verify", "--help"});
  for (char const* const word : {"--network", "--input", "--result", "--samples", "--exact", "--tolerance", "margin",
                                 "-0.299999999999999988897769753748434595763683319091796875", "Exit codes"})
    EXPECT_THAT(help.out, HasSubstr(word));
  EXPECT_THAT(succeed({"--help"}).out, HasSubstr("verify"));
  EXPECT_EQ(run_varve({"verify", "--network", "a.safetensors"}).exit_code, 2);
  for (auto const* const number : {"-1", "-1e-300", "nan", "small"}) {
    auto const refused = verify("alive.tsv", {"--tolerance", number});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err,
                HasSubstr(std::string("--tolerance: found ") + number + ", expected a number from 0 on (try"));
  }
  EXPECT_EQ(verify("alive.tsv", {"--samples", "9:3"}).exit_code, 2);
}

} // namespace
} // namespace varve
