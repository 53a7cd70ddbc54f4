#include "apps/subprocess.hpp"

#include "core/backend.hpp"
#include "io/sample_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using varve::test::read_bytes;
using varve::test::TemporaryFolder;
using varve::test::write_bytes;

/// The official network of 1024 neurons and 120 layers with images 1 to 600: exactly seven are alive at the end.
class GoldenRuns : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    succeed({"convert", text_network(), path("net.safetensors")});
    succeed({"convert", text_images(), path("img.safetensors"), "--text", "neurons=1024"});
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(std::string const& name) { return (*folder_ / name).string(); }
  static std::string golden(std::string const& name) { return std::string(VARVE_GOLDEN_DIR) + "/" + name; }
  static std::string text_network() { return golden("neuron1024"); }
  static std::string text_images() { return golden("sparse-images-1024.tsv.gz"); }

  /// Classifies, expects the truth and exactly the seven categories, and gives the report.
  static nlohmann::json classify(std::string const& network, std::string const& input,
                                 std::vector<std::string> const& options = {},
                                 test::Ended (*run_one)(std::vector<std::string>) = run_varve) {
    std::vector<std::string> words = {"infer",
                                      "--network",
                                      network,
                                      "--input",
                                      input,
                                      "--truth",
                                      golden("neuron1024-l120-categories.tsv"),
                                      "--categories",
                                      path("alive.tsv"),
                                      "--report",
                                      path("report.json")};
    words.insert(words.end(), options.begin(), options.end());
    auto const ended = succeed(words, run_one);
    EXPECT_THAT(ended.out, HasSubstr("truth: match\n"));
    EXPECT_EQ(read_bytes(path("alive.tsv")), "287\n295\n386\n427\n428\n529\n571\n");
    auto report = nlohmann::json::parse(read_bytes(path("report.json")));
    EXPECT_EQ(report["survivors"], 7);
    EXPECT_EQ(report["truth"], "match");
    EXPECT_EQ(report["network"]["edges"], 120 * 1024 * 32);
    EXPECT_EQ(report["input"]["samples"], 600);
    return report;
  }

  static inline std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(GoldenRuns, FromTheOfficialFiles) {
  auto const report = classify(text_network(), text_images());
  EXPECT_EQ(report["backend"], to_string(compiled_backends().front()));
  auto const above = classify(golden(""), text_images(), {"--text", "neurons=1024,layers=120"});
  EXPECT_EQ(above["activation_hash"], report["activation_hash"]);
}

TEST_F(GoldenRuns, OnEveryBackendWithOneHashPerPrecision) {
  for (std::string const precision : {"float", "double"}) {
    std::set<std::string> hashes;
    for (Backend const backend : compiled_backends()) {
      for (std::string const threads : {"1", "2"}) {
        auto const report =
            classify(path("net.safetensors"), path("img.safetensors"),
                     {"--backend", to_string(backend), "--precision", precision, "--kokkos-num-threads=" + threads},
                     test::run_varve_process);
        EXPECT_EQ(report["backend"], to_string(backend));
        hashes.insert(report["activation_hash"]);
        std::string const device = backend == Backend::openmp ? threads + " thread" : "";
        EXPECT_THAT(report["devices"][0].get<std::string>(), ::testing::StartsWith(device));
      }
    }
    EXPECT_EQ(hashes.size(), 1U) << precision;
  }
}

TEST_F(GoldenRuns, ByEveryEngineFormatAndBatch) {
  std::set<std::string> hashes;
  for (auto const& options : std::vector<std::vector<std::string>>{{"--tuning", "engine=reference"},
                                                                   {"--tuning", "formats=csr"},
                                                                   {"--tuning", "formats=sliced_ell"},
                                                                   {"--tuning", "formats=pattern_blocks"},
                                                                   {"--tuning", "kernel=direct"},
                                                                   {"--batch", "100"},
                                                                   {"--repeat", "2"}}) {
    hashes.insert(classify(path("net.safetensors"), path("img.safetensors"), options)["activation_hash"]);
  }
  EXPECT_EQ(hashes.size(), 1U);
}

TEST_F(GoldenRuns, FromEveryFormatAndCompression) {
  auto const expected = classify(path("net.safetensors"), path("img.safetensors"))["activation_hash"];
  for (std::string const ending : {".tsv", ".tsv.gz", ".tsv.xz", ".tsv.zst"}) {
    succeed({"convert", path("net.safetensors"), path("net" + ending)});
    succeed({"convert", path("img.safetensors"), path("img" + ending)});
    EXPECT_EQ(classify(path("net" + ending), path("img" + ending))["activation_hash"], expected) << ending;
    std::filesystem::remove_all(path("net" + ending));
  }
}

TEST_F(GoldenRuns, SurvivorsAreSaturated) {
  classify(path("net.safetensors"), path("img.safetensors"),
           {"--activations", path("last.safetensors"), "--predictions", path("best.tsv")});
  auto const last = read_sample_file(path("last.safetensors"));
  EXPECT_EQ(last.num_samples(), 600U);
  EXPECT_EQ(last.matrix.num_entries(), 7U * 1024);
  EXPECT_THAT(last.matrix.values, ::testing::Each(32.0));
}

TEST_F(GoldenRuns, WrongTruthIsExitCode1) {
  write_bytes(path("wrong.tsv"), "287\n295\n386\n427\n429\n529\n571\n");
  auto const ended = run_varve({"infer", "--network", path("net.safetensors"), "--input", path("img.safetensors"),
                                "--truth", path("wrong.tsv")});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.out, HasSubstr("not alive here: 429\n"));
  EXPECT_THAT(ended.out, HasSubstr("not in the truth: 428\n"));
}

TEST_F(GoldenRuns, PartOfTheImages) {
  auto const ended =
      succeed({"infer", "--network", path("net.safetensors"), "--input", text_images(), "--samples", "290:430",
               "--truth", golden("neuron1024-l120-categories.tsv"), "--categories", path("part.tsv")});
  EXPECT_THAT(ended.out, HasSubstr("truth: match\n"));
  EXPECT_EQ(read_bytes(path("part.tsv")), "295\n386\n427\n428\n");
}

} // namespace
} // namespace varve
