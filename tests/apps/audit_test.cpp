#include "apps/shared_folder.hpp"

#include "core/backend.hpp"
#include "io/network_file.hpp"
#include "io/open.hpp"
#include "io/sample_files.hpp"
#include "receipts/inference_receipt.hpp"
#include "receipts/receipt_members.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::Ended;
using test::joined;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A network of 256 neurons and 12 layers, 150 images of which some survive, and the receipt of their inference.
class Audit : public test::SharedFolder<Audit> {
public:
  static void make_files() {
    test::generate_medium(path("net.safetensors"), path("img.safetensors"), 150);
    make_receipt("receipt.json");
  }

protected:
  static void make_receipt(std::string const& name, std::vector<std::string> const& options = {}) {
    succeed(joined(
        {"infer", "--network", path("net.safetensors"), "--input", path("img.safetensors"), "--receipt", path(name)},
        options));
  }
  static Ended audit(std::string const& receipt, std::vector<std::string> const& options = {},
                     std::string const& network = "net.safetensors", std::string const& input = "img.safetensors") {
    return run_varve(joined({"audit", path(receipt), "--network", path(network), "--input", path(input)}, options));
  }
  static Ended compare(std::string const& left, std::string const& right) {
    return run_varve({"audit", path(left), "--against", path(right)});
  }
  static void expect_difference(Ended const& ended, std::string const& sentence) {
    EXPECT_EQ(ended.exit_code, 1) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("differs   "));
    EXPECT_THAT(ended.out, HasSubstr(sentence));
  }
};

TEST_F(Audit, EqualRunsHaveEqualReceiptsOnEveryBackendAndInEveryDivision) {
  for (auto const backend : compiled_backends()) {
    for (std::vector<std::string> const& options :
         {std::vector<std::string>{}, {"--batch", "7"}, {"--reductions", "merge_neurons,fold_constants,drop_unread"}}) {
      make_receipt("other.json", joined({"--backend", to_string(backend)}, options));
      auto const ended = compare("receipt.json", "other.json");
      EXPECT_EQ(ended.exit_code, 0) << to_string(backend) << ended.out;
      EXPECT_THAT(ended.out, HasSubstr("equal     "));
    }
    auto const ended = audit("receipt.json", {"--backend", to_string(backend), "--draw", "samples=40"});
    EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("audited   40 of 150 samples on " + to_string(backend)));
  }
}

TEST_F(Audit, TheReferenceAuditsRunsThatChangedNoNetwork) {
  make_receipt("none.json", {"--reductions", "saturation,equal_samples"});
  make_receipt("other.json", {"--tuning", "engine=reference"});
  EXPECT_EQ(compare("none.json", "other.json").exit_code, 0);
  EXPECT_EQ(audit("none.json", {"--backend", "reference", "--draw", "samples=150"}).exit_code, 0);
  test::expect_sentence(audit("receipt.json", {"--backend", "reference"}), 2,
                        {"merge_neurons", "take another backend"});
}

TEST_F(Audit, AJournalAndOutputsChangeNoReceipt) {
  make_receipt("other.json", {"--journal", path("journal"), "--activations", path("last.safetensors")});
  EXPECT_EQ(compare("receipt.json", "other.json").exit_code, 0);
  make_receipt("again.json", {"--journal", path("journal"), "--activations", path("last.safetensors")}); // all is known
  EXPECT_EQ(compare("receipt.json", "again.json").exit_code, 0);
}

TEST_F(Audit, OfPartOfAnInput) {
  make_receipt("part.json", {"--samples", "31:60"});
  auto const ended = audit("part.json", {"--draw", "samples=1000"});
  EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("audited   30 of 30 samples"));
  make_receipt("double.json", {"--precision", "double", "--edge-order", "ascending", "--reductions", "none"});
  EXPECT_EQ(audit("double.json").exit_code, 0);
  expect_difference(compare("double.json", "receipt.json"), "precision: \"double\" and \"float\"");
}

TEST_F(Audit, FindsAChangedNetwork) {
  auto layers = load(*open_network(path("net.safetensors"), {})).layers();
  layers[7].bias = {layers[7].bias_of(0) * 1.0000000000000002};
  NetworkFileWriter writer(path("other-net.safetensors"), layers.size());
  for (auto const& layer : layers) writer.append(layer);
  writer.commit();
  expect_difference(audit("receipt.json", {}, "other-net.safetensors"), "it is not the network of the receipt");
}

TEST_F(Audit, FindsAChangedSample) {
  auto const reader = open_sample_reader(path("img.safetensors"), 256, std::nullopt, 1U << 30U);
  auto samples = to_set(reader->read(0, reader->num_samples()));
  samples.matrix.values.assign(samples.matrix.num_entries(), 1.0);
  samples.matrix.values[samples.matrix.row_pointers[100]] = 1.0000000000000002;
  write_sample_file(path("other-img.safetensors"), samples);
  expect_difference(audit("receipt.json", {}, "net.safetensors", "other-img.safetensors"),
                    "sample 101 is not that of the receipt");
}

TEST_F(Audit, FindsMissingSamplesAndTakesFurtherOnes) {
  for (auto const* const count : {"149", "151"})
    succeed({"generate", "images", "--neurons", "256", "--samples", count, "--seed", "5", "--output",
             path(std::string("img-") + count + ".safetensors")});
  expect_difference(audit("receipt.json", {}, "net.safetensors", "img-149.safetensors"),
                    "it holds 149 samples, 1 to 149, and the receipt is of 150, 1 to 150");
  auto const ended = audit("receipt.json", {}, "net.safetensors", "img-151.safetensors");
  EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
}

