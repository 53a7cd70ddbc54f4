#include "apps/train_folder.hpp"

#include "core/backend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

namespace varve {
namespace {

using test::expect_sentence;
using test::read_json;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;
using ::testing::Not;
using varve::test::write_bytes;

/// What `varve train` refuses or bounds, and what it tells.
class TrainLimits : public test::TrainFolder<TrainLimits> {
protected:
  /// Targets whose squared gradients exceed the largest float.
  static std::string huge_targets() {
    std::string lines;
    for (int sample = 1; sample <= 300; ++sample)
      for (int output = 1; output <= 4; ++output)
        lines += std::to_string(sample) + "\t" + std::to_string(output) + "\t1e30\n";
    write_bytes(path("huge.tsv"), lines);
    succeed({"convert", path("huge.tsv"), path("huge.safetensors"), "--text", "neurons=4"});
    return path("huge.safetensors");
  }
};

TEST_F(TrainLimits, RefusesOutputsBeforeItTrains) {
  auto const fails = [](Words options, int exit_code, std::string const& part) {
    options.insert(options.end(), {"--validation", path("train.safetensors")});
    auto const ended = run_varve(words(options));
    expect_sentence(ended, exit_code, {part}, part + ": ");
    EXPECT_EQ(ended.out, "") << part << ": it began to train";
  };
  for (std::string const option : {"--output", "--best", "--checkpoint"})
    fails({option, path("no/such/net.safetensors")}, 4, "no/such/net.safetensors");
  fails({"--history", path("no/such/loss.tsv")}, 4, "no/such/loss.tsv");
  fails({"--report", path("no/such/report.json")}, 4, "no/such/report.json");
  std::filesystem::create_directory(path("folder.safetensors"));
  for (std::string const option : {"--output", "--best", "--checkpoint"})
    fails({option, path("folder.safetensors")}, 2, "folder.safetensors is a folder");
  for (std::string const name : {"net.tsv", "net.tsv.gz", "net", "net.xyz"}) {
    fails({"--output", path(name)}, 2, "cannot hold a trained network, expected a name that ends in .safetensors");
    fails({"--best", path(name)}, 2, "cannot hold a trained network, expected a name that ends in .safetensors");
  }
  for (auto const& entry : std::filesystem::directory_iterator(folder().path()))
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".partial-"))) << "nothing is left of the attempts";
}

TEST_F(TrainLimits, TakesMiniBatchesLargerThanAllSamplesAsAllSamples) {
  auto const expected = train({"--batch", "300"});
  for (std::string const batch : {"301", "4294967296", "18446744073709551615"})
    EXPECT_EQ(train({"--batch", batch, "--report", path("large.json")}), expected) << batch;
  EXPECT_EQ(read_json(path("large.json"))["plan"]["micro_batch"], 320) << "memory is planned for all samples";
  EXPECT_EQ(read_json(path("large.json"))["steps"], 3);
}

TEST_F(TrainLimits, RefusesMoreStepsThanCanBeCounted) {
  // 12 steps an epoch: 2^63 * 12 and 2^62 * 12 are multiples of 2^64
  expect_failure({"--epochs", "9223372036854775808", "--batch", "25"}, 2, "more steps than can be counted (2^64 - 1)");
  expect_failure({"--epochs", "4611686018427387904", "--batch", "25"}, 2,
                 "4611686018427387904 epochs of 12 steps each");
}

TEST_F(TrainLimits, TrainsToTheEndIfPatienceIsEndless) {
  succeed(words({"--validation", path("train.safetensors"), "--patience", "18446744073709551615", "--report",
                 path("patient.json")}));
  EXPECT_EQ(read_json(path("patient.json"))["epochs"].size(), 3U);
}

TEST_F(TrainLimits, StopsWhenMomentsOfAdamAreInfinite) {
  auto const targets = huge_targets();
  for (auto const backend : compiled_backends()) {
    expect_failure({"--input", path("samples.safetensors"), "--targets", targets, "--loss", "mean-square",
                    "--optimizer", "adam", "--backend", to_string(backend)},
                   3, "training diverges: after step 3, layer");
  }
  expect_failure({"--input", path("samples.safetensors"), "--targets", targets, "--loss", "mean-square", "--optimizer",
                  "adam", "--checkpoint", path("huge.ckpt.safetensors"), "--checkpoint-every", "1"},
                 3, "training diverges: after step 1, layer");
  EXPECT_FALSE(std::filesystem::exists(path("huge.ckpt.safetensors")))
      << "no checkpoint holds moments that cannot be used";
  // gradients that can be squared in double are no reason to stop
  succeed(words({"--input", path("samples.safetensors"), "--targets", targets, "--loss", "mean-square", "--optimizer",
                 "adam", "--precision", "double"}));
}

