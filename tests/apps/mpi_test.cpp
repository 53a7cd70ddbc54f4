#include "apps/shared_folder.hpp"

#include "core/backend.hpp"

#include "io/sample_files.hpp"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace varve {
namespace {

using test::Ended;
using test::joined;
using test::read_json;
using test::run;
using ::testing::HasSubstr;
using varve::test::read_bytes;

class Ranks : public test::SharedFolder<Ranks> {
public:
  static void make_files() { test::generate_medium(path("net.safetensors"), path("img.safetensors"), 103); }

protected:
  static Ended run_on(int ranks, std::vector<std::string> const& options) {
    auto words = joined({VARVE_MPIRUN, VARVE_MPIRUN_RANKS, std::to_string(ranks), VARVE_COMMAND}, options);
    if (options.front() == "infer") words.emplace_back("--tuning=share-devices=on"); // the machine may have one GPU
    return run(words);
  }

  /// What an inference leaves behind.
  struct Outputs {
    std::string categories, predictions, hash, activations; ///< the bytes of the files
    std::string receipt;                                    ///< the digest of its bound part
    nlohmann::json report;
    std::ptrdiff_t num_lines = 0; ///< lines that the command printed

    bool operator==(Outputs const& other) const {
      return categories == other.categories && predictions == other.predictions && hash == other.hash &&
             activations == other.activations && receipt == other.receipt;
    }
  };

  static Outputs infer_on(int ranks, std::vector<std::string> const& options) {
    std::vector<std::string> words = {"infer",
                                      "--network",
                                      path("net.safetensors"),
                                      "--input",
                                      path("img.safetensors"),
                                      "--categories",
                                      path("alive.tsv"),
                                      "--predictions",
                                      path("best.tsv"),
                                      "--activations",
                                      path("last.safetensors"),
                                      "--report",
                                      path("report.json")};
    bool const has_receipt = std::ranges::find(options, "repeat-input=7") == options.end();
    if (has_receipt) words = joined(words, {"--receipt", path("receipt.json")});
    auto const ended = run_on(ranks, joined(words, options));
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    Outputs outputs;
    outputs.categories = read_bytes(path("alive.tsv"));
    outputs.predictions = read_bytes(path("best.tsv"));
    outputs.activations = read_bytes(path("last.safetensors"));
    outputs.report = read_json(path("report.json"));
    if (has_receipt) outputs.receipt = read_json(path("receipt.json"))["digest"];
    outputs.hash = outputs.report["activation_hash"];
    EXPECT_EQ(outputs.report["ranks"], ranks);
    EXPECT_EQ(outputs.report["devices"].size(), static_cast<std::size_t>(ranks));
    outputs.num_lines = std::ranges::count(ended.out, '\n');
    return outputs;
  }

