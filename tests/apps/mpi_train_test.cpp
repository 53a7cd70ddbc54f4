#include "apps/shared_folder.hpp"

#include "core/backend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

using test::Ended;
using test::joined;
using test::read_json;
using test::run;
using test::succeed;
using ::testing::HasSubstr;
using varve::test::read_bytes;
using varve::test::write_bytes;
using Words = std::vector<std::string>;

class TrainRanks : public test::SharedFolder<TrainRanks> {
public:
  static void make_files() {
    succeed({"generate", "random", "--widths", "16,48,24,30,4", "--density", "0.5", "--cap", "4", "--seed", "9",
             "--output", path("start.safetensors")});
    succeed({"generate", "samples", "--neurons", "16", "--samples", "1500", "--density", "0.6", "--output",
             path("samples.safetensors")});
    std::string labels;
    for (int sample = 0; sample < 1500; ++sample) labels += std::to_string(sample * sample / 7 % 4) + "\n";
    write_bytes(path("labels.txt"), labels);
  }

protected:
  static Words mpirun(int ranks, Words const& options) {
    Words const all = {VARVE_MPIRUN,
                       VARVE_MPIRUN_RANKS,
                       std::to_string(ranks),
                       VARVE_COMMAND,
                       "train",
                       "--network",
                       path("start.safetensors"),
                       "--input",
                       path("samples.safetensors"),
                       "--labels",
                       path("labels.txt"),
                       "--batch",
                       "700",
                       "--tuning=share-devices=on"};
    return joined(all, options);
  }
  /// Options that name outputs of this name.
  static Words outputs(std::string const& name) {
    return {"--output",         path(name + ".safetensors"),
            "--checkpoint",     path(name + ".ckpt.safetensors"),
            "--history",        path(name + ".tsv"),
            "--receipt",        path(name + ".json"),
            "--receipt-states", "every=4"};
  }
  static void expect_same_files(std::string const& one, std::string const& other) {
    for (std::string const ending : {".safetensors", ".ckpt.safetensors", ".tsv"})
      EXPECT_TRUE(read_bytes(path(one + ending)) == read_bytes(path(other + ending))) << one << " " << ending;
    auto const receipt = [](std::string const& name) {
      auto json = read_json(path(name + ".json"));
      json.erase("made_by");
      return json;
    };
    EXPECT_EQ(receipt(one), receipt(other)) << one;
  }
  /// The sentences of the command; mpirun adds words of its own.
  static Words sentences(Ended const& ended) {
    auto lines = ended.complaints();
    std::erase_if(lines, [](std::string const& line) { return !line.starts_with("varve: "); });
    return lines;
  }
  static void expect_failure(Words const& words, int exit_code, std::string const& part) {
    auto const ended = run(words);
    EXPECT_EQ(ended.exit_code, exit_code) << ended.err;
    ASSERT_EQ(sentences(ended).size(), 1U) << ended.err;
    EXPECT_THAT(sentences(ended).front(), HasSubstr(part));
  }
  /// Waits until a file has been written again; false if that takes too long.
  static bool wait_until_written(std::string const& name, int times) {
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::filesystem::file_time_type last{};
    while (times > 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      std::error_code failure;
      auto const written = std::filesystem::last_write_time(path(name), failure);
      if (failure || written == last) continue;
      last = written;
      --times;
    }
    return times == 0;
  }
};