TEST_F(TrainLimits, RefusesAnswersWithoutTheirSamples) {
  expect_failure({"--validation-labels", path("labels.txt")}, 2, "--validation-labels and --validation-targets need");
  expect_failure({"--validation-targets", path("labels.txt")}, 2, "--validation-labels and --validation-targets need");
}

TEST_F(TrainLimits, TellsAccuraciesWhereThereAreLabelsOnly) {
  succeed({"infer", "--network", path("d2.safetensors"), "--input", path("samples.safetensors"), "--activations",
           path("wanted.safetensors")});
  Words const targets = {"--loss",
                         "mean-square",
                         "--validation",
                         path("samples.safetensors"),
                         "--validation-targets",
                         path("wanted.safetensors"),
                         "--report",
                         path("mixed.json")};
  auto const ended = succeed(words(targets));
  EXPECT_THAT(ended.out, HasSubstr("  accuracy 0."));
  EXPECT_THAT(ended.out, Not(::testing::ContainsRegex("validation loss [0-9.]+  accuracy")));
  auto const report = read_json(path("mixed.json"));
  EXPECT_TRUE(report["epochs"][0].contains("accuracy"));
  EXPECT_FALSE(report["epochs"][0].contains("validation_accuracy"));
  EXPECT_EQ(report["labels"], path("train.safetensors"));
  EXPECT_EQ(report["validation"], path("samples.safetensors"));
  EXPECT_EQ(report["validation_targets"], path("wanted.safetensors"));
  EXPECT_FALSE(report.contains("targets") || report.contains("validation_labels"));
}

TEST_F(TrainLimits, ReportsWhyItStoppedAndTheBestEpoch) {
  succeed(words({"--report", path("plain.json")}));
  EXPECT_EQ(read_json(path("plain.json"))["stopped_by"], "epochs");
  EXPECT_TRUE(read_json(path("plain.json"))["best_epoch"].is_null());
  succeed(words({"--epochs", "60", "--rate", "3", "--rate-schedule", "constant", "--validation",
                 path("train.safetensors"), "--patience", "2", "--report", path("early.json")}));
  auto const early = read_json(path("early.json"));
  EXPECT_EQ(early["stopped_by"], "patience");
  EXPECT_EQ(early["best_epoch"].get<std::size_t>() + 2, early["epochs"].size());
}

TEST_F(TrainLimits, ShowsItsProgressWithinEpochsOnATerminal) {
  int const master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  ASSERT_GE(master, 0);
  ASSERT_EQ(grantpt(master), 0);
  ASSERT_EQ(unlockpt(master), 0);
  std::string const terminal = ptsname(master);
  int const held = open(terminal.c_str(), O_RDWR | O_NOCTTY); // so that what was written stays until it is read
  // One thread: several would wait for each other in each of 60000 steps, for minutes where others use the processors.
  auto all = words({"--batch", "1", "--epochs", "200", "--backend", "serial"});
  all.insert(all.begin(), VARVE_COMMAND);
  auto const process = test::start(all, path("out"), terminal);
  std::string shown;
  int status = 0;
  for (bool has_ended = false; !has_ended;) {
    has_ended = waitpid(process, &status, WNOHANG) != 0;
    std::array<char, 4096> some{};
    for (ssize_t count = 0; (count = read(master, some.data(), some.size())) > 0;)
      shown.append(some.data(), static_cast<std::size_t>(count));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  close(held);
  close(master);
  EXPECT_EQ(WEXITSTATUS(status), 0) << shown;
  EXPECT_THAT(shown,
              ::testing::ContainsRegex("epoch [0-9]+ +[0-9]+ samples/s, +[^ ]+ u?m?s left \\[=* *\\] [0-9]+/300"));
  EXPECT_TRUE(shown.ends_with("\033[K")) << "the line is removed";
  EXPECT_EQ(succeed(words({"--epochs", "50"})).err, "") << "nothing is shown where there is no terminal";
}

TEST_F(TrainLimits, WarnsOfLayersThatPruningEmpties) {
  auto const few = run_varve(
      {"convert", path("d1.safetensors"), path("few.safetensors"), "--prune", "0.001", "--prune", "over=network"});
  EXPECT_EQ(few.exit_code, 0);
  ASSERT_EQ(few.complaints().size(), 1U) << few.err;
  EXPECT_THAT(few.err, HasSubstr("varve: pruning leaves no edge in 2 of 3 layers"));
  succeed({"convert", path("d1.safetensors"), path("half.safetensors"), "--prune", "0.5", "--prune", "over=network"});
  succeed({"convert", path("few.safetensors"), path("fewer.safetensors"), "--prune", "0.9", "--prune",
           "over=network"}); // had no edges before
}

} // namespace
} // namespace varve