  /// The sentences of the command; mpirun adds words of its own.
  static std::vector<std::string> sentences(Ended const& ended) {
    auto lines = ended.complaints();
    std::erase_if(lines, [](std::string const& line) { return !line.starts_with("varve: "); });
    return lines;
  }
};

TEST_F(Ranks, GiveTheSameOutputs) {
  auto const one = infer_on(1, {});
  EXPECT_FALSE(one.categories.empty());
  EXPECT_EQ(read_sample_file(path("last.safetensors")).num_samples(), 103U);
  for (int const ranks : {2, 4}) {
    auto const several = infer_on(ranks, {});
    EXPECT_EQ(several, one) << ranks;
    EXPECT_EQ(several.num_lines,
              one.num_lines + ranks + 1); // one rank speaks for all, and says where and what each did
    EXPECT_EQ(several.report["survivors"], one.report["survivors"]);
    // With few samples a rank, one launch takes all layers, and samples that die in it are counted to its end.
    bool const has_few = 103 / ranks < 32;
    EXPECT_TRUE(has_few ? several.report["live_edges"] >= one.report["live_edges"]
                        : several.report["live_edges"] == one.report["live_edges"]);
  }
}

TEST_F(Ranks, GiveTheSameBytesForEveryScheduleAndBatch) {
  auto const one = infer_on(1, {});
  std::vector<std::tuple<int, std::string, std::string>> const jobs = {
      {2, "static", "17"}, {3, "static", "5"}, {3, "dynamic", "9"}, {4, "dynamic", "1"}};
  for (auto const& [ranks, schedule, batch] : jobs) {
    auto const several = infer_on(ranks, {"--tuning", std::string("schedule=") + schedule, "--batch", batch});
    EXPECT_EQ(several, one) << ranks << schedule << batch;
    auto const& run = several.report["run"];
    EXPECT_EQ(run["schedule"], schedule);
    std::uint64_t num_samples = 0;
    for (auto const& rank : run["ranks"]) num_samples += rank["samples"].get<std::uint64_t>();
    EXPECT_EQ(num_samples, 103U);
    EXPECT_GE(run["imbalance"].get<double>(), 1.0);
  }
}

TEST_F(Ranks, GiveTheSameForARangeAndInBatches) {
  std::vector<std::string> const options = {"--samples", "7:60", "--batch", "9", "--precision", "double"};
  EXPECT_EQ(infer_on(2, options), infer_on(1, options));
}

TEST_F(Ranks, RepeatAnInputAndGoOnFromAJournal) {
  std::vector<std::string> const options = {"--tuning", "repeat-input=7", "--samples", "4:90", "--batch", "50"};
  auto const one = infer_on(1, options);
  EXPECT_EQ(one.report["input"]["samples"], 7 * 87);
  for (std::string const schedule : {"static", "dynamic"}) {
    auto more = options;
    more.insert(more.end(), {"--tuning", std::string("schedule=") + schedule});
    EXPECT_EQ(infer_on(3, more), one) << schedule;
  }
  auto with_journal = options;
  with_journal.insert(with_journal.end(), {"--journal", path("repeated.journal")});
  EXPECT_EQ(infer_on(2, with_journal), one);
  for (std::string const name :
       {"repeated.journal", "repeated.journal.1"}) { // truncated, as if the ranks had been killed
    auto const journal = read_bytes(path(name));
    varve::test::write_bytes(path(name), journal.substr(0, journal.size() * 3 / 5));
  }
  auto const resumed = infer_on(1, with_journal);
  EXPECT_EQ(resumed, one);
  EXPECT_GT(resumed.report["journal"]["samples_found"], 0);
  EXPECT_LT(resumed.report["journal"]["samples_found"], 7 * 87);
}

/// True if the plan says that neurons are split over so many ranks.
bool splits_over(nlohmann::json const& report, int ranks) {
  auto const words = "neurons split over " + std::to_string(ranks) + " ranks";
  return std::ranges::any_of(report["plan"]["choices"], [&](nlohmann::json const& choice) {
    return choice.get<std::string>().find(words) != std::string::npos;
  });
}

/// Strips of the first layers that go in strips; 1 if all layers are whole.
int num_strips(nlohmann::json const& report) {
  for (auto const& step : report["plan"]["steps"]) {
    if (step.contains("strips")) return step["strips"].get<int>();
  }
  return 1;
}

TEST_F(Ranks, GiveTheSameBytesWithNeuronsSplit) {
  for (std::string const precision : {"float", "double"}) {
    for (std::string const reductions : {"auto", "none"}) {
      std::vector<std::string> options = {"--precision", precision, "--reductions", reductions};
      auto const one = infer_on(1, options);
      for (auto const& [ranks, batch] : std::vector<std::pair<int, std::string>>{{2, "103"}, {3, "17"}, {4, "64"}}) {
        auto more = options;
        more.insert(more.end(), {"--split", "neurons", "--batch", batch});
        auto const split = infer_on(ranks, more);
        EXPECT_EQ(split, one) << ranks << precision << reductions;
        EXPECT_TRUE(splits_over(split.report, ranks));
        EXPECT_EQ(split.report["network"], one.report["network"]);
        EXPECT_EQ(split.report["run"]["schedule"], "together");
        for (auto const& rank : split.report["run"]["ranks"]) {
          EXPECT_EQ(rank["samples"], 103);
          EXPECT_GT(rank["exchange_seconds"].get<double>(), 0.0);
          EXPECT_GT(rank["exchange_bytes"].get<double>(), 0.0);
        }
      }
    }
  }
}

TEST_F(Ranks, SplitNeuronsOfARangeWithoutBatchOrOnOneRank) {
  std::vector<std::string> options = {"--samples", "7:60"};
  auto const one = infer_on(1, options);
  options.insert(options.end(), {"--split", "neurons", "--tuning", "exchange=host"});
  EXPECT_EQ(infer_on(1, options), one);
  EXPECT_EQ(infer_on(2, options), one);
}

TEST_F(Ranks, SplitNeuronsWhereSamplesDoNotFit) {
  std::vector<std::string> const options = {"--reductions", "none", "--tuning", "formats=csr"};
  auto const one = infer_on(1, options);
  auto const weights = one.report["plan"]["weight_bytes"].get<double>();
  auto const layers = one.report["network"]["layers"].get<double>();
  auto with_limit = options; // not even one layer after the other
  with_limit.insert(with_limit.end(),
                    {"--memory", "weights=" + std::to_string(1.5 * weights / layers / (1024.0 * 1024.0 * 1024.0))});
  auto const split = infer_on(4, with_limit);
  EXPECT_EQ(split, one);
  EXPECT_TRUE(splits_over(split.report, 4));
  EXPECT_LT(split.report["plan"]["weight_bytes"].get<double>(), 0.3 * weights);
  EXPECT_FALSE(splits_over(infer_on(4, options).report, 4)) << "there is room";

  with_limit.insert(with_limit.end(), {"--split", "samples"});
  auto const in_strips = infer_on(4, with_limit);
  EXPECT_EQ(in_strips, one);
  EXPECT_FALSE(splits_over(in_strips.report, 4));
  EXPECT_GT(num_strips(in_strips.report), 1);

  auto const ended = run_on(4, {"infer", "--network", path("net.safetensors"), "--input", path("img.safetensors"),
                                "--split", "samples", "--memory", "weights=0.000001"});
  EXPECT_EQ(ended.exit_code, 4) << ended.err;
  EXPECT_EQ(sentences(ended).size(), 1U) << ended.err;
}

TEST_F(Ranks, SplitNeuronsGoInStripsWhereTheirPartsDoNotFit) {
  std::vector<std::string> options = {"--tuning", "formats=csr", "--reductions", "none"};
  auto const one = infer_on(1, options);
  auto const weights = one.report["plan"]["weight_bytes"].get<double>();
  auto const layers = one.report["network"]["layers"].get<double>();
  auto const limit = std::to_string(0.5 * weights / layers / (1024.0 * 1024.0 * 1024.0));
  options.insert(options.end(), {"--memory", "weights=" + limit, "--batch", "40"});
  for (std::string const split : {"neurons", "auto", "samples"}) {
    auto more = options;
    more.insert(more.end(), {"--split", split});
    auto const several = infer_on(2, more);
    EXPECT_EQ(several, one) << split;
    EXPECT_EQ(splits_over(several.report, 2), split != "samples");
    EXPECT_GT(num_strips(several.report), 1);
  }
}

TEST_F(Ranks, SplitNeuronsGoOnFromAJournalOfAnotherSplit) {
  std::vector<std::string> const options = {"--journal", path("run.journal"), "--batch", "10"};
  auto const one = infer_on(1, {"--batch", "10"});
  auto neurons = options;
  neurons.insert(neurons.end(), {"--split", "neurons"});
  EXPECT_EQ(infer_on(3, neurons), one);
  auto const again = infer_on(2, options);
  EXPECT_EQ(again, one);
  EXPECT_EQ(again.report["journal"]["samples_found"], 103);
}

TEST_F(Ranks, SplitNeuronsClassifyTheOfficialImages) {
  std::string const golden = VARVE_GOLDEN_DIR;
  std::vector<std::string> options = {"infer",
                                      "--network",
                                      golden + "/neuron1024",
                                      "--input",
                                      golden + "/sparse-images-1024.tsv.gz",
                                      "--truth",
                                      golden + "/neuron1024-l120-categories.tsv",
                                      "--reductions",
                                      "none",
                                      "--report",
                                      path("report.json")};
  std::vector<std::string> hashes;
  for (std::string const split : {"samples", "neurons"}) {
    options.insert(options.end(), {"--split", split});
    auto const ended = run_on(2, options);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("truth: match\n"));
    hashes.push_back(read_json(path("report.json"))["activation_hash"]);
    options.resize(options.size() - 2);
  }
  EXPECT_EQ(hashes.front(), hashes.back());
}