TEST_F(TrainRanks, WriteTheSameFilesAsOne) {
  Words const recipe = {"--optimizer",
                        "adam",
                        "--epochs",
                        "4",
                        "--validation",
                        path("samples.safetensors"),
                        "--validation-labels",
                        path("labels.txt"),
                        "--report",
                        path("report.json")};
  auto const one = run(mpirun(1, joined(recipe, outputs("one"))));
  ASSERT_EQ(one.exit_code, 0) << one.err;
  for (int ranks = 2; ranks <= 5; ++ranks) {
    for (auto const backend : compiled_backends()) {
      std::filesystem::remove(path("several.ckpt.safetensors"));
      std::filesystem::remove(path("several.ckpt.safetensors.previous"));
      auto const several =
          run(mpirun(ranks, joined(joined(recipe, outputs("several")), {"--backend", to_string(backend)})));
      ASSERT_EQ(several.exit_code, 0) << several.err;
      expect_same_files("several", "one");
      EXPECT_EQ(std::ranges::count(several.out, '\n'), std::ranges::count(one.out, '\n') + ranks + 1)
          << "one rank speaks for all, and says where and what each did";
      auto const report = read_json(path("report.json"));
      EXPECT_EQ(report["ranks"], ranks);
      ASSERT_EQ(report["run"]["ranks"].size(), static_cast<std::size_t>(ranks));
      std::uint64_t num_leaves = 0;
      for (auto const& rank : report["run"]["ranks"]) {
        num_leaves += rank["leaves"].get<std::uint64_t>();
        EXPECT_GT(rank["exchange_seconds"].get<double>(), 0.0);
        EXPECT_GE(rank["wait_seconds"].get<double>(), 0.0);
        EXPECT_GE(rank["processor_wait_seconds"].get<double>(), 0.0);
        EXPECT_GT(rank["exchange_bytes"].get<double>(), 0.0);
      }
      EXPECT_EQ(num_leaves, 4U * (11 + 11 + 2));
    }
  }
}

TEST_F(TrainRanks, WriteTheSameFilesByMessagesAndByMemory) {
  Words const recipe = {"--optimizer", "adam", "--epochs", "3", "--backend", "serial", "--report", path("report.json")};
  ASSERT_EQ(run(mpirun(1, joined(recipe, outputs("alone")))).exit_code, 0);
  for (auto const& [setting, way] : {std::pair("on", "memory"), std::pair("off", "messages")}) {
    auto const ended =
        run(mpirun(3, joined(recipe, joined(outputs(setting), {"--tuning", std::string("peer-memory=") + setting}))));
    ASSERT_EQ(ended.exit_code, 0) << ended.err;
    expect_same_files(setting, "alone");
    EXPECT_EQ(read_json(path("report.json"))["run"]["exchange"], way);
    EXPECT_THAT(ended.out, HasSubstr(std::string(" through ") + way));
  }
  expect_failure(mpirun(2, joined(recipe, joined(outputs("never"), {"--tuning", "peer-memory=maybe"}))), 2,
                 "peer-memory");
}

TEST_F(TrainRanks, ChangeThePatternToTheSameOne) {
  for (std::string const pattern : {"set", "rigl"}) {
    Words const recipe = {"--pattern", pattern, "--pattern", "every=2", "--optimizer", "adam", "--epochs", "4"};
    auto const one = run(mpirun(1, joined(recipe, outputs(pattern))));
    ASSERT_EQ(one.exit_code, 0) << one.err;
    for (int const ranks : {2, 3}) {
      auto const name = pattern + std::to_string(ranks);
      auto const several = run(mpirun(ranks, joined(recipe, joined(outputs(name), {"--report", path("report.json")}))));
      ASSERT_EQ(several.exit_code, 0) << several.err;
      expect_same_files(name, pattern);
      EXPECT_EQ(read_json(path("report.json"))["pattern_changes"].size(), 4U) << "before steps 2 to 8 of 12";
    }
  }
}

TEST_F(TrainRanks, GoOnWithAnotherNumberAfterARankWasLost) {
  Words const recipe = {"--epochs", "60", "--checkpoint-every", "1"};
  auto const whole = run(mpirun(1, joined(recipe, outputs("whole"))));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  for (int const ranks : {3, 2}) {
    auto const job = test::start(mpirun(ranks, joined(recipe, outputs("lost"))), path("out"), path("err"));
    EXPECT_TRUE(wait_until_written("lost.ckpt.safetensors", 8));
    auto const id = std::to_string(job);
    std::ifstream children("/proc/" + id + "/task/" + id + "/children");
    pid_t first = 0;
    pid_t second = 0;
    ASSERT_TRUE(children >> first >> second) << "the training has ended too early";
    kill(second, SIGKILL);
    EXPECT_NE(test::wait_for(job), 0);
  }
  auto const ended = run(mpirun(4, joined(recipe, outputs("lost"))));
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("resumed   after step"));
  expect_same_files("lost", "whole");
}