TEST_F(Audit, ProvesOneSampleWithoutTheOthers) {
  make_receipt("part.json", {"--samples", "31:60"});
  auto const prove = [](std::string const& sample) {
    return run_varve({"audit", path("part.json"), "--prove", sample, "--output", path("proof.json")});
  };
  EXPECT_EQ(prove("44").exit_code, 0);
  for (auto const backend : compiled_backends()) {
    auto const ended = audit("proof.json", {"--backend", to_string(backend)});
    EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("audited   sample 44 of 30"));
  }
  auto proof = proof_of(read_receipt_json(path("proof.json"), {kSampleProof}), "proof");
  proof.leaves.output[0] ^= 1U;
  write_proof(path("forged.json"), proof);
  expect_difference(audit("forged.json"), "the path of its output leads to another root");
  test::expect_sentence(prove("30"), 2, {"--prove is 30, expected one of the samples 31 to 60"});
  test::expect_sentence(prove("61"), 2, {"--prove is 61"});
  test::expect_sentence(run_varve({"audit", path("part.json"), "--prove", "44"}), 2, {"--output"});
}

TEST_F(Audit, FindsAForgedOutputThoughAllDigestsFit) {
  auto receipt = read_receipt(path("receipt.json"));
  auto const live = std::ranges::find_if(receipt.leaves, [&](SampleLeaves const& leaf) {
    return leaf.output !=
           output_digest({1, 256, {0, 0}, {}, {}}, 0, static_cast<SampleIndex>(&leaf - receipt.leaves.data()));
  });
  ASSERT_NE(live, receipt.leaves.end());
  auto const number = static_cast<SampleIndex>(live - receipt.leaves.begin());
  live->output = output_digest({1, 256, {0, 0}, {}, {}}, 0, number); // a survivor that is said to be dead
  receipt.seal();
  ASSERT_THAT(contradictions(receipt), IsEmpty());
  write_receipt(path("forged.json"), receipt);
  expect_difference(audit("forged.json", {"--draw", "samples=150"}),
                    "sample " + std::to_string(number + 1) + ": its last activations are not those of the receipt");
  expect_difference(compare("receipt.json", "forged.json"),
                    "sample " + std::to_string(number + 1) + " is the first with another output");
}

TEST_F(Audit, FindsAnAlteredReceipt) {
  auto receipt = read_receipt(path("receipt.json"));
  receipt.leaves[3].output = sha256("x");
  write_receipt(path("altered.json"), receipt);
  expect_difference(audit("altered.json"), "the digests of its outputs have another root");
  expect_difference(compare("receipt.json", "altered.json"), "the digests of its outputs have another root");
}

TEST_F(Audit, DrawsTheSamplesOfASeed) {
  auto receipt = read_receipt(path("receipt.json"));
  for (auto& leaf : receipt.leaves) leaf.output = sha256("x"); // the first drawn sample is named
  receipt.seal();
  write_receipt(path("forged.json"), receipt);
  auto const one = audit("forged.json", {"--draw", "samples=1,seed=1"}).out;
  EXPECT_EQ(audit("forged.json", {"--draw", "samples=1,seed=1"}).out, one);
  bool has_other = false;
  for (int seed = 2; seed < 6; ++seed)
    has_other |= audit("forged.json", {"--draw", "samples=1,seed=" + std::to_string(seed)}).out != one;
  EXPECT_TRUE(has_other);
}

TEST_F(Audit, OfAnUnknownNumericsOrNameIsRefused) {
  auto receipt = read_receipt(path("receipt.json"));
  receipt.numerics = 2;
  receipt.seal();
  write_receipt(path("later.json"), receipt);
  test::expect_sentence(audit("later.json"), 3, {"numerics 2", "computes by numerics 1"});
  receipt.numerics = 1;
  receipt.edge_order = "sideways";
  receipt.seal();
  write_receipt(path("unknown.json"), receipt);
  test::expect_sentence(audit("unknown.json"), 3, {"sideways"});
  receipt.edge_order = "balanced";
  receipt.precision = "half";
  receipt.seal();
  write_receipt(path("unknown.json"), receipt);
  test::expect_sentence(audit("unknown.json"), 3, {"half"});
}

TEST_F(Audit, NumbersNearTheLargestWrapNowhere) {
  auto const ended = audit("receipt.json", {"--draw", "samples=18446744073709551615"});
  EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("audited   150 of 150 samples"));
  auto receipt = read_receipt(path("receipt.json"));
  receipt.first_sample = UINT64_MAX - 5;
  receipt.seal();
  write_receipt(path("last.json"), receipt);
  expect_difference(audit("last.json"), "it holds 150 samples, 1 to 150, and the receipt is of 150, ");
}

TEST_F(Audit, RefusesWhatCannotBeAudited) {
  std::vector<std::string> const infer = {
      "infer", "--network", path("net.safetensors"), "--input", path("img.safetensors"), "--receipt", path("no.json")};
  test::expect_sentence(run_varve(joined(infer, {"--tuning", "repeat-input=2"})), 2, {"repeat-input"});
  test::expect_sentence(run_varve({"audit", path("receipt.json")}), 2, {"--network and --input, or --against"});
  test::expect_sentence(run_varve({"audit", path("net.safetensors"), "--against", path("receipt.json")}), 3,
                        {"expected a varve inference receipt"});
}

} // namespace
} // namespace varve