TEST_F(Ranks, RefuseToSplitNeuronsWhereTheyCannot) {
  std::vector<std::string> const options = {
      "infer", "--network", path("net.safetensors"), "--input", path("img.safetensors"), "--split", "neurons"};
  auto const expect_refusal = [&](std::vector<std::string> const& more, std::string const& part) {
    auto const ended = run_on(2, joined(options, more));
    EXPECT_EQ(ended.exit_code, 2) << ended.err;
    ASSERT_EQ(sentences(ended).size(), 1U) << ended.err;
    EXPECT_THAT(sentences(ended).front(), HasSubstr(part));
  };
  expect_refusal({"--tuning", "schedule=static"}, "--tuning schedule says how ranks share samples");
  expect_refusal({"--tuning", "engine=reference"}, "the engine reference cannot split neurons across ranks");
}

TEST_F(Ranks, MayBeOfDifferentKinds) {
  std::vector<std::string> words = {VARVE_MPIRUN};
  for (Backend const backend : {compiled_backends().back(), compiled_backends().front()}) {
    if (words.size() > 1) words.emplace_back(":");
    words.insert(words.end(), {VARVE_MPIRUN_RANKS, "1", VARVE_COMMAND, "infer", "--network", path("net.safetensors"),
                               "--input", path("img.safetensors"), "--categories", path("mixed.tsv"), "--batch", "10",
                               "--backend", to_string(backend)});
  }
  auto const ended = run(words);
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  infer_on(1, {});
  EXPECT_EQ(read_bytes(path("mixed.tsv")), read_bytes(path("alive.tsv")));

  words.insert(words.end(), {"--precision", "double"}); // the second one only
  auto const mixed_up = run(words);
  EXPECT_EQ(mixed_up.exit_code, 2);
  ASSERT_EQ(sentences(mixed_up).size(), 1U) << mixed_up.err;
  EXPECT_THAT(sentences(mixed_up).front(), HasSubstr("--precision is double here and float on rank 0"));
}