TEST_F(TrainRanks, StopTogetherBySignal) {
  Words const recipe = {"--epochs", "100000"};
  auto const job = test::start(mpirun(2, joined(recipe, outputs("stopped"))), path("out"), path("err"));
  EXPECT_TRUE(wait_until_written("stopped.ckpt.safetensors", 2));
  kill(job, SIGUSR1); // mpirun passes it on
  EXPECT_EQ(test::wait_for(job), 5);
  Ended const ended{5, "", read_bytes(path("err"))};
  ASSERT_EQ(sentences(ended).size(), 1U) << ended.err;
  EXPECT_THAT(sentences(ended).front(), HasSubstr("stopped after step"));
}

TEST_F(TrainRanks, FailTogetherWithOneSentence) {
  Words const output = {"--output", path("never.safetensors")};
  expect_failure(mpirun(2, joined(output, {"--validation", path("no.safetensors")})), 3, "no.safetensors");
  expect_failure(mpirun(3, joined(output, {"--rate", "1e39", "--rate-schedule", "constant"})), 3,
                 "training diverges: after step");
  expect_failure(mpirun(2, joined(output, {"--optimizer", "best"})), 2, "there is no optimizer 'best'");
  expect_failure(mpirun(2, joined(output, {"--memory", "device=1e-6"})), 4, "bytes may be used");
  expect_failure(mpirun(2, {"--output", path("no/such/folder.safetensors")}), 4, "folder.safetensors");
  expect_failure(mpirun(2, joined(output, {"--history", path("no/such/loss.tsv")})), 4, "loss.tsv");
  expect_failure(mpirun(2, joined(output, {"--report", path("no/such/report.json")})), 4, "report.json");
  expect_failure(mpirun(2, {"--output", path("never.tsv")}), 2, "cannot hold a trained network");
  expect_failure(mpirun(2, joined(output, {"--epochs", "9223372036854775808"})), 2, "more steps than can be counted");
  EXPECT_FALSE(std::filesystem::exists(path("never.safetensors")));
}

TEST_F(TrainRanks, StopTogetherWhenMomentsOfAdamAreInfinite) {
  std::string lines;
  for (int sample = 1; sample <= 1500; ++sample)
    for (int output = 1; output <= 4; ++output)
      lines += std::to_string(sample) + "\t" + std::to_string(output) + "\t1e30\n";
  write_bytes(path("huge.tsv"), lines);
  succeed({"convert", path("huge.tsv"), path("huge.safetensors"), "--text", "neurons=4"});
  auto words = mpirun(3, {"--output", path("never.safetensors"), "--loss", "mean-square", "--targets",
                          path("huge.safetensors"), "--optimizer", "adam"});
  words.erase(std::ranges::find(words, "--labels"), std::ranges::find(words, "--labels") + 2);
  expect_failure(words, 3, "has a moment of Adam that is no finite number");
}

TEST_F(TrainRanks, GoOnFromACheckpointOfTheSameDataOnly) {
  ASSERT_EQ(run(mpirun(3, outputs("data"))).exit_code, 0);
  std::string labels;
  for (int sample = 0; sample < 1500; ++sample) labels += std::to_string(sample % 4) + "\n";
  write_bytes(path("other.txt"), labels);
  auto words = mpirun(2, outputs("data"));
  *(std::ranges::find(words, "--labels") + 1) = path("other.txt");
  expect_failure(words, 3, "data.ckpt.safetensors is a checkpoint of a training with other labels or targets");
}

TEST_F(TrainRanks, RefuseDifferentOptions) {
  auto words = mpirun(1, outputs("mixed"));
  words.emplace_back(":");
  auto second = mpirun(1, outputs("mixed"));
  words.insert(words.end(), second.begin() + 1, second.end());
  auto const different = joined(words, {"--seed", "2"}); // of the second rank
  expect_failure(different, 2, "--seed is 2 here and 1 on rank 0");
  auto const other_backend = joined(words, {"--backend", to_string(compiled_backends().back())});
  EXPECT_EQ(run(other_backend).exit_code, 0) << "ranks may compute in different ways";
}

} // namespace
} // namespace varve