TEST_F(Ranks, MayOutnumberTheSamples) {
  std::vector<std::string> const options = {"--samples", "5:7"};
  EXPECT_EQ(infer_on(4, options), infer_on(1, options));
}

TEST_F(Ranks, FailTogetherWithOneSentence) {
  auto const missing = run_on(2, {"infer", "--network", path("net.safetensors"), "--input", path("no.safetensors"),
                                  "--categories", path("never.tsv")});
  EXPECT_EQ(missing.exit_code, 3) << missing.err;
  ASSERT_EQ(sentences(missing).size(), 1U) << missing.err;
  EXPECT_THAT(sentences(missing).front(), HasSubstr(path("no.safetensors")));
  EXPECT_FALSE(std::filesystem::exists(path("never.tsv")));
}

TEST_F(Ranks, DoNotWaitForAPipeInTheFolderOfANetwork) { // of which only one would get the bytes
  std::filesystem::create_directory(path("net"));
  ASSERT_EQ(mkfifo(path("net/n256-l1.tsv").c_str(), 0600), 0);
  auto const ended =
      run_on(2, {"infer", "--network", path("net"), "--text", "bias=-0.15", "--input", path("img.safetensors")});
  EXPECT_EQ(ended.exit_code, 3) << ended.err;
  ASSERT_EQ(sentences(ended).size(), 1U) << ended.err;
  EXPECT_THAT(sentences(ended).front(),
              HasSubstr("reads the pipe " + path("net/n256-l1.tsv") + ", which only one of 2 ranks could read"));
}

TEST_F(Ranks, WriteNothingWhenOneFails) {
  auto const ended =
      run_on(2, {"infer", "--network", path("net.safetensors"), "--input", path("img.safetensors"), "--categories",
                 path("no/such/folder.tsv"), "--activations", path("no/such/last.safetensors")});
  EXPECT_EQ(ended.exit_code, 4) << ended.err;
  EXPECT_EQ(sentences(ended).size(), 1U) << ended.err;
  auto const memory = run_on(2, {"infer", "--network", path("net.safetensors"), "--input", path("img.safetensors"),
                                 "--memory", "device=0.0000001"});
  EXPECT_EQ(memory.exit_code, 4) << memory.err;
  EXPECT_EQ(sentences(memory).size(), 1U) << memory.err;
}

TEST_F(Ranks, WrongUsageAndHelpAreSaidOnce) {
  auto const usage = run_on(2, {"infer", "--colour", "red"});
  EXPECT_EQ(usage.exit_code, 2) << usage.err;
  EXPECT_EQ(sentences(usage).size(), 1U) << usage.err;
  auto const version = run_on(2, {"--version"});
  EXPECT_EQ(version.exit_code, 0) << version.err;
  EXPECT_EQ(std::ranges::count(version.out, '\n'), 1) << version.out;
}

TEST_F(Ranks, WrongTruthIsExitCode1) {
  varve::test::write_bytes(path("wrong.tsv"), "");
  auto const ended = run_on(2, {"infer", "--network", path("net.safetensors"), "--input", path("img.safetensors"),
                                "--truth", path("wrong.tsv")});
  EXPECT_EQ(ended.exit_code, 1) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("truth: differ\n"));
}

} // namespace
} // namespace varve
